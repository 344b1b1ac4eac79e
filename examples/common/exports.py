"""Folders of exported models, as TensorFlow Serving has them."""

from pathlib import Path


def newest(directory: Path) -> Path | None:
    """The version with the largest number; None without any."""
    if not directory.is_dir():
        return None
    versions = [path for path in directory.iterdir() if path.name.isdecimal()]
    return max(versions, key=lambda path: int(path.name), default=None)
