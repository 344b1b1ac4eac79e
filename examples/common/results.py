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
from typing import Any
from typing import NamedTuple

from examples.common import locks
from examples.common import whole_files

Row = dict[str, str]
Key = tuple[str, ...]


class ResultsFile(NamedTuple):
    """The CSV file of a program's finished runs.

    `accept` returns a row of the file as it is to be read, or None for the row
    of a run that is to be done again.
    """

    path: Path
    fields: Sequence[str]  # All columns.
    key: Sequence[str]  # Those that tell one run from another.
    accept: Callable[[Row], Row | None] = lambda row: row

    def read(self) -> list[Row]:
        """The row of each run; of a run that was done again, the last."""
        rows = filter(None, map(self.accept, read_rows(self.path, self.fields)))
        return list({self._key_of(row): row for row in rows}.values())

    def rows_of(self, keys: Iterable[Key]) -> list[Row]:
        """The rows that there are of these runs, in their order, each once."""
        rows = {self._key_of(row): row for row in self.read()}
        return [rows[key] for key in dict.fromkeys(keys) if key in rows]

    def missing(self, keys: Iterable[Key]) -> list[Key]:
        """The runs without a row, in their order, each once."""
        done = set(map(self._key_of, self.read()))
        return [key for key in dict.fromkeys(keys) if key not in done]

    def add(self, *rows: Mapping[str, Any]) -> list[Row]:
        """Adds finished runs, in the place of those with the same keys.

        The file is read again while its folder is locked, so rows that other
        processes have added are kept. Returns all rows.
        """
        unknown = sorted(
            {name for row in rows for name in row} - {*self.fields}
        )
        if unknown:
            raise ValueError(
                f"Argument `rows` must have columns of {', '.join(self.fields)}"
                f". Received: rows={unknown}"
            )
        added = [
            {name: str(row.get(name, "")) for name in self.fields}
            for row in rows
        ]
        replaced = set(map(self._key_of, added))
        folder = Path(self.path).parent
        folder.mkdir(parents=True, exist_ok=True)
        with locks.held(folder):
            before = read_rows(self.path, self.fields)
            kept = [x for x in before if self._key_of(x) not in replaced]
            with whole_files.replacing(self.path, newline="") as file:
                writer = csv.DictWriter(file, self.fields)
                writer.writeheader()
                writer.writerows(kept + added)
        return kept + added

    def do_missing(
        self,
        keys: Iterable[Key],
        run: Callable[[Row, str], Mapping[str, Any]],
        forget: Callable[[Row], None] = lambda key: None,
        is_ready: Callable[[Row], bool] = lambda key: True,
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
        start, done = time.perf_counter(), 0

        def do(values: Key) -> None:
            nonlocal done
            key = self._by_column(values)
            line = f"[{keys.index(values) + 1}/{len(keys)}] {_name(key)}"
            print(line, flush=True)
            measured = dict(run(key, line))
            self.add({**key, **measured})
            done += 1
            hours = (time.perf_counter() - start) / done / 3600
            left = hours * len(self.missing(keys))
            print(line, measured, f"about {left:.1f} h left", flush=True)
            forget(key)

        def pending() -> list[Key]:
            missing = self.missing(keys)
            return [key for key in missing if is_ready(self._by_column(key))]

        locks.do_claimed(pending, self.claim_of, do)
        rows = self.rows_of(keys)
        for values in map(self._key_of, rows):
            # Of a process that was killed before it forgot.
            if self.claim_of(values).exists():
                with locks.claimed(self.claim_of(values)) as is_ours:
                    if is_ours:
                        forget(self._by_column(values))
        if len(rows) < len(keys):
            print(
                f"Left to other processes: {len(keys) - len(rows)} of "
                f"{len(keys)} runs; start again for the whole table",
                flush=True,
            )
        return rows

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


def describe(
    args: argparse.Namespace, names: Sequence[str], **more: Any
) -> str:
    """Settings as text, to know a run by: named arguments, and `more`.

    >>> args = argparse.Namespace(units=8, data_dir="a/b", steps=100)
    >>> describe(args, ["units", "steps"], steps=90, data="b")
    'units=8 steps=90 data=b'
    """
    values = {name: getattr(args, name) for name in names} | more
    return " ".join(f"{name}={value}" for name, value in values.items())


def read_rows(path: str | Path, fields: Sequence[str]) -> list[Row]:
    """Reads the whole rows of a CSV file; without a file there are none.

    A field that the file lacks is empty; a column that is no field is refused.
    """
    path = Path(path)
    if not path.exists():
        return []
    content = path.read_bytes()
    # A last line without an end was cut, if only in its last number.
    content = content[: content.rfind(b"\n") + 1].decode("utf8", "replace")
    reader = csv.DictReader(content.split("\n"))
    header = reader.fieldnames
    if not header or not set(header) <= set(fields):
        raise ValueError(
            f"{path}, line 1: expected {','.join(fields)}. "
            f"Received: {','.join(header or ())}"
        )
    return [
        {name: row.get(name, "") for name in fields}
        for row in reader
        if None not in [*row, *row.values()]
    ]
