"""Finished runs in a CSV file that is whole at all times.

A file is written beside the old one and then takes its place, so a run that
is killed leaves all rows that were there. What is not a whole row, as left by
a program that was killed while it wrote, is no finished run and is dropped.
"""

import argparse
import csv
import time
import zlib
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any
from typing import NamedTuple

from examples.common import locks
from examples.common import whole_files

Row = dict[str, str]
Key = tuple[str, ...]


def _as_it_is(row: Row) -> Row:
    return row


def _nothing_to_forget(key: Row) -> None:
    pass


def _always_ready(key: Row) -> bool:
    return True


class ResultsFile(NamedTuple):
    """The CSV file of a program's finished runs.

    Attributes:
        path: Of the file.
        fields: Names of its columns, those of `key` among them.
        key: Names of the columns that tell one run from another.
        older: See `read_rows`.
        accept: Returns a row of the file as it is to be read, or None for the
            row of a run that is to be done again.
    """

    path: Path
    fields: Sequence[str]
    key: Sequence[str]
    older: Mapping[str, str] = MappingProxyType({})
    accept: Callable[[Row], Row | None] = _as_it_is

    def read(self) -> list[Row]:
        """The row of each run; of a run that was done again, the last."""
        rows = read_rows(self.path, self.fields, self.older)
        accepted = filter(None, map(self.accept, rows))
        return list({self._key_of(row): row for row in accepted}.values())

    def rows_of(self, keys: Iterable[Key]) -> list[Row]:
        """The rows that there are of these runs, in their order, each once."""
        rows = {self._key_of(row): row for row in self.read()}
        return [rows[key] for key in dict.fromkeys(keys) if key in rows]

    def missing(self, keys: Iterable[Key]) -> list[Key]:
        """The runs without a row, in their order, each once."""
        done = set(map(self._key_of, self.read()))
        return [key for key in dict.fromkeys(keys) if key not in done]

    def add(self, row: Mapping[str, Any]) -> list[Row]:
        """Adds a finished run, in the place of one with the same key."""
        return add_rows(self.path, self.fields, [row], self.key, self.older)

    def do_missing(
        self,
        keys: Iterable[Key],
        run: Callable[[Row, str], Mapping[str, Any]],
        forget: Callable[[Row], None] = _nothing_to_forget,
        is_ready: Callable[[Row], bool] = _always_ready,
    ) -> list[Row]:
        """Does the runs that have no row, and adds one for each.

        Several processes may do so: a run is claimed first, so no two do the
        same. The claim of a process that was killed ends with it.

        Args:
            keys: What tells the wanted runs from others, in the order of
                `key`, as they are written. A run may be among them twice.
            run: `run(key, line)` does the run of a key, given by column, and
                returns the other columns; `line` is what its lines of progress
                start with.
            forget: `forget(key)` deletes what `run` continues from, if there
                is anything, once its row is in the file.
            is_ready: `is_ready(key)` says whether a run can be done now, or
                needs others that are not done.

        Returns:
            The rows of all wanted runs but those that are left to other
            processes, which it prints the number of.

        Raises:
            ValueError: If a run returns a column that is not one of `fields`,
                or a row that `accept` does not.
        """
        keys = list(dict.fromkeys(keys))
        start, ends = time.perf_counter(), []

        def do(values: Key) -> None:
            key = self._by_column(values)
            line = f"[{keys.index(values) + 1}/{len(keys)}] {_name(key)}"
            measured = dict(run(key, line))
            self.add({**key, **measured})
            ends.append(time.perf_counter())
            each = (ends[-1] - start) / len(ends)
            left = _after(len(self.missing(keys)), each)
            print(line, measured, left, flush=True)
            forget(key)

        def pending() -> list[Key]:
            missing = self.missing(keys)
            return [key for key in missing if is_ready(self._by_column(key))]

        locks.do_claimed(pending, self.claim_of, do)
        self._forget_done(keys, forget)
        rows = self.rows_of(keys)
        left = len(keys) - len(rows)
        if left:
            print(
                f"Left to other processes: {left} of {len(keys)} runs; start "
                "again for the whole table",
                flush=True,
            )
        return rows

    def _forget_done(
        self, keys: Sequence[Key], forget: Callable[[Row], None]
    ) -> None:
        """Forgets runs that have a row, of processes killed before they did."""
        for row in self.rows_of(keys):
            values = self._key_of(row)
            if self.claim_of(values).exists():
                with locks.claimed(self.claim_of(values)) as is_ours:
                    if is_ours:
                        forget(self._by_column(values))

    def claim_of(self, key: Key) -> Path:
        """The file that is claimed by the process that does a run."""
        digest = zlib.crc32(" ".join(key).encode())
        path = Path(self.path)
        return path.with_name(f"{path.stem}-{digest:08x}.claim")

    def _by_column(self, key: Key) -> Row:
        return dict(zip(self.key, key, strict=True))

    def _key_of(self, row: Row) -> Key:
        return tuple(row[name] for name in self.key)


def _name(key: Row) -> str:
    """What tells a run from others, in lines of progress."""
    shown, has_seed = [], False
    for name, value in key.items():
        if value and name != "settings":
            has_seed = has_seed or name == "seed"
            # What comes before the seed says what it is.
            shown.append(f"{name} {value}" if has_seed else value)
    return ", ".join(shown)


def _after(left: int, seconds: float) -> str:
    """How long the runs that are left may take, if there are any."""
    return f"about {left * seconds / 3600:.1f} h left" if left else ""


def describe(
    args: argparse.Namespace, names: Sequence[str], **more: Any
) -> str:
    """Settings as text, to know a run by.

    Args:
        args: Of the command line.
        names: Of the arguments that count.
        **more: Values of others, or to be shown in the place of theirs.

    >>> args = argparse.Namespace(units=8, data_dir="a/b", steps=100)
    >>> describe(args, ["units", "steps"], steps=90, data="b")
    'units=8 steps=90 data=b'
    """
    values = {name: getattr(args, name) for name in names} | more
    return " ".join(f"{name}={value}" for name, value in values.items())


def read_rows(
    path: str | Path,
    fields: Sequence[str],
    older: Mapping[str, str] | None = None,
) -> list[Row]:
    """Reads the finished runs.

    Args:
        path: A CSV file; one that does not exist has no rows.
        fields: Names that its header must hold, in this order.
        older: Those of them that files may lack which were written before
            there were such fields, and what their rows then have.

    Returns:
        The rows that have all fields.

    Raises:
        ValueError: If the header is another one.
    """
    path = Path(path)
    if not path.exists():
        return []
    content = path.read_bytes()
    # A last line without an end was cut, if only in its last number.
    content = content[: content.rfind(b"\n") + 1].decode("utf8", "replace")
    reader = csv.DictReader(content.split("\n"))
    header = tuple(reader.fieldnames or ())
    lacking = {
        name: value
        for name, value in (older or {}).items()
        if name not in header
    }
    if header != tuple(name for name in fields if name not in lacking):
        raise ValueError(
            f"{path}, line 1: expected {','.join(fields)}. "
            f"Received: {','.join(header)}"
        )
    return [
        {name: row[name] if name in row else lacking[name] for name in fields}
        for row in reader
        if None not in [*row, *row.values()]
    ]


def write_rows(
    path: str | Path, fields: Sequence[str], rows: Iterable[Mapping[str, Any]]
) -> None:
    """Writes finished runs in the place of those that were in the file."""
    with whole_files.replacing(path, newline="") as file:
        writer = csv.DictWriter(file, fields)
        writer.writeheader()
        writer.writerows(rows)


def add_rows(
    path: str | Path,
    fields: Sequence[str],
    added: Iterable[Mapping[str, Any]],
    key: Sequence[str],
    older: Mapping[str, str] | None = None,
) -> list[Row]:
    """Adds finished runs to what the file holds now, all of them or none.

    The file is read again, so rows that another process has added since are
    kept; a row that is equal in all of `key` is replaced. No other process adds
    a row meanwhile: the folder is locked.

    Args:
        path: See `read_rows`.
        fields: Likewise.
        added: The runs; fields that one lacks are empty.
        key: Names of fields.
        older: See `read_rows`; a file without these fields gets them.

    Returns:
        All rows.

    Raises:
        ValueError: If a run has a column that is no field.
    """
    added = list(added)
    unknown = sorted({name for row in added for name in row} - set(fields))
    if unknown:
        raise ValueError(
            f"Argument `added` must have columns of {', '.join(fields)}. "
            f"Received: added={unknown}"
        )
    new = [
        {field: str(row.get(field, "")) for field in fields} for row in added
    ]
    replaced = {tuple(row[name] for name in key) for row in new}
    folder = Path(path).parent
    folder.mkdir(parents=True, exist_ok=True)
    with locks.held(folder):
        rows = [
            other
            for other in read_rows(path, fields, older)
            if tuple(other[name] for name in key) not in replaced
        ]
        rows += new
        write_rows(path, fields, rows)
    return rows
