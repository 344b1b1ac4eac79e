"""Runs that are continued, and those that must not be."""

import pytest

pytest.importorskip("pyarrow", reason="needs keras_seqmech[scaling]")

from examples.deployment import corpus_manifest  # noqa: E402
from examples.deployment.corpus_files import CorpusFile  # noqa: E402
from examples.deployment.corpus_files import Shard  # noqa: E402

FILES = [CorpusFile("/a.jsonl", 90, 7), CorpusFile("/b.jsonl", 10, 8)]
SHARDS = [
    Shard(0, FILES[0], 0, 10, 0),
    Shard(1, FILES[0], 10, 5, 60),
    Shard(2, FILES[1], 0, 2, 0),
]
SETTINGS = {"model": "1f", "id_field": None, "batch_size": 8}


def begin(folder, settings=SETTINGS, files=FILES):
    return corpus_manifest.begin(folder, settings, files)


def test_a_run_continues_with_its_shards(tmp_path):
    folder = tmp_path / "new" / "scored"
    assert begin(folder) is None
    assert begin(folder) is None  # It was killed before it had shards.
    corpus_manifest.record(folder, SETTINGS, FILES, SHARDS)
    assert begin(folder) == SHARDS


@pytest.mark.parametrize(
    "settings, files, message",
    [
        ({**SETTINGS, "model": "2e"}, FILES, "model='2e', then '1f'"),
        ({**SETTINGS, "id_field": "k"}, FILES, "id_field='k', then None"),
        (SETTINGS, FILES[:1], "None, then CorpusFile.path='/b.jsonl'"),
        (SETTINGS, FILES[::-1], "/b.jsonl.*, then .*/a.jsonl"),
        (
            SETTINGS,
            [FILES[0]._replace(modified_ns=9), FILES[1]],
            "modified_ns=9.*, then .*modified_ns=7",
        ),
    ],
)
def test_another_run_is_refused(tmp_path, settings, files, message):
    corpus_manifest.record(tmp_path, SETTINGS, FILES, SHARDS)
    with pytest.raises(ValueError, match=f"holds a run that.*{message}"):
        begin(tmp_path, settings, files)


def test_folders_of_something_else(tmp_path):
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(ValueError, match=r"`output` .*\['thesis.txt'\]"):
        begin(tmp_path)


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"settings": {}}'])
def test_manifests_that_are_none(tmp_path, content):
    (tmp_path / corpus_manifest.NAME).write_text(content)
    with pytest.raises(ValueError, match="manifest.json: expected"):
        begin(tmp_path)
