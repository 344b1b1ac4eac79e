"""Files of texts, JSON lines or Parquet, cut into shards of rows.

A shard is a range of rows of one file, small enough to be held in memory. Rows
are numbered from 0 in each file; in JSON lines, row 0 is line 1.
"""

import json
import os
from collections.abc import Iterable
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from typing import NamedTuple

try:
    import pyarrow as pa
    from pyarrow import parquet
except ImportError as error:
    raise ImportError(
        "Files of texts need `pip install keras_seqmech[scaling]`."
    ) from error

ENDINGS = (".jsonl", ".parquet")


class CorpusFile(NamedTuple):
    """A file, and what tells whether it is still the same."""

    path: str
    size: int
    modified_ns: int


class Shard(NamedTuple):
    """Rows of a file.

    Attributes:
        number: Among all shards of the corpus.
        file: What the rows are in.
        first: Number of the first row.
        rows: How many there are.
        offset: Bytes before the first row; 0 in Parquet.
    """

    number: int
    file: CorpusFile
    first: int
    rows: int
    offset: int


class Fields(NamedTuple):
    """Names of the fields that are read; `id` may be None."""

    text: str
    id: str | None


class Row(NamedTuple):
    """A text, with the number of its row and its id."""

    number: int
    text: str
    id: str | None


class BadRow(NamedTuple):
    """A row that holds no text, and why not."""

    number: int
    reason: str


def find(inputs: Iterable[str | Path]) -> list[CorpusFile]:
    """The files that are named, and those in folders that are named.

    Raises:
        ValueError: If there is none, or one is missing, of another kind, or
            named twice.
    """
    paths: list[Path] = []
    for path in map(Path, inputs):
        inside = sorted(path.iterdir()) if path.is_dir() else [path]
        found = [p for p in inside if p.suffix in ENDINGS and p.is_file()]
        if not found:
            raise ValueError(
                f"Argument `inputs` must name files that end in "
                f"{' or '.join(ENDINGS)}, or folders of them. "
                f"Received: inputs={str(path)!r}"
            )
        paths += found
    names = [str(path.absolute()) for path in paths]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice or not names:
        raise ValueError(
            "Argument `inputs` must name at least one file, and each once. "
            f"Received: inputs={twice}"
        )
    return [look_at(name) for name in names]


def look_at(path: str) -> CorpusFile:
    """What tells a file from another of its name."""
    found = os.stat(path)
    return CorpusFile(path, found.st_size, found.st_mtime_ns)


def split(
    files: Iterable[CorpusFile], shard_rows: int, fields: Fields
) -> list[Shard]:
    """Cuts files into shards of `shard_rows` rows; a file's last may be less.

    Raises:
        ValueError: If a file has no rows, or no fields of these names.
    """
    shards: list[Shard] = []
    for file in files:
        if file.path.endswith(".parquet"):
            starts, rows = _parquet_starts(file.path, shard_rows, fields)
        else:
            starts, rows = _line_starts(file.path, shard_rows)
        if not rows:
            raise ValueError(
                f"{file.path}: expected at least one row. "
                "Received: an empty file"
            )
        for i, offset in enumerate(starts):
            first = i * shard_rows
            count = min(shard_rows, rows - first)
            shards.append(Shard(len(shards), file, first, count, offset))
    return shards


def read(shard: Shard, fields: Fields) -> Iterator[Row | BadRow]:
    """Reads the rows of a shard, in order.

    Raises:
        ValueError: If the file is not what it was when it was split.
    """
    if look_at(shard.file.path) != shard.file:
        raise ValueError(
            f"{shard.file.path}: changed since the run began. "
            f"Received: {look_at(shard.file.path)}"
        )
    if shard.file.path.endswith(".parquet"):
        yield from _read_parquet(shard, fields)
    else:
        yield from _read_lines(shard, fields)


def _line_starts(path, shard_rows) -> tuple[list[int], int]:
    """The offset of each shard, and the number of lines."""
    starts, rows, offset = [], 0, 0
    with open(path, "rb") as file:
        for line in file:
            if rows % shard_rows == 0:
                starts.append(offset)
            rows += 1
            offset += len(line)
    return starts, rows


def _parquet_starts(path, shard_rows, fields) -> tuple[list[int], int]:
    with _open_parquet(path) as file:
        names, rows = file.schema_arrow.names, file.metadata.num_rows
    for name in filter(None, fields):
        if name not in names:
            raise ValueError(
                f"{path}: expected a field {name!r}. Received: fields={names}"
            )
    return [0] * -(-rows // shard_rows), rows


def _read_lines(shard, fields):
    with open(shard.file.path, "rb") as file:
        file.seek(shard.offset)
        for number in range(shard.first, shard.first + shard.rows):
            line = file.readline()
            try:
                value = json.loads(line.decode("utf8"))
                if not isinstance(value, dict):
                    raise ValueError("not an object")
            except ValueError as error:
                start = line[:60].decode("utf8", "replace")
                where = f"{shard.file.path}, line {number + 1}"
                yield BadRow(
                    number,
                    f"{where}: expected a JSON object in UTF-8 ({error}). "
                    f"Received: {start!r}",
                )
            else:
                yield _row(f"line {number + 1}", number, value, shard, fields)


def _read_parquet(shard, fields):
    end = shard.first + shard.rows
    names = list(filter(None, fields))
    with _open_parquet(shard.file.path) as file:
        groups, before, seen = [], 0, 0
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if seen + rows <= shard.first:
                before += rows
            elif seen < end:
                groups.append(group)
            seen += rows
        table = file.read_row_groups(groups, columns=names)
    values = table.slice(shard.first - before, shard.rows).to_pylist()
    for number, value in enumerate(values, start=shard.first):
        yield _row(f"row {number}", number, value, shard, fields)


def _row(where: str, number: int, value: dict, shard, fields) -> Row | BadRow:
    """A row of the fields wanted, or why it is none."""

    def bad(name, kinds):
        got = repr(value[name])[:80] if name in value else "no such field"
        return BadRow(
            number,
            f"{shard.file.path}, {where}: expected {kinds} in field {name!r}. "
            f"Received: {got}",
        )

    text = value.get(fields.text)
    if not _is_text(text):
        return bad(fields.text, "a string of Unicode characters")
    if fields.id is None:
        return Row(number, text, None)
    key: Any = value.get(fields.id)
    if isinstance(key, int) and not isinstance(key, bool):
        key = str(key)
    if not _is_text(key):
        return bad(fields.id, "a string or an integer")
    return Row(number, text, key)


def _is_text(value) -> bool:
    """Whether it is a string; half a surrogate pair from JSON is none."""
    if not isinstance(value, str):
        return False
    try:
        value.encode("utf8")
    except UnicodeEncodeError:
        return False
    return True


def _open_parquet(path):
    try:
        return parquet.ParquetFile(path)
    except pa.ArrowInvalid as error:
        raise ValueError(
            f"{path}: expected a Parquet file. Received: {error}"
        ) from error
