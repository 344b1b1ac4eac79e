"""Finished runs in a CSV file that is whole at all times.

A file is written beside the old one and then takes its place, so a run that
is killed leaves all rows that were there.
"""

import re
import time
import zlib
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from typing import NamedTuple

import pandas as pd
from filelock import FileLock

from examples.common import locks
from examples.common import whole_files

Row = dict[str, str]
Key = tuple[str, ...]
# Longer values, as settings, are not part of the names of files.
MOST_IN_A_NAME = 30


class ResultsFile(NamedTuple):
    """The CSV file of a program's finished runs."""

    path: Path
    key: Sequence[str]  # Columns that tell one run from another.

    def read(self) -> list[Row]:
        """All rows, each with all columns; missing values are ""."""
        if not self.path.exists():
            return []
        rows = pd.read_csv(self.path, dtype=str, keep_default_na=False)
        if not {*self.key} <= {*rows.columns}:
            raise ValueError(
                f"{self.path}: must have the columns {', '.join(self.key)}. "
                f"Received: {', '.join(rows.columns)}"
            )
        return rows.to_dict("records")

    def missing(self, keys: Iterable[Key]) -> list[Key]:
        """The runs without a row, in their order, each once."""
        done = set(map(self._key_of, self.read()))
        return [key for key in dict.fromkeys(keys) if key not in done]

    def add(self, *rows: Mapping[str, Any]) -> None:
        """Adds finished runs, in the place of those with the same keys.

        The file is read again while it is locked, so rows that other processes
        have added are kept.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(self.path.with_suffix(".lock")):
            known = {self._key_of(row): row for row in self.read()}
            for row in rows:
                own = {name: str(value) for name, value in row.items()}
                known.pop(self._key_of(own), None)
                known[self._key_of(own)] = own
            table = pd.DataFrame([*known.values()]).fillna("")
            with whole_files.replacing(self.path, newline="") as file:
                table.to_csv(file, index=False, lineterminator="\r\n")

    def do_missing(
        self,
        keys: Iterable[Key],
        run: Callable[[Row], Mapping[str, Any]],
    ) -> list[Row]:
        """Does the runs that have no row, and adds one for each.

        `run(key)` does the run of a key, given by column, and returns the other
        columns; "seconds" are added if it has none. Several processes may do
        so: a run is claimed first. Returns the rows of all wanted runs but
        those that are left to other processes.
        """
        keys = list(dict.fromkeys(keys))

        def do(values: Key) -> None:
            key = dict(zip(self.key, values, strict=True))
            line = f"[{keys.index(values) + 1}/{len(keys)}] {_name(key)}"
            print(line, flush=True)
            start = time.perf_counter()
            found = dict(run(key))
            found.setdefault("seconds", f"{time.perf_counter() - start:.1f}")
            self.add({**key, **found})
            print(line, found, flush=True)

        locks.do_claimed(
            lambda: self.missing(keys),
            lambda key: with_ending(self.place(key), "claim"),
            do,
        )
        known = {self._key_of(row): row for row in self.read()}
        rows = [known[key] for key in keys if key in known]
        if len(rows) < len(keys):
            print(
                f"Left to other processes: {len(keys) - len(rows)} of "
                f"{len(keys)} runs; start again for the whole table",
                flush=True,
            )
        return rows

    def place(self, key: Iterable[str]) -> Path:
        """Where the run of a key leaves files, each with another ending."""
        key = tuple(key)
        digest = zlib.crc32(" ".join(key).encode())
        short = [value for value in key if 0 < len(value) < MOST_IN_A_NAME]
        name = re.sub(r"[^\w.+-]", "_", "-".join([*short, f"{digest:08x}"]))
        return self.path.with_name(f"{self.path.stem}-models") / name

    def _key_of(self, row: Row) -> Key:
        return tuple(row[name] for name in self.key)


def with_ending(place: Path, ending: str) -> Path:
    """A file of a run; names of runs may have dots in them."""
    return place.with_name(f"{place.name}.{ending}")


def _name(key: Row) -> str:
    """What tells a run from others, in lines of progress."""
    return ", ".join(
        f"seed {value}" if name == "seed" else value
        for name, value in key.items()
        if value and name != "settings"
    )


def measured(rows: Sequence[Row], key: Sequence[str]) -> list[str]:
    """The columns of rows beside those of their key."""
    names = dict.fromkeys(name for row in rows for name in row)
    return [name for name in names if name not in key]
