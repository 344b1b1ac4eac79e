"""Where a run is the papers' and where it is ours, by name.

A program takes one of the records of its table with `--preset`. Whatever it
says, all models of a run are trained alike.
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


class Gates(NamedTuple):
    """Gates of a focused encoder, and how they are trained."""

    estimator: str = "relaxed"
    # Whether the question attends over states after every step, or over those
    # at open gates, each once.
    read_out: str = "every"
    target: float | None = 0.05  # Largest share of open gates without penalty.
    commits: bool = True  # Whether undecided gates are penalized at the end.
    reading: float | None = None  # In place of a target, as of `Fields`.


# Policy gradient, unique states, and the openness of the paper's best model.
GATES = {
    "paper": Gates("reinforce", "open", target=0.1, commits=False),
    "ours": Gates(),
    "ours_unique": Gates(read_out="open"),
    "explored": Gates(target=None, reading=0.2),
}


class Texts(NamedTuple):
    """How the texts of the pooling studies are read."""

    is_lower: bool = True  # Whether in lower case.
    # Whether padding, unknown words and those without a vector start from the
    # standard normal distribution; else the first two from zeros, the others
    # as spread as the vectors.
    has_drawn: bool = False
    has_mask: bool = True  # Whether padding is left out.


# The authors' public code, and some of its differences.
TEXTS = {
    "ours": Texts(),
    "case_unknown": Texts(is_lower=False, has_drawn=True),
    "padding": Texts(has_mask=False),
    "authors": Texts(is_lower=False, has_drawn=True, has_mask=False),
}


def add_argument(
    parser: argparse.ArgumentParser,
    known: Mapping[str, Any],
    default: str = "ours",
) -> None:
    """Adds `--preset`, with the names that a program knows."""
    add, meant = parser.add_argument, "see examples/common/presets.py"
    add("--preset", choices=list(known), default=default, help=meant)


def schedule(reading: float | None) -> ExploreThenCommit | None:
    """The callback that ends with this weight of what is read, if any."""
    if reading is None:
        return None
    return ExploreThenCommit(entropy=1.0, reading=reading)
