"""The cells of the table of what works, each with the versions it was run with.

A JSON file: layers as the registry of tests uses them, ways to run them, and
what a run gave. Cells of other versions stay in the file until they are run
again, and count for nothing.
"""

import json
import pathlib
from typing import Any

from examples.common import whole_files

Cell = dict[str, Any]


class Cells:
    """The cells in a file that is whole at all times.

    Args:
        path: Of the file; one that does not exist has no cells.
        versions: Of what runs now, as the table names them.
    """

    def __init__(self, path: pathlib.Path, versions: str):
        self._path = path
        self._versions = versions
        self._rows: dict[str, dict[str, Cell]] = {}
        if path.exists():
            self._rows = json.loads(path.read_text(encoding="utf8"))

    def get(self, entry: str, way: str) -> Cell | None:
        """What a run with these versions gave; None if there was none."""
        cell = self._rows.get(entry, {}).get(way)
        if cell is None or cell.get("versions") != self._versions:
            return None
        return cell

    def put(self, entry: str, way: str, cell: Cell) -> None:
        """Keeps what a run gave, and writes all cells."""
        row = self._rows.setdefault(entry, {})
        row[way] = {**cell, "versions": self._versions}
        with whole_files.replacing(self._path) as file:
            file.write(json.dumps(self._rows, indent=1) + "\n")
