"""Files that examples read and write."""

import csv
import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def read(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    with open(path, newline="", encoding="utf8") as file:
        return list(csv.DictReader(file))


def write_lines(path: Path, rows: Iterable[Any]) -> None:
    """Writes gzipped JSON lines; the folder may not be there yet."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
