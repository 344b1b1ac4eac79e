"""Files that are whole at all times."""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO
from typing import Any


@contextlib.contextmanager
def replacing(path: Path, mode: str = "w", **options: Any) -> Iterator[IO[Any]]:
    """Opens a file that takes the place of another when all is written.

    It is written beside the other one, which stays as it is if writing ends by
    an exception or a kill. Folders may not exist yet; text is UTF-8.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if "b" not in mode:
        options["encoding"] = "utf8"
    temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with temporary.open(mode, **options) as file:
            yield file
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: Path, content: Any, indent: int | None = None) -> None:
    """Writes what JSON can hold in the place of what was in a file."""
    with replacing(path) as file:
        json.dump(content, file, indent=indent, ensure_ascii=False)
