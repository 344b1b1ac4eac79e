"""Files of texts cut into shards, and the folder of their scores.

A shard is a range of rows of one file, small enough to be held in memory. Rows
are numbered from 0 in each file; in JSON lines, row 0 is line 1. The scores of
a shard are a file that is there as a whole or not at all, so a run that was
killed continues with those that are missing.
"""

import contextlib
import itertools
import json
import os
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from typing import NamedTuple

import numpy as np
from filelock import FileLock
from filelock import Timeout

from examples.common import whole_files

try:
    from pyarrow import parquet
except ImportError as error:
    raise ImportError(
        "Files of texts need `pip install '.[scaling]'`."
    ) from error

ENDINGS = (".jsonl", ".parquet")
MANIFEST = "manifest.json"
# Claimed by a run as long as it goes on.
LOCK = ".lock"
# Rows of Parquet that are decoded at a time.
_PARQUET_ROWS = 1024


class CorpusFile(NamedTuple):
    """A file, and what tells whether it is still the same."""

    path: str
    size: int
    modified_ns: int

    @property
    def is_parquet(self) -> bool:
        return self.path.lower().endswith(".parquet")


class Shard(NamedTuple):
    """Rows of a file."""

    number: int  # Among all shards of the corpus.
    file: CorpusFile
    first: int  # Number of the first row.
    rows: int  # Number of rows.
    offset: int  # Bytes before them; 0 in Parquet.


class Fields(NamedTuple):
    """Names of the fields that are read; `id` may be None."""

    text: str
    id: str | None


class Row(NamedTuple):
    """A text, with the number of its row and its id; or why there is none."""

    number: int
    text: str = ""
    id: str | None = None
    reason: str = ""


def find(inputs: Iterable[str | Path]) -> list[CorpusFile]:
    """The files that are named, and those in folders that are named, once each.

    Folders are searched with all folders in them, in the order of names. What
    is hidden, or starts with `_` as Spark's own files do, is left out.
    """
    found: dict[Path, None] = {}
    for path in map(Path, inputs):
        inside = [path]
        if path.is_dir():
            inside = [
                file
                for file in sorted(path.rglob("*"))
                if not any(x[0] in "._" for x in file.relative_to(path).parts)
            ]
        taken = [x for x in inside if x.suffix.lower() in ENDINGS]
        taken = [file.resolve() for file in taken if file.is_file()]
        if not taken:
            raise ValueError(
                f"Argument `inputs` must name files that end in "
                f"{' or '.join(ENDINGS)}, or folders of them. "
                f"Received: inputs={str(path)!r}"
            )
        found |= dict.fromkeys(taken)
    return [look_at(str(file)) for file in found]


def look_at(path: str) -> CorpusFile:
    """What tells a file from another of its name."""
    found = os.stat(path)
    return CorpusFile(path, found.st_size, found.st_mtime_ns)


def split(files: Iterable[CorpusFile], shard_rows: int) -> list[Shard]:
    """Cuts files into shards of `shard_rows` rows, or less at their ends."""
    shards: list[Shard] = []
    for file in files:
        starts, rows = _starts(file, shard_rows)
        for i, offset in enumerate(starts):
            first = i * shard_rows
            count = min(shard_rows, rows - first)
            shards.append(Shard(len(shards), file, first, count, offset))
    return shards


def _starts(file: CorpusFile, shard_rows: int) -> tuple[list[int], int]:
    """The offset of each shard, and the number of rows."""
    if file.is_parquet:
        rows = parquet.read_metadata(file.path).num_rows
        return [0] * -(-rows // shard_rows), rows
    starts, rows, offset = [], 0, 0
    with open(file.path, "rb") as lines:
        for line in lines:
            if rows % shard_rows == 0:
                starts.append(offset)
            rows += 1
            offset += len(line)
    return starts, rows


def read(shard: Shard, fields: Fields) -> Iterator[Row]:
    """Reads the rows of a shard, in order, if its file is still the same."""
    if look_at(shard.file.path) != shard.file:
        raise ValueError(f"{shard.file.path}: changed since the run began")
    values = _parquet_values if shard.file.is_parquet else _line_values
    for number, value in enumerate(values(shard, fields), shard.first):
        yield _row(number, value, fields)


def _line_values(shard: Shard, fields: Fields) -> Iterator[Any]:
    """What each line holds; of a line that is no JSON, the error."""
    with open(shard.file.path, "rb") as lines:
        lines.seek(shard.offset)
        for line in itertools.islice(lines, shard.rows):
            try:
                # Some editors begin a file with a byte order mark.
                yield json.loads(line.decode("utf-8-sig"))
            except ValueError as error:
                yield error


def _parquet_values(shard: Shard, fields: Fields) -> Iterator[dict]:
    """Rows, decoded from the beginning of their row group, a few at a time."""
    # A column of a row group may be too large to be read as a whole.
    options = {"buffer_size": 2**20, "pre_buffer": False}
    with parquet.ParquetFile(shard.file.path, **options) as file:
        groups = map(file.metadata.row_group, range(file.num_row_groups))
        starts = np.cumsum([0, *(group.num_rows for group in groups)])
        group = int(np.searchsorted(starts, shard.first, side="right")) - 1
        batches = file.iter_batches(
            _PARQUET_ROWS,
            range(group, file.num_row_groups),
            columns=list(filter(None, fields)),
        )
        rows = (row for batch in batches for row in batch.to_pylist())
        first = shard.first - int(starts[group])
        yield from itertools.islice(rows, first, first + shard.rows)


def _row(number: int, value: Any, fields: Fields) -> Row:
    """A row of the fields wanted, or why it is none."""
    if not isinstance(value, dict):
        reason = f"expected a JSON object. Received: {value}"
        return Row(number, reason=reason)
    text, key = value.get(fields.text), value.get(fields.id)
    wanted, name, found = "str", fields.text, text
    if isinstance(text, str):
        wanted, name, found = "str or int", fields.id, key
        if name is None or type(key) in (str, int):
            return Row(number, text, None if name is None else str(key))
    received = f"{found!r:.80}"
    reason = f"expected {wanted} in field {name!r}. Received: {received}"
    return Row(number, reason=reason)


class ScoreFolder(NamedTuple):
    """Where the scores of a run go, with what they depend on."""

    path: Path
    id_field: str | None  # Column of ids.

    @contextlib.contextmanager
    def reserved(self) -> Iterator[None]:
        """Keeps the folder for one run; it must hold a run, or nothing."""
        self.path.mkdir(parents=True, exist_ok=True)
        others = [x.name for x in self.path.iterdir() if x.suffix != ".part"]
        if {*others} - {LOCK} and MANIFEST not in others:
            raise ValueError(
                "Argument `output` must be a new or empty folder, or one that "
                f"a run began. Received: output={str(self.path)!r} with "
                f"{sorted(others)[:9]}"
            )
        try:
            lock = FileLock(self.path / LOCK).acquire(blocking=False)
        except Timeout:
            raise ValueError(
                "Argument `output` must be a folder that no other run uses. "
                f"Received: output={str(self.path)!r}"
            ) from None
        with lock:
            yield

    def shards(
        self,
        settings: Mapping[str, Any],
        files: Sequence[CorpusFile],
        shard_rows: int,
    ) -> list[Shard]:
        """The shards of the run that is continued, or of one that begins.

        `settings` are what the scores depend on, in JSON's types; a run with
        other ones, or other files, is refused.
        """
        path = self.path / MANIFEST
        wanted = {**settings, "files": [[*file] for file in files]}
        if not path.exists():
            whole_files.write_json(path, wanted)
        found = json.loads(path.read_text(encoding="utf8"))
        changed = [
            f"{name}={value!r:.300}, then {found.get(name)!r:.300}"
            for name, value in wanted.items()
            if value != found.get(name)
        ]
        if changed:
            raise ValueError(
                "Argument `output` holds a run that began otherwise: give it "
                "what it had then, or another folder. "
                f"Received: output={str(self.path)!r} with {'; '.join(changed)}"
            )
        return split(files, shard_rows)

    def scores(self, number: int) -> Path:
        """The file of a shard's scores."""
        return self.path / f"shard-{number:06d}.jsonl"

    def write(
        self,
        shard: Shard,
        rows: Sequence[Row],
        answers: Mapping[str, list[Any]],
        bad: Sequence[Row],
    ) -> None:
        """Writes what became of a shard, its scores last."""
        file = shard.file.path
        if bad:
            path = self.path / f"rejects-{shard.number:06d}.jsonl"
            reasons = [
                {"file": file, "row": row.number, "reason": row.reason}
                for row in bad
            ]
            _write_lines(path, reasons)
        lines = []
        for i, row in enumerate(rows):
            line: dict[str, Any] = {"file": file, "row": row.number}
            if self.id_field is not None:
                line[self.id_field] = row.id
            lines.append(line | {name: x[i] for name, x in answers.items()})
        _write_lines(self.scores(shard.number), lines)

    def count_rejects(self) -> int:
        """How many rows were left out, of all shards that are done."""
        files = self.path.glob("rejects-*.jsonl")
        return sum(path.read_bytes().count(b"\n") for path in files)

    def clean(self) -> None:
        """Deletes what workers that were killed had begun to write."""
        for path in self.path.glob("*.part"):
            path.unlink(missing_ok=True)


def _write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Writes JSON lines, whole after a crash of the machine, too.

    What is no number is `NaN` there, as Python reads.
    """
    with whole_files.replacing(path) as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
        file.flush()
        os.fsync(file.fileno())
