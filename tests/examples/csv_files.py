"""Reads the CSV files of runs."""

import csv
from pathlib import Path


def read(path: Path) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf8") as file:
        return list(csv.DictReader(file))
