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
        (as_parquet, "a.PARQUET"),
    ],
)
def test_shards_hold_each_row_once(tmp_path, write, name, shard_rows):
    shards = shards_of(write(tmp_path / name), shard_rows)
    assert [shard.number for shard in shards] == list(range(len(shards)))
    assert all(shard.rows == shard_rows for shard in shards[:-1])
    read = [list(corpus_files.read(shard, FIELDS)) for shard in shards]
    assert [len(rows) for rows in read] == [shard.rows for shard in shards]
    assert [row for rows in read for row in rows] == EXPECTED


def test_a_few_rows_of_a_large_row_group(tmp_path, monkeypatch):
    path = as_parquet(tmp_path / "a.parquet", group=8)
    monkeypatch.setattr(corpus_files, "_PARQUET_ROWS", 2)
    held = []

    class Counted(parquet.ParquetFile):
        def iter_batches(self, *args, **kwargs):
            for batch in super().iter_batches(*args, **kwargs):
                held.append((batch.num_rows, batch.schema.names))
                yield batch

    monkeypatch.setattr(parquet, "ParquetFile", Counted)
    shard = shards_of(path, 3)[1]
    assert list(corpus_files.read(shard, FIELDS)) == EXPECTED[3:6]
    assert held == [(2, ["text", "id"])] * 3  # Rows 0 to 5 of 8.


def touch(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def found_in(folder, *inputs):
    files = corpus_files.find(inputs or [folder])
    return [os.path.relpath(file.path, folder) for file in files]


def test_folders_are_searched_in_the_order_of_names(tmp_path, capsys):
    expected = ["A.JSONL", "a.parquet/part-0.Parquet", "b.jsonl", "c/d/e.jsonl"]
    touch(tmp_path, *expected)
    touch(tmp_path, ".b.jsonl", ".git/x.jsonl", "c/.cache/x.jsonl")
    touch(tmp_path, "a.parquet/_SUCCESS", "_metadata.parquet", "_tmp/x.jsonl")
    assert found_in(tmp_path) == expected
    assert not capsys.readouterr().out


def test_files_of_other_kinds_are_printed(tmp_path, capsys):
    touch(tmp_path, "a.jsonl", "b/1.txt", "b/2.json", "b/3", "b/4.csv")
    assert found_in(tmp_path) == ["a.jsonl"]
    (line,) = capsys.readouterr().out.splitlines()
    names = [str(tmp_path / "b" / name) for name in ("1.txt", "2.json", "3")]
    assert line == f"Left out, of other kinds: 4 ({', '.join(names)}, ...)"


@pytest.mark.parametrize("name", ["b.jsonl.gz", "B.Parquet.ZST"])
def test_compressed_files_are_refused(tmp_path, name):
    touch(tmp_path, "a.jsonl", name)
    for path in (tmp_path, tmp_path / name):
        with pytest.raises(ValueError, match=f"not compressed.*{name}"):
            corpus_files.find([path])


def test_files_of_a_folder_that_is_a_link(tmp_path):
    touch(tmp_path, "real/a.jsonl", "texts/b.jsonl")
    (tmp_path / "texts/more").symlink_to(tmp_path / "real")
    inside = ["texts/b.jsonl", "texts/more/a.jsonl"]
    assert found_in(tmp_path, tmp_path / "texts") == inside
    with pytest.raises(ValueError, match="each once.*/real/a.jsonl.*/more/a"):
        corpus_files.find([tmp_path / "real", tmp_path / "texts"])


def test_a_folder_that_holds_itself(tmp_path):
    touch(tmp_path, "a/b/c.jsonl")
    (tmp_path / "a/b/again").symlink_to(tmp_path / "a")
    with pytest.raises(ValueError, match="hold themselves.*a/b/again"):
        corpus_files.find([tmp_path])


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
        (b"[" * 200_000, r"a JSON object in UTF-8 \(maximum recursion.*\[\["),
        (b"\xef\xbb\xbf{}", "a JSON object in UTF-8 .*BOM"),
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


def test_a_byte_order_mark_is_no_part_of_a_file(tmp_path):
    path = as_lines(tmp_path / "a.jsonl")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    shards = shards_of(path, 3)
    read = [row for shard in shards for row in corpus_files.read(shard, FIELDS)]
    assert read == EXPECTED


def test_files_without_rows(tmp_path, capsys):
    (tmp_path / "a.jsonl").touch()
    parquet.write_table(pa.table({}), tmp_path / "b.parquet")
    with pytest.raises(ValueError, match="one row in all.*2 .*a.jsonl"):
        shards_of(tmp_path, 5)
    as_lines(tmp_path / "c.jsonl")
    shards = shards_of(tmp_path, 6)
    assert [(s.number, s.first, s.rows) for s in shards] == [
        (0, 0, 6),
        (1, 6, 5),
    ]
    printed = capsys.readouterr().out
    assert printed == (
        f"Without rows: 2 ({tmp_path}/a.jsonl, {tmp_path}/b.parquet)\n"
    )


def test_files_without_fields(tmp_path):
    path = as_parquet(tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="field 'body'.*'id', 'text', 'x'"):
        shards_of(path, 5, Fields("body", None))


def test_damaged_parquet_is_named(tmp_path):
    path = as_parquet(tmp_path / "a.parquet")
    (shard, *_) = shards_of(path, 5)
    whole = path.read_bytes()
    footer = int.from_bytes(whole[-8:-4], "little") + 8
    message = "a.parquet: expected a Parquet file"
    for content in (
        b"PAR1 or not",
        whole[:-footer] + b"\xff" * (footer - 8) + whole[-8:],
    ):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=message):
            shards_of(path, 5)
    path.write_bytes(b"\xff" * (len(whole) - footer) + whole[-footer:])
    shard = shard._replace(file=corpus_files.look_at(str(path)))
    with pytest.raises(ValueError, match=message):
        list(corpus_files.read(shard, FIELDS))


def test_a_file_that_has_changed_is_not_read(tmp_path):
    path = as_lines(tmp_path / "a.jsonl")
    (shard,) = shards_of(path, 50)
    with path.open("ab") as file:
        file.write(b"\n")
    with pytest.raises(ValueError, match="a.jsonl: changed since"):
        list(corpus_files.read(shard, FIELDS))
