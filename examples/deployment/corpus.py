"""Files of texts cut into shards, and the folder of their scores.

A shard is a range of rows of one file, small enough to be held in memory. Rows
are numbered from 0 in each file; in JSON lines, row 0 is line 1. The scores of
a shard are a file that is there as a whole or not at all, so a run that was
killed continues with those that are missing.
"""

import contextlib
import json
import os
from collections import Counter
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from typing import NamedTuple

from examples.common import locks
from examples.common import whole_files

try:
    import pyarrow as pa
    from pyarrow import parquet
except ImportError as error:
    raise ImportError(
        "Files of texts need `pip install 'keras_seqmech[scaling]'`."
    ) from error

ENDINGS = (".jsonl", ".parquet")
MANIFEST = "manifest.json"
# Claimed by a run as long as it goes on.
LOCK = ".lock"
# Ending of files that are being written.
TEMPORARY = ".part"
ATTEMPTS = 3
# Rows of Parquet that are decoded at a time.
_PARQUET_ROWS = 1024


class CorpusFile(NamedTuple):
    """A file, and what tells whether it is still the same."""

    path: str
    size: int
    modified_ns: int


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
    """
    found: list[str] = []
    for path in map(Path, inputs):
        inside = _files_in(path) if path.is_dir() else [path]
        taken = [
            str(file.absolute())
            for file in inside
            if file.suffix.lower() in ENDINGS and file.is_file()
        ]
        if not taken:
            raise ValueError(
                f"Argument `inputs` must name files that end in "
                f"{' or '.join(ENDINGS)}, or folders of them. "
                f"Received: inputs={str(path)!r}"
            )
        if len(taken) < len(inside):
            others = len(inside) - len(taken)
            print(f"Left out of {path}, of other kinds: {others} files")
        found += taken
    count = Counter(map(os.path.realpath, found))
    twice = [name for name in found if count[os.path.realpath(name)] > 1]
    if twice:
        raise ValueError(
            "Argument `inputs` must name files each once. "
            f"Received: inputs={twice[:4]}"
        )
    return [look_at(name) for name in found]


def _files_in(folder: Path) -> list[Path]:
    files = []
    for place, folders, names in os.walk(folder, followlinks=True):
        folders[:] = [name for name in folders if name[0] not in "._"]
        files += [Path(place, name) for name in names if name[0] not in "._"]
    return sorted(files)


def look_at(path: str) -> CorpusFile:
    """What tells a file from another of its name."""
    found = os.stat(path)
    return CorpusFile(path, found.st_size, found.st_mtime_ns)


def split(
    files: Iterable[CorpusFile], shard_rows: int, fields: Fields
) -> list[Shard]:
    """Cuts files into shards of `shard_rows` rows, or less at their ends."""
    shards: list[Shard] = []
    for file in files:
        if _is_parquet(file.path):
            starts, rows = _parquet_starts(file.path, shard_rows, fields)
        else:
            starts, rows = _line_starts(file.path, shard_rows)
        for i, offset in enumerate(starts):
            first = i * shard_rows
            count = min(shard_rows, rows - first)
            shards.append(Shard(len(shards), file, first, count, offset))
    if not shards:
        raise ValueError(
            "Argument `inputs` must name files with at least one row in all. "
            "Received: inputs=empty files"
        )
    return shards


def read(shard: Shard, fields: Fields) -> Iterator[Row | BadRow]:
    """Reads the rows of a shard, in order, if its file is still the same."""
    path = shard.file.path
    if look_at(path) != shard.file:
        raise ValueError(
            f"{path}: changed since the run began. Received: {look_at(path)}"
        )
    read_values = _parquet_values if _is_parquet(path) else _line_values
    for number, value in enumerate(read_values(shard, fields), shard.first):
        yield _row(number, value, path, fields)


def _is_parquet(path: str) -> bool:
    return path.lower().endswith(".parquet")


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
        if rows and names.count(name) != 1:
            raise ValueError(
                f"{path}: expected one field {name!r}. Received: fields={names}"
            )
    return [0] * -(-rows // shard_rows), rows


def _line_values(shard, fields) -> Iterator[Any]:
    """What each line holds; of a line that is no JSON, the error."""
    with open(shard.file.path, "rb") as file:
        file.seek(shard.offset)
        for _ in range(shard.rows):
            try:
                # Some editors begin a file with a byte order mark.
                yield json.loads(file.readline().decode("utf-8-sig"))
            except ValueError as error:
                yield error


def _parquet_values(shard, fields) -> Iterator[dict]:
    end, number = shard.first + shard.rows, 0
    with _opened_parquet(shard.file.path) as file:
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if number + rows <= shard.first or number >= end:
                number += rows
                continue
            for batch in file.iter_batches(
                _PARQUET_ROWS, [group], columns=list(filter(None, fields))
            ):
                skipped = min(max(0, shard.first - number), batch.num_rows)
                wanted = batch.slice(skipped, max(0, end - number - skipped))
                yield from wanted.to_pylist()
                number += batch.num_rows
                if number >= end:
                    break


@contextlib.contextmanager
def _opened_parquet(path):
    """Opens a file, whose name is in each error of its content."""
    try:
        # A column of a row group may be too large to be read as a whole.
        with parquet.ParquetFile(
            path, buffer_size=2**20, pre_buffer=False
        ) as file:
            yield file
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        raise ValueError(
            f"{path}: expected a Parquet file. Received: {error}"
        ) from error


def _row(number: int, value: Any, path: str, fields: Fields) -> Row | BadRow:
    """A row of the fields wanted, or why it is none."""
    if not isinstance(value, dict):
        wanted, got = "a JSON object in UTF-8", str(value)
    else:
        text = value.get(fields.text)
        key = None if fields.id is None else value.get(fields.id)
        if not isinstance(text, str):
            wanted, got = f"a string in field {fields.text!r}", repr(text)
        elif fields.id is not None and type(key) not in (str, int):
            kinds = "a string or an integer"
            wanted, got = f"{kinds} in field {fields.id!r}", repr(key)
        else:
            return Row(number, text, None if key is None else str(key))
    place = f"row {number}" if _is_parquet(path) else f"line {number + 1}"
    reason = f"{path}, {place}: expected {wanted}. Received: {got[:80]}"
    return BadRow(number, reason)


class ScoreFolder:
    """Where the scores of a run go, with what they depend on.

    `id_field` is the column of ids or None, `outputs` those of the model.
    """

    def __init__(
        self, path: str | Path, id_field: str | None, outputs: Iterable[str]
    ):
        self.path = Path(path)
        self._columns = [*filter(None, ("file", "row", id_field)), *outputs]
        self._id_field = id_field
        count = Counter(self._columns)
        if len(count) < len(self._columns):
            raise ValueError(
                "Columns must differ: file, row, the ids and the outputs of "
                f"the model. Received: {count.most_common(1)[0][0]!r} twice"
            )

    @contextlib.contextmanager
    def reserved(self) -> Iterator[None]:
        """Keeps the folder for one run; it must hold a run, or nothing."""
        self.path.mkdir(parents=True, exist_ok=True)
        received = f"Received: output={str(self.path)!r}"
        others = sorted(
            p.name
            for p in self.path.iterdir()
            if p.suffix != TEMPORARY and p.name != LOCK
        )
        if others and MANIFEST not in others:
            raise ValueError(
                "Argument `output` must be a new or empty folder, or one that "
                f"a run began. {received} with {others[:9]}"
            )
        with locks.claimed(self.path / LOCK) as is_ours:
            if not is_ours:
                other = (self.path / LOCK).read_text(encoding="utf8").strip()
                raise ValueError(
                    "Argument `output` must be a folder that no other run "
                    f"uses. {received}, used by {other}"
                )
            yield

    def shards(
        self,
        settings: Mapping[str, Any],
        files: Sequence[CorpusFile],
        shard_rows: int,
        fields: Fields,
    ) -> list[Shard]:
        """The shards of the run that is continued, or of one that begins.

        `settings` are what the scores depend on, in JSON's types; a run with
        other ones, or other files, is refused.
        """
        path = self.path / MANIFEST
        wanted = {**settings, "files": [[*file] for file in files]}
        if not path.exists():
            shards = split(files, shard_rows, fields)
            index = {file: i for i, file in enumerate(files)}
            cut = [(index[s.file], *s[2:]) for s in shards]
            whole_files.write_json(path, {**wanted, "shards": cut})
            return shards
        found = json.loads(path.read_text(encoding="utf8"))
        cut = found.pop("shards")
        changed = [
            f"{name}={wanted.get(name)!r:.300}, then {found.get(name)!r:.300}"
            for name in sorted({*wanted, *found})
            if wanted.get(name) != found.get(name)
        ]
        if changed:
            raise ValueError(
                "Argument `output` holds a run that began otherwise: give it "
                "what it had then, or another folder. "
                f"Received: output={str(self.path)!r} with {'; '.join(changed)}"
            )
        return [
            Shard(number, files[file], *rest)
            for number, (file, *rest) in enumerate(cut)
        ]

    def scores(self, number: int) -> Path:
        """The file of a shard's scores."""
        return self.path / f"shard-{number:06d}.jsonl"

    def rejects(self, number: int) -> Path:
        """The file of a shard's rows that were left out, if there are any."""
        return self.path / f"rejects-{number:06d}.jsonl"

    def write(
        self,
        shard: Shard,
        rows: Sequence[Row],
        answers: Mapping[str, list[Any]],
        bad: Sequence[BadRow],
    ) -> None:
        """Writes what became of a shard."""
        if bad:
            reasons = [
                {"file": shard.file.path, "row": row, "reason": reason}
                for row, reason in bad
            ]
            _write_lines(self.rejects(shard.number), reasons)
        columns = {
            "file": [shard.file.path] * len(rows),
            "row": [row.number for row in rows],
            **answers,
        }
        if self._id_field is not None:
            columns[self._id_field] = [row.id for row in rows]
        found = zip(*(columns[name] for name in self._columns), strict=True)
        lines = [dict(zip(self._columns, values)) for values in found]
        _write_lines(self.scores(shard.number), lines)

    @contextlib.contextmanager
    def attempt(self, number: int) -> Iterator[None]:
        """Leaves a mark if the process dies within, at most `ATTEMPTS` of them.

        Workers that die are replaced without end. A shard that kills them, by
        its need of memory for one, would keep a run from ending.
        """
        marks = [
            self.path / f".shard-{number:06d}.{i}{TEMPORARY}"
            for i in range(ATTEMPTS)
        ]
        free = [mark for mark in marks if not mark.exists()]
        if not free:
            raise ValueError(
                f"{ATTEMPTS} workers died over this shard. If memory ran out, "
                "take smaller batches, or fewer workers"
            )
        free[0].touch()
        try:
            yield
        finally:
            free[0].unlink(missing_ok=True)

    def count_rejects(self) -> int:
        """How many rows were left out, of all shards that are done."""
        files = self.path.glob("rejects-*.jsonl")
        return sum(path.read_bytes().count(b"\n") for path in files)

    def clean(self) -> None:
        """Deletes what workers that were killed had begun to write."""
        for path in self.path.glob(f"*{TEMPORARY}"):
            path.unlink(missing_ok=True)


def _write_lines(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes JSON lines, whole after a crash of the machine, too.

    What is no number is `NaN` there, as Python reads.
    """
    with whole_files.replacing(path) as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
        file.flush()
        os.fsync(file.fileno())
