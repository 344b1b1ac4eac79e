"""Command line arguments."""

import argparse
from pathlib import Path
from typing import Any

WHERE_DATA_ARE = "examples/README.md, 'Data', says where they come from"


def parser(doc: str | None, **kwargs: Any) -> argparse.ArgumentParser:
    """A parser described by the first line of a program's docstring."""
    return _Parser(
        description=(doc or "").partition("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        **kwargs,
    )


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        if "--data-dir" in message:
            message += f"; {WHERE_DATA_ARE}"
        super().error(message)


def folder(text: str) -> Path:
    """An argparse type: folders that exist."""
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"no such folder: {text}")
    return Path(text)


def positive(text: str) -> int:
    """An argparse type: integers of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(
            f"must be an integer of at least 1. Received: {text!r}"
        )
    return int(text)
