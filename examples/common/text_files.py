"""Lines of text files; what is malformed is named with path and line."""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn


def raw_lines(path: Path, encoding: str) -> Iterator[tuple[int, str]]:
    """Numbers and contents of all lines, with what ends them.

    Args:
        path: A plain file, or a gzipped one if it ends in `.gz`.
        encoding: Of the text.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: Naming path and line, if it cannot be read.
    """
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file")
    opener = gzip.open if path.suffix == ".gz" else open
    number = 0
    with opener(path, "rb") as file:
        try:
            for number, line in enumerate(file, start=1):
                # Decoded by line, the number is right: buffers hold more.
                yield number, _decode(path, number, line, encoding)
        except (OSError, EOFError, zlib.error) as error:
            fail(path, number + 1, f"readable {encoding} text", str(error))


def lines(path: Path, encoding: str) -> Iterator[tuple[int, str]]:
    """Numbers and contents of the lines that are not blank.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: Naming path and line, if it cannot be read or is empty.
    """
    empty = True
    for number, line in raw_lines(path, encoding):
        if line.strip():
            empty = False
            yield number, line.rstrip("\r\n")
    if empty:
        fail(path, 1, "at least one line of data", "an empty file")


def fail(path: Path, number: int, expected: str, received: str) -> NoReturn:
    """Raises a `ValueError` about a line of a file."""
    if len(received) > 80:
        received = received[:77] + "..."
    raise ValueError(
        f"{path}, line {number}: expected {expected}. Received: {received!r}"
    )


def _decode(path, number, line, encoding):
    try:
        return line.decode(encoding)
    except UnicodeDecodeError as error:
        fail(path, number, f"readable {encoding} text", str(error))
