"""Lines of text files; what is malformed is named with path and line."""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn


def lines(path: Path, encoding: str) -> Iterator[tuple[int, str]]:
    """Numbers and contents of the lines that are not blank.

    A file may be plain, or gzipped if its name ends in `.gz`. What cannot be
    read, and an empty file, is an error with path and line.
    """
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file")
    opener = gzip.open if path.suffix == ".gz" else open
    number, is_empty = 0, True
    with opener(path, "rb") as file:
        try:
            # Decoded by line, the number is right: buffers hold more.
            for number, line in enumerate(file, start=1):
                text = line.decode(encoding)
                if text.strip():
                    is_empty = False
                    yield number, text.rstrip("\r\n")
        except UnicodeDecodeError as error:
            fail(path, number, f"readable {encoding} text", str(error))
        except (OSError, EOFError, zlib.error) as error:
            fail(path, number + 1, f"readable {encoding} text", str(error))
    if is_empty:
        fail(path, 1, "at least one line of data", "an empty file")


def fail(path: Path, number: int, expected: str, received: str) -> NoReturn:
    """Raises a `ValueError` about a line of a file."""
    raise ValueError(
        f"{path}, line {number}: expected {expected}. "
        f"Received: {received[:80]!r}"
    )
