"""Lines of text files, plain or gzipped (`.gz`), and files of packages."""

import gzip
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def lines(path: str | Path, encoding: str = "utf8") -> Iterator[str]:
    """The lines that are not blank, without their ends."""
    opener = gzip.open if Path(path).suffix == ".gz" else open
    # Texts may hold what else Python takes for an end of line.
    with opener(path, "rt", encoding=encoding, newline="\n") as file:
        yield from (line.rstrip("\r\n") for line in file if line.strip())


def json_lines(path: str | Path) -> Iterator[dict[str, Any]]:
    """What each line holds; one that is no JSON is an error with the path."""
    for line in lines(path):
        try:
            yield json.loads(line)
        except ValueError as error:
            raise ValueError(
                f"{path}: {error}. Received: {line[:80]!r}"
            ) from error


def package_folder(name: str) -> Path:
    """The folder of an installed package, which is found and not imported."""
    spec = importlib.util.find_spec(name)
    if spec is None:
        package = name.replace("_", "-")
        raise ImportError(f"Install the package `{package}` for its files.")
    return Path(spec.origin).parent
