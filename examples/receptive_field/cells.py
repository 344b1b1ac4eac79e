"""Recurrent cells and receptive fields by the names that programs give them.

Tables 1 and 2 compare a cell, "rnn" or "lstm", alone or with a field: "+rf-"
reads the present input alone, "+rf" adapts, and "+rf-rl" adapts with sizes that
are drawn and trained by policy gradient, the paper's RF(RL).
"""

import argparse
from typing import Any

import keras

from examples.common import exploring

CELLS = {
    "rnn": keras.layers.SimpleRNNCell,
    "lstm": keras.layers.LSTMCell,
    "gru": keras.layers.GRUCell,
}
LAYERS = {
    "rnn": keras.layers.SimpleRNN,
    "lstm": keras.layers.LSTM,
    "gru": keras.layers.GRU,
}
MODELS = (
    *("rnn", "rnn+rf-", "rnn+rf-rl", "rnn+rf"),
    *("lstm", "lstm+rf-", "lstm+rf-rl", "lstm+rf"),
)
# Names of the settings that matter where there is a field.
SETTINGS = ("gated", "size_from", "explore")


def has_field(model: str) -> bool:
    """Whether one of `MODELS` has a receptive field."""
    return "+" in model


def draws(model: str) -> bool:
    """Whether a model needs a policy gradient."""
    return model.endswith("+rf-rl")


def field_arguments(model: str, max_size: int) -> dict[str, Any]:
    """Arguments of `ReceptiveFieldRNN` that one of `MODELS` stands for.

    >>> field_arguments("lstm+rf-", 4)
    {'max_size': 1, 'estimator': 'relaxed'}
    """
    return {
        "max_size": 1 if model.endswith("+rf-") else max_size,
        "estimator": "reinforce" if draws(model) else "relaxed",
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of fields, and of how they explore."""
    add = parser.add_argument
    states, ways = ("memory", "output", "all"), ("input", "field")
    gated = "states of the cell that a field gates"
    add("--gated", choices=states, default="memory", help=gated)
    chosen = "sizes chosen before reading, or while reading"
    add("--size-from", choices=ways, default="input", help=chosen)
    exploring.add_arguments(parser)


def settings(args: argparse.Namespace) -> dict[str, str]:
    """Values of `SETTINGS`, to know a run by."""
    values = (args.gated, args.size_from, exploring.describe(args))
    return dict(zip(SETTINGS, values, strict=True))
