"""Finished runs in a CSV file that is whole at all times.

A file is written beside the old one and then takes its place, so a run that
is killed leaves all rows that were there. What is not a whole row, as left by
a program that was killed while it wrote, is no finished run and is dropped.
"""

import argparse
import csv
import os
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

Row = dict[str, str]
Key = tuple[str, ...]


def _as_it_is(row: Row) -> Row:
    return row


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
        """The rows that there are of these runs, in their order."""
        rows = {self._key_of(row): row for row in self.read()}
        return [rows[key] for key in keys if key in rows]

    def add(self, row: Mapping[str, Any]) -> list[Row]:
        """Adds a finished run, in the place of one with the same key."""
        return add_rows(self.path, self.fields, [row], self.key, self.older)

    def do_missing(
        self,
        keys: Sequence[Key],
        run: Callable[[Row, str], Mapping[str, Any]],
        forget: Callable[[Row], None] | None = None,
    ) -> list[Row]:
        """Does the runs that have no row, and adds one for each.

        Several processes may do so: a run is claimed first, so no two do the
        same. The claim of a process that was killed ends with it.

        Args:
            keys: What tells the wanted runs from others, in the order of
                `key`, as they are written.
            run: `run(key, line)` does the run of a key, given by column, and
                returns the other columns; `line` is what its lines of progress
                start with.
            forget: `forget(key)` deletes what `run` continues from, if there
                is anything, once its row is in the file.

        Returns:
            The rows of all wanted runs but those that other processes do now.
        """
        start, done, before = time.perf_counter(), 0, -1
        while done > before:
            before = done
            for number, values in enumerate(keys, start=1):
                claim = self._claim_file(values)
                # A claim is left where a process was killed before it forgot.
                if self.rows_of([values]) and not claim.exists():
                    continue
                with locks.claimed(claim) as is_ours:
                    if not is_ours:
                        continue
                    key = dict(zip(self.key, values, strict=True))
                    # Another process may have done it before it was claimed.
                    if not self.rows_of([values]):
                        line = f"[{number}/{len(keys)}] {_name(key)}"
                        measured = dict(run(key, line))
                        self.add({**key, **measured})
                        done += 1
                        each = (time.perf_counter() - start) / done
                        left = len(keys) - len(self.rows_of(keys))
                        print(line, measured, _after(left, each), flush=True)
                    if forget is not None:
                        forget(key)
                    claim.unlink()
        return self.rows_of(keys)

    def _claim_file(self, key: Key) -> Path:
        digest = zlib.crc32(" ".join(key).encode())
        path = Path(self.path)
        return path.with_name(f"{path.stem}-{digest:08x}.claim")

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
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
    with temporary.open("w", encoding="utf8", newline="") as file:
        writer = csv.DictWriter(file, fields)
        writer.writeheader()
        writer.writerows(rows)
    os.replace(temporary, path)


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
    """
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
