"""Recurrent cells and receptive fields by the names that programs give them.

Tables 1 and 2 compare a cell, "rnn" or "lstm", alone or with a field: "+rf-"
reads the present input alone, "+rf" adapts, and "+rf-rl" adapts with sizes that
are drawn and trained by policy gradient, the paper's RF(RL). "+tanh" tells
whether the depth of "+rf-" does it: the cell reads a dense layer that has as
many weights.
"""

from typing import Any

import keras

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
GATES = {"rnn": 1, "gru": 3, "lstm": 4}
MODELS = (
    *("rnn", "rnn+tanh", "rnn+rf-", "rnn+rf-rl", "rnn+rf"),
    *("lstm", "lstm+tanh", "lstm+rf-", "lstm+rf-rl", "lstm+rf"),
)


def has_field(model: str) -> bool:
    """Whether one of `MODELS` has a receptive field."""
    return "+rf" in model


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


def read(model: str, units: int, x: keras.KerasTensor) -> keras.KerasTensor:
    """What the cell of a model reads of `x`, `(batch, time, features)`."""
    cell, _, part = model.partition("+")
    if part != "tanh":
        return x
    features, gates = x.shape[-1], GATES[cell]
    # As "+rf-": (features + 1) units of the field, (units + 1) units of F_t.
    added = (features + units + 2) * units
    # Of n units: (features + 1) n, and gates units (n - features) in the cell.
    width = (added + gates * units * features) / (features + 1 + gates * units)
    return keras.layers.Dense(round(width), activation="tanh")(x)
