"""Runs that are continued, and those that must not be."""

import os

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
    for _ in range(2):  # The first is killed before it has shards.
        with corpus_manifest.reserved(folder):
            assert begin(folder) is None
    with corpus_manifest.reserved(folder):
        corpus_manifest.record(folder, SETTINGS, FILES, SHARDS)
    (folder / "shard-000000.jsonl").touch()
    with corpus_manifest.reserved(folder):
        assert begin(folder) == SHARDS


def test_two_runs_in_a_folder(tmp_path):
    with corpus_manifest.reserved(tmp_path):
        with pytest.raises(
            ValueError, match=f"no other.*process {os.getpid()}"
        ):
            with corpus_manifest.reserved(tmp_path):
                pytest.fail("Both have it.")


def test_two_runs_that_begin_without_locks(tmp_path):
    corpus_manifest.record(tmp_path, SETTINGS, FILES, SHARDS)
    with pytest.raises(ValueError, match="in which no other run begins"):
        corpus_manifest.record(tmp_path, SETTINGS, FILES, SHARDS[:1])
    assert begin(tmp_path) == SHARDS
    assert [p.name for p in tmp_path.iterdir()] == [corpus_manifest.NAME]


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
        with corpus_manifest.reserved(tmp_path):
            pytest.fail("It may be written to.")
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"settings": {}}'])
def test_manifests_that_are_none(tmp_path, content):
    (tmp_path / corpus_manifest.NAME).write_text(content)
    with pytest.raises(ValueError, match="manifest.json: expected"):
        begin(tmp_path)
