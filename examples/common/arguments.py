"""Command line arguments."""

import argparse
from pathlib import Path
from typing import Any

WHERE_DATA_ARE = "examples/README.md, 'Data', says where they come from"


def parser(doc: str | None, **kwargs: Any) -> argparse.ArgumentParser:
    """A parser described by the first line of a program's docstring."""
    return argparse.ArgumentParser(
        description=(doc or "").partition("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        **kwargs,
    )


def folder(text: str) -> Path:
    """An argparse type: folders that exist."""
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError(
            f"no such folder: {text}; {WHERE_DATA_ARE}"
        )
    return Path(text)
