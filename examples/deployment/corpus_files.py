"""Files of texts, JSON lines or Parquet, cut into shards of rows.

A shard is a range of rows of one file, small enough to be held in memory. Rows
are numbered from 0 in each file; in JSON lines, row 0 is line 1.
"""

import contextlib
import json
import os
from collections import Counter
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from typing import NamedTuple

try:
    import pyarrow as pa
    from pyarrow import parquet
except ImportError as error:
    raise ImportError(
        "Files of texts need `pip install 'keras_seqmech[scaling]'`."
    ) from error

ENDINGS = (".jsonl", ".parquet")
COMPRESSED = (".bz2", ".gz", ".lz4", ".snappy", ".xz", ".zip", ".zst")
# Rows of Parquet that are decoded, and bytes of a column read, at a time.
_PARQUET_ROWS = 1024
_PARQUET_BYTES = 2**20


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
    """A row that cannot be scored, and why not."""

    number: int
    reason: str


def find(inputs: Iterable[str | Path]) -> list[CorpusFile]:
    """The files that are named, and those in folders that are named.

    Folders are searched with all folders in them, in the order of names. What
    is hidden, or starts with `_` as Spark's own files do, is left out; what
    else is left out is printed.

    Raises:
        ValueError: If there is none, or one is missing, of another kind,
            compressed, or named twice.
    """
    names: list[str] = []
    for path in map(Path, inputs):
        inside = list(_walk(path)) if path.is_dir() else [path]
        found = [p for p in inside if _is_input(p)]
        if not found:
            raise ValueError(
                f"Argument `inputs` must name files that end in "
                f"{' or '.join(ENDINGS)}, or folders of them. "
                f"Received: inputs={str(path)!r}"
            )
        if len(found) < len(inside):
            others = sorted({*map(str, inside)} - {*map(str, found)})
            print(f"Left out, of other kinds: {_some(others)}", flush=True)
        names += [str(p.absolute()) for p in found]
    targets = [os.path.realpath(name) for name in names]
    count = Counter(targets)
    twice = [n for n, target in zip(names, targets) if count[target] > 1]
    if twice or not names:
        raise ValueError(
            "Argument `inputs` must name at least one file, and each once. "
            f"Received: inputs={twice[:4]}"
        )
    return [look_at(name) for name in names]


def _walk(folder: Path, above: tuple[str, ...] = ()) -> Iterator[Path]:
    """What is in a folder and those in it; `above`: the folders it is in."""
    target = os.path.realpath(folder)
    if target in above:
        raise ValueError(
            "Argument `inputs` must name folders that do not hold themselves. "
            f"Received: inputs={str(folder)!r}, a link to {target!r}"
        )
    for path in sorted(folder.iterdir()):
        if path.name.startswith((".", "_")):
            continue
        if path.is_dir():
            yield from _walk(path, (*above, target))
        else:
            yield path


def _is_input(path: Path) -> bool:
    """Whether it is a file of texts; compressed ones are refused."""
    endings = [ending.lower() for ending in path.suffixes[-2:]]
    if endings[-1:] and endings[-1] in COMPRESSED and endings[0] in ENDINGS:
        raise ValueError(
            "Argument `inputs` must name files that are not compressed as a "
            f"whole. Received: inputs={str(path)!r}"
        )
    return path.suffix.lower() in ENDINGS and path.is_file()


def _is_parquet(path: str) -> bool:
    return path.lower().endswith(".parquet")


def _some(names: Sequence[str]) -> str:
    """How many names there are, and the first of them."""
    more = ", ..." if len(names) > 3 else ""
    return f"{len(names)} ({', '.join(names[:3])}{more})"


def look_at(path: str) -> CorpusFile:
    """What tells a file from another of its name."""
    found = os.stat(path)
    return CorpusFile(path, found.st_size, found.st_mtime_ns)


def split(
    files: Iterable[CorpusFile], shard_rows: int, fields: Fields
) -> list[Shard]:
    """Cuts files into shards of `shard_rows` rows; a file's last may be less.

    Files without rows are printed.

    Raises:
        ValueError: If no file has rows, or one has no fields of these names.
    """
    shards: list[Shard] = []
    empty: list[str] = []
    for file in files:
        if _is_parquet(file.path):
            starts, rows = _parquet_starts(file.path, shard_rows, fields)
        else:
            starts, rows = _line_starts(file.path, shard_rows)
        if not rows:
            empty.append(file.path)
        for i, offset in enumerate(starts):
            first = i * shard_rows
            count = min(shard_rows, rows - first)
            shards.append(Shard(len(shards), file, first, count, offset))
    if not shards:
        raise ValueError(
            "Argument `inputs` must name files with at least one row in all. "
            f"Received: empty files, {_some(empty)}"
        )
    if empty:
        print(f"Without rows: {_some(empty)}", flush=True)
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
    if _is_parquet(shard.file.path):
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
    with _opened_parquet(path) as file:
        names, rows = file.schema_arrow.names, file.metadata.num_rows
    for name in filter(None, fields):
        if rows and name not in names:
            raise ValueError(
                f"{path}: expected a field {name!r}. Received: fields={names}"
            )
    return [0] * -(-rows // shard_rows), rows


def _read_lines(shard, fields):
    with open(shard.file.path, "rb") as file:
        file.seek(shard.offset)
        for number in range(shard.first, shard.first + shard.rows):
            line = file.readline()
            # Some editors begin a file with a byte order mark.
            encoding = "utf8" if number else "utf-8-sig"
            try:
                value = json.loads(line.decode(encoding))
                if not isinstance(value, dict):
                    raise ValueError("not an object")
            except (ValueError, RecursionError) as error:
                start = line[:60].decode(encoding, "replace")
                where = f"{shard.file.path}, line {number + 1}"
                yield BadRow(
                    number,
                    f"{where}: expected a JSON object in UTF-8 ({error}). "
                    f"Received: {start!r}",
                )
            else:
                yield _row(f"line {number + 1}", number, value, shard, fields)


def _read_parquet(shard, fields):
    names = list(filter(None, fields))
    number, end = shard.first, shard.first + shard.rows
    with _opened_parquet(shard.file.path) as file:
        groups, before = _row_groups(file.metadata, number, end)
        for batch in file.iter_batches(_PARQUET_ROWS, groups, columns=names):
            skipped = min(max(0, number - before), batch.num_rows)
            wanted = batch.slice(skipped, end - number)
            before += batch.num_rows
            for value in wanted.to_pylist():
                yield _row(f"row {number}", number, value, shard, fields)
                number += 1
            if number == end:
                break


def _row_groups(metadata, first, end) -> tuple[list[int], int]:
    """The groups that hold some rows, and the number of rows before them."""
    groups, before, seen = [], 0, 0
    for group in range(metadata.num_row_groups):
        rows = metadata.row_group(group).num_rows
        if seen + rows <= first:
            before += rows
        elif seen < end:
            groups.append(group)
        seen += rows
    return groups, before


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


@contextlib.contextmanager
def _opened_parquet(path):
    """Opens a file, whose name is in each error of its content."""
    try:
        # A column of a row group may be too large to be read as a whole.
        with parquet.ParquetFile(
            path, buffer_size=_PARQUET_BYTES, pre_buffer=False
        ) as file:
            yield file
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        raise ValueError(
            f"{path}: expected a Parquet file. Received: {error}"
        ) from error
