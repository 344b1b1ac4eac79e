"""Recurrent cells and receptive fields by the names that programs give them.

Tables 1 and 2 compare a cell, "rnn" or "lstm", alone or with a field: "+rf-"
reads the present input alone, "+rf" adapts, and "+rf-rl" adapts with sizes that
are drawn and trained by policy gradient, the paper's RF(RL).
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
MODELS = (
    *("rnn", "rnn+rf-", "rnn+rf-rl", "rnn+rf"),
    *("lstm", "lstm+rf-", "lstm+rf-rl", "lstm+rf"),
)


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
