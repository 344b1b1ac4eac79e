"""How decisions are made and trained: as the papers have it, and as we do.

A program takes the records of one of these tables by name, with `--preset`; all
models of a run are trained alike.
"""

import argparse
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

from keras_seqmech import ExploreThenCommit


class Fields(NamedTuple):
    """Receptive fields: arguments of the layer, and how sizes are trained."""

    gated: str = "memory"  # Where eq. 4 forgets: "output" is h, "memory" c.
    summary: str = "mean"
    # Weight of what is read, after exploration; None: there is neither.
    reading: float | None = None

    @property
    def arguments(self) -> dict[str, str]:
        """Arguments of `ReceptiveFieldRNN`."""
        return {"gated": self.gated, "summary": self.summary}


# Those of the paper neither explore nor have a penalty.
CLASSIFIERS = {
    "paper": Fields(gated="output"),
    "ours": Fields(reading=0.02),
    "no_penalty": Fields(reading=0.0),
}
TAGGERS = {
    "paper": Fields(gated="output"),
    "ours": Fields(gated="output", summary="last", reading=0.02),
}


def add_argument(
    parser: argparse.ArgumentParser, known: Mapping[str, Any]
) -> None:
    """Adds `--preset`, with the names that a program knows."""
    as_in = "how decisions are made and trained: see examples/common/presets.py"
    parser.add_argument(
        "--preset", choices=list(known), default="paper", help=as_in
    )


def schedule(reading: float | None) -> ExploreThenCommit | None:
    """The callback that ends with this weight of what is read, if any."""
    return None if reading is None else ExploreThenCommit(reading=reading)
