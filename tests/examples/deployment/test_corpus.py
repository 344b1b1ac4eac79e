"""Files of texts cut into shards, and folders of scores."""

import json
import os
import re

import pyarrow as pa
import pytest
from pyarrow import parquet

from examples.deployment import corpus
from examples.deployment.corpus import Fields
from examples.deployment.corpus import Row

FIELDS = Fields("text", "id")
ROWS = [{"id": i, "text": f"text {i} 字\n\u2028", "x": None} for i in range(11)]
EXPECTED = [Row(i, row["text"], str(i)) for i, row in enumerate(ROWS)]
SETTINGS = {"model": "1f", "id_field": None, "batch_size": 8}


def write_lines(path, lines):
    path.write_bytes(b"\n".join(lines))
    return path


def as_lines(path):
    return write_lines(path, [json.dumps(row).encode() for row in ROWS])


def as_lines_of_an_editor(path):
    """With a byte order mark, and other ends of lines."""
    lines = [json.dumps(row, ensure_ascii=False).encode() for row in ROWS]
    lines[0] = b"\xef\xbb\xbf" + lines[0]
    return write_lines(path, [line + b"\r" for line in lines] + [b""])


def as_parquet(path, group=4):
    table = pa.Table.from_pylist(ROWS)
    parquet.write_table(table, path, row_group_size=group)
    return path


def shards_of(path, rows):
    return corpus.split(corpus.find([path]), rows)


@pytest.mark.parametrize(
    "write, name, shard_rows",
    [
        (as_lines, "a.jsonl", 11),
        (as_lines_of_an_editor, "a.JSONL", 4),
        (as_parquet, "a.parquet", 3),
        (as_parquet, "a.PARQUET", 10),
    ],
)
def test_shards_hold_each_row_once(tmp_path, write, name, shard_rows):
    shards = shards_of(write(tmp_path / name), shard_rows)
    assert [shard.number for shard in shards] == list(range(len(shards)))
    assert all(shard.rows == shard_rows for shard in shards[:-1])
    read = [list(corpus.read(shard, FIELDS)) for shard in shards]
    assert [len(rows) for rows in read] == [shard.rows for shard in shards]
    assert [row for rows in read for row in rows] == EXPECTED


def test_a_few_rows_of_a_large_row_group(tmp_path, monkeypatch):
    path = as_parquet(tmp_path / "a.parquet", group=8)
    monkeypatch.setattr(corpus, "_PARQUET_ROWS", 2)
    held = []

    class Counted(parquet.ParquetFile):
        def iter_batches(self, *args, **kwargs):
            for batch in super().iter_batches(*args, **kwargs):
                held.append((batch.num_rows, batch.schema.names))
                yield batch

    monkeypatch.setattr(parquet, "ParquetFile", Counted)
    shard = shards_of(path, 3)[1]
    assert list(corpus.read(shard, FIELDS)) == EXPECTED[3:6]
    assert held == [(2, ["text", "id"])] * 3  # Rows 0 to 5 of 8.


def touch(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def test_folders_are_searched_in_the_order_of_names(tmp_path):
    expected = ["A.JSONL", "a.parquet/part-0.Parquet", "b.jsonl", "c/d/e.jsonl"]
    touch(tmp_path, *expected)
    touch(tmp_path, ".b.jsonl", ".git/x.jsonl", "c/.cache/x.jsonl")
    touch(tmp_path, "a.parquet/_SUCCESS", "_metadata.parquet", "_tmp/x.jsonl")
    touch(tmp_path, "b.txt", "c.jsonl.gz")
    files = corpus.find([tmp_path])
    assert [os.path.relpath(x.path, tmp_path) for x in files] == expected
    for name in ("none", "b.txt", "_tmp/y.jsonl"):
        with pytest.raises(ValueError, match="`inputs`.*Received: inputs="):
            corpus.find([tmp_path / name])


@pytest.mark.parametrize(
    "line, reason",
    [
        (b"{", "a JSON object. Received: Expecting property"),
        (b"[1]", r"a JSON object. Received: \[1\]"),
        (b"", "a JSON object"),
        (b'{"id": 1, "text": "\xff"}', "a JSON object.*'utf-8' codec"),
        (b'{"id": 1}', "str in field 'text'. Received: None"),
        (b'{"id": 1, "text": 5}', "str in field 'text'. Received: 5"),
        (b'{"text": "a"}', "str or int in field 'id'. Received: None"),
        (
            b'{"id": true, "text": "a"}',
            "str or int in field 'id'. Received: True",
        ),
    ],
)
def test_bad_lines_are_named_and_others_read(tmp_path, line, reason):
    good = b'{"id": "k", "text": "a"}'
    path = write_lines(tmp_path / "a.jsonl", [good, good, line, good])
    (_, shard) = shards_of(path, 2)
    bad, row = corpus.read(shard, FIELDS)
    assert bad.number == 2
    assert re.match(f"expected {reason}", bad.reason)
    assert row == Row(3, "a", "k")


def test_bad_rows_of_parquet(tmp_path):
    table = pa.table({"text": ["a", None, "b"], "id": [1, 2, None]})
    parquet.write_table(table, tmp_path / "a.parquet")
    (shard,) = shards_of(tmp_path / "a.parquet", 9)
    good, no_text, no_id = corpus.read(shard, FIELDS)
    assert good == Row(0, "a", "1")
    assert (no_text.number, no_id.number) == (1, 2)
    assert "expected str in field 'text'" in no_text.reason
    assert "in field 'id'. Received: None" in no_id.reason


def folder_of(path, id_field=None):
    return corpus.ScoreFolder(path, id_field)


def test_another_run_is_refused(tmp_path):
    touch(tmp_path, "texts/a.jsonl", "texts/c.jsonl")
    path = as_lines(tmp_path / "texts/b.jsonl")
    files = corpus.find([tmp_path / "texts"])
    folder = folder_of(tmp_path / "new" / "scored")

    def begin(settings=SETTINGS, files=files):
        with folder.reserved():
            return folder.shards(settings, files, 6)

    folder.path.mkdir(parents=True)
    touch(folder.path, "manifest.json.7.part")  # Of a run that was killed.
    shards = begin()
    assert [shard.file.path for shard in shards] == [str(path)] * 2
    touch(folder.path, "shard-000000.jsonl")
    assert begin() == shards
    touched = [files[0], files[1]._replace(modified_ns=9), files[2]]
    for settings, given, message in (
        ({**SETTINGS, "model": "2e"}, files, "model='2e', then '1f'"),
        ({**SETTINGS, "id_field": "k"}, files, "id_field='k', then None"),
        (SETTINGS, files[:2], "files=.*, then .*b.jsonl"),
        (SETTINGS, files[::-1], "files=.*c.jsonl.*, then .*a.jsonl"),
        (SETTINGS, touched, "files=.* 9]"),
    ):
        with pytest.raises(ValueError, match=f"holds a run that.*{message}"):
            begin(settings, given)
    touch(tmp_path, "others/thesis.txt")
    with pytest.raises(ValueError, match=r"`output` .*\['thesis.txt'\]"):
        with folder_of(tmp_path / "others").reserved():
            pytest.fail("It may be written to.")


def test_files_without_rows_and_files_that_change(tmp_path):
    (tmp_path / "a.jsonl").touch()
    assert shards_of(tmp_path, 5) == []
    path = as_lines(tmp_path / "c.jsonl")
    first, second = shards_of(tmp_path, 6)
    assert (first.first, first.rows, second.first, second.rows) == (0, 6, 6, 5)
    with path.open("ab") as file:
        file.write(b"\n")
    with pytest.raises(ValueError, match="c.jsonl: changed since"):
        list(corpus.read(first, FIELDS))
