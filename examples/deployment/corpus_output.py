"""A folder of scores, a file a shard, each there as a whole or not at all.

A file is written under another name, synced to the disk and then renamed. So a
file that is there is finished, and a run that was killed continues with those
that are missing.
"""

import contextlib
import json
import os
import uuid
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from typing import BinaryIO

import pyarrow as pa
from pyarrow import parquet

from examples.deployment.corpus_files import BadRow
from examples.deployment.corpus_files import Row
from examples.deployment.corpus_files import Shard
from examples.deployment.text_model import Output

FORMATS = ("jsonl", "parquet")
ATTEMPTS = 3
# Columns that each row has beside the model's outputs.
OWN = ("file", "row")
# Of names of files that are being written.
TEMPORARY = ".part"


class ScoreFolder:
    """Where the scores of a run go.

    Args:
        path: The folder; made if there is none.
        form: `"jsonl"` or `"parquet"`.
        id_field: What the column of ids is called; None: there is none.
        outputs: Of the model.

    Raises:
        ValueError: If an output has the name of another column.
    """

    def __init__(
        self,
        path: str | Path,
        form: str,
        id_field: str | None,
        outputs: Mapping[str, Output],
    ):
        own = [*OWN, *filter(None, [id_field])]
        clash = sorted({name for name in own if own.count(name) > 1})
        clash += [name for name in own if name in outputs]
        if clash:
            raise ValueError(
                f"Columns must differ: {', '.join(own)} and the outputs of the "
                f"model. Received: {clash} twice"
            )
        self.path = Path(path)
        self.form = form
        self._id_field = id_field
        self._schema = pa.schema(
            [("file", pa.string()), ("row", pa.int64())]
            + [(name, pa.string()) for name in own[len(OWN) :]]
            + [(name, arrow_type(output)) for name, output in outputs.items()]
        )

    def scores(self, number: int) -> Path:
        """The file of a shard's scores."""
        return self.path / f"shard-{number:06d}.{self.form}"

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
            write_whole(
                self.rejects(shard.number), lambda f: write_lines(f, reasons)
            )
        columns = {
            "file": [shard.file.path] * len(rows),
            "row": [row.number for row in rows],
            **answers,
        }
        if self._id_field is not None:
            columns[self._id_field] = [row.id for row in rows]
        table = pa.table(columns, schema=self._schema)
        write_whole(
            self.scores(shard.number), lambda f: self._write_table(f, table)
        )

    def _write_table(self, file, table):
        if self.form == "parquet":
            parquet.write_table(table, file)
        else:
            write_lines(file, table.to_pylist())

    @contextlib.contextmanager
    def attempt(self, number: int) -> Iterator[None]:
        """Leaves a mark if the process dies within.

        Workers that die are replaced without end. A shard that kills them, by
        its need of memory for one, would keep a run from ending.

        Raises:
            ValueError: If `ATTEMPTS` marks were left.
        """
        for i in range(ATTEMPTS):
            mark = self.path / f".shard-{number:06d}.{i}{TEMPORARY}"
            try:
                mark.touch(exist_ok=False)
                break
            except FileExistsError:
                pass
        else:
            raise ValueError(
                f"{ATTEMPTS} workers died over this shard. If memory ran out, "
                "take smaller batches, or fewer workers"
            )
        try:
            yield
        finally:
            mark.unlink(missing_ok=True)

    def count_rejects(self) -> int:
        """How many rows were left out, of all shards that are done."""
        count = 0
        for path in self.path.glob("rejects-*.jsonl"):
            with path.open("rb") as file:
                count += sum(1 for _ in file)
        return count

    def clean(self) -> None:
        """Deletes what workers that were killed had begun to write."""
        for path in self.path.glob(f"*{TEMPORARY}"):
            path.unlink(missing_ok=True)


def arrow_type(output: Output) -> pa.DataType:
    """The type of a column.

    >>> str(arrow_type(Output("float32", 1)))
    'list<item: float>'
    """
    if output.dtype == "string":
        kind = pa.string()
    elif output.dtype == "bool":
        kind = pa.bool_()
    else:
        kind = pa.from_numpy_dtype(output.dtype)
    for _ in range(output.axes):
        kind = pa.list_(kind)
    return kind


def write_lines(file: BinaryIO, rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes JSON lines; what is no number is `NaN` there, as Python reads."""
    for row in rows:
        file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")


def write_whole(path: Path, write: Callable[[BinaryIO], None]) -> None:
    """Writes a file that others see finished or not at all."""
    os.replace(_write_temporary(path, write), path)
    _sync(path.parent)


def write_new(path: Path, write: Callable[[BinaryIO], None]) -> None:
    """Writes a file as `write_whole` does, if there is none of that name.

    Raises:
        FileExistsError: If there is one.
    """
    temporary = _write_temporary(path, write)
    try:
        os.link(temporary, path)  # A rename would replace another's file.
    finally:
        temporary.unlink(missing_ok=True)
    _sync(path.parent)


def _write_temporary(path, write) -> Path:
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}{TEMPORARY}")
    with temporary.open("wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
    return temporary


def _sync(path) -> None:
    """Has the disk keep the names in a folder."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
