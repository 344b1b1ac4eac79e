"""JSON files, plain or gzipped; what is malformed is named with its place."""

import gzip
import json
from collections.abc import Iterator
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from examples.common import text_files


def present(data_dir: Path, folder: str, names: Sequence[str]) -> list[Path]:
    """Files that exist, in a folder or beside it, plain or gzipped."""
    paths = [
        root / f"{name}{ending}"
        for root in (data_dir / folder, data_dir)
        for name in names
        for ending in ("", ".gz")
    ]
    return [path for path in paths if path.is_file()]


def find(
    data_dir: Path,
    folder: str,
    names: Sequence[str],
    others: Sequence[str] = (),
) -> Path:
    """The first file that exists.

    Args:
        data_dir: Folder of all data sets.
        folder: Of one of them, and its name; may be left out.
        names: Of files.
        others: Further files that would have done, to be named if none does.

    Raises:
        FileNotFoundError: If there is none; names what is missing.
    """
    paths = present(data_dir, folder, names)
    if not paths:
        wanted = [data_dir / folder / name for name in (*names, *others)]
        raise FileNotFoundError(
            f"No data for --dataset {folder}. Expected one of: "
            + ", ".join(map(str, wanted))
        )
    return paths[0]


def read(path: Path) -> Any:
    """What a file holds.

    Raises:
        ValueError: If it is no JSON.
    """
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf8") as file:
            return json.load(file)
    except (ValueError, OSError, EOFError) as error:
        raise ValueError(f"{path}: expected JSON. Received: {error}") from error


def read_items(path: Path) -> list[tuple[str, Any]]:
    """Places and values of an object of questions.

    Raises:
        ValueError: If it is none.
    """
    content = read(path)
    if not isinstance(content, dict):
        raise ValueError(
            f"{path}: expected an object of questions. "
            f"Received: {type(content).__name__}"
        )
    return [(f"question {key}", value) for key, value in content.items()]


def read_lines(path: Path) -> Iterator[tuple[str, Any]]:
    """Places and values of JSON lines.

    Raises:
        ValueError: If a line is no JSON.
    """
    for number, line in text_files.lines(path, "utf8"):
        try:
            yield f"line {number}", json.loads(line)
        except ValueError:
            text_files.fail(path, number, "a JSON object", line)
