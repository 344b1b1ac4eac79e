"""Small files of segmented text."""

import gzip
from collections.abc import Sequence
from pathlib import Path


def write_set(
    directory: Path, lines: Sequence[str], name: str = "tiny"
) -> Path:
    """Writes lines as `cws/<name>.jsonl.gz`; returns its path."""
    (directory / "cws").mkdir()
    path = directory / "cws" / f"{name}.jsonl.gz"
    with gzip.open(path, "wt", encoding="utf8") as file:
        file.write("\n".join(lines))
    return path
