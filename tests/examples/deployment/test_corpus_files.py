"""Files of texts, cut into shards and read."""

import json
import os
import re

import pytest

pa = pytest.importorskip("pyarrow", reason="needs keras_seqmech[scaling]")

from pyarrow import parquet  # noqa: E402

from examples.deployment import corpus_files  # noqa: E402
from examples.deployment.corpus_files import Fields  # noqa: E402
from examples.deployment.corpus_files import Row  # noqa: E402

FIELDS = Fields("text", "id")
ROWS = [{"id": i, "text": f"text {i} 字\n\u2028", "x": None} for i in range(11)]
EXPECTED = [Row(i, row["text"], str(i)) for i, row in enumerate(ROWS)]


def write_lines(path, lines):
    path.write_bytes(b"\n".join(lines))
    return path


def as_lines(path):
    return write_lines(path, [json.dumps(row).encode() for row in ROWS])


def as_lines_with_last_end(path):
    lines = [json.dumps(row, ensure_ascii=False).encode() for row in ROWS]
    return write_lines(path, [line + b"\r" for line in lines] + [b""])


def as_parquet(path, group=4):
    table = pa.Table.from_pylist(ROWS)
    parquet.write_table(table, path, row_group_size=group)
    return path


def shards_of(path, rows, fields=FIELDS):
    return corpus_files.split(corpus_files.find([path]), rows, fields)


@pytest.mark.parametrize("shard_rows", [1, 3, 4, 10, 11, 50])
@pytest.mark.parametrize(
    "write, name",
    [
        (as_lines, "a.jsonl"),
        (as_lines_with_last_end, "a.jsonl"),
        (as_parquet, "a.parquet"),
    ],
)
def test_shards_hold_each_row_once(tmp_path, write, name, shard_rows):
    shards = shards_of(write(tmp_path / name), shard_rows)
    assert [shard.number for shard in shards] == list(range(len(shards)))
    assert all(shard.rows == shard_rows for shard in shards[:-1])
    read = [list(corpus_files.read(shard, FIELDS)) for shard in shards]
    assert [len(rows) for rows in read] == [shard.rows for shard in shards]
    assert [row for rows in read for row in rows] == EXPECTED


def test_folders_are_read_in_the_order_of_names(tmp_path):
    for name in ("b.jsonl", "a.parquet", "notes.txt"):
        (tmp_path / name).touch()
    found = [os.path.basename(f.path) for f in corpus_files.find([tmp_path])]
    assert found == ["a.parquet", "b.jsonl"]


@pytest.mark.parametrize("names", [["none"], ["a.txt"], ["folder"], []])
def test_inputs_that_are_no_files_of_texts(tmp_path, names):
    (tmp_path / "a.txt").touch()
    (tmp_path / "folder").mkdir()
    with pytest.raises(ValueError, match="`inputs`.*Received: inputs="):
        corpus_files.find([tmp_path / name for name in names])


def test_a_file_that_is_named_twice(tmp_path):
    path = as_lines(tmp_path / "a.jsonl")
    with pytest.raises(ValueError, match="each once.*a.jsonl"):
        corpus_files.find([path, tmp_path])


@pytest.mark.parametrize(
    "line, reason",
    [
        (b"{", "a JSON object in UTF-8"),
        (b"[1]", r"a JSON object in UTF-8 \(not an object\). Received: '\[1\]"),
        (b"", "a JSON object in UTF-8"),
        (b'{"id": 1, "text": "\xff"}', "in UTF-8 .*'utf-8' codec"),
        (b'{"id": 1}', "in field 'text'. Received: no such field"),
        (b'{"id": 1, "text": null}', "in field 'text'. Received: None"),
        (b'{"id": 1, "text": 5}', "in field 'text'. Received: 5"),
        (b'{"id": 1, "text": "\\ud800"}', "string of Unicode characters"),
        (b'{"text": "a"}', "in field 'id'. Received: no such field"),
        (b'{"id": true, "text": "a"}', "in field 'id'. Received: True"),
        (b'{"id": 1.5, "text": "a"}', "in field 'id'. Received: 1.5"),
    ],
)
def test_bad_lines_are_named_and_others_read(tmp_path, line, reason):
    good = b'{"id": "k", "text": "a"}'
    path = write_lines(tmp_path / "a.jsonl", [good, good, line, good])
    (_, shard) = shards_of(path, 2)
    bad, row = corpus_files.read(shard, FIELDS)
    assert bad.number == 2
    assert re.match(rf"{path}, line 3: expected .*{reason}", bad.reason)
    assert row == Row(3, "a", "k")


def test_bad_rows_of_parquet(tmp_path):
    table = pa.table({"text": ["a", None, "b"], "id": [1, 2, None]})
    parquet.write_table(table, tmp_path / "a.parquet")
    (shard,) = shards_of(tmp_path / "a.parquet", 9)
    good, no_text, no_id = corpus_files.read(shard, FIELDS)
    assert good == Row(0, "a", "1")
    assert "a.parquet, row 1: expected a string" in no_text.reason
    assert "in field 'id'. Received: None" in no_id.reason


def test_files_without_rows_or_fields(tmp_path):
    (tmp_path / "a.jsonl").touch()
    with pytest.raises(ValueError, match="a.jsonl: expected at least one row"):
        shards_of(tmp_path / "a.jsonl", 5)
    path = as_parquet(tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="field 'body'.*'id', 'text', 'x'"):
        shards_of(path, 5, Fields("body", None))
    path.write_bytes(b"PAR1 or not")
    with pytest.raises(ValueError, match="a.parquet: expected a Parquet file"):
        shards_of(path, 5)


def test_a_file_that_has_changed_is_not_read(tmp_path):
    path = as_lines(tmp_path / "a.jsonl")
    (shard,) = shards_of(path, 50)
    with path.open("ab") as file:
        file.write(b"\n")
    with pytest.raises(ValueError, match="a.jsonl: changed since"):
        list(corpus_files.read(shard, FIELDS))
