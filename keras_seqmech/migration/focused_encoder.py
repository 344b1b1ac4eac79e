"""From two stacked LSTMs to a focused encoder."""

from typing import Any

import keras
from keras import ops

from keras_seqmech.core import checks
from keras_seqmech.focused import FocusedHierarchicalEncoder
from keras_seqmech.migration.receptive_field import check_options

# Settings of the LSTMs of an encoder, which cannot have other values.
ASSUMED = {
    "activation": "tanh",
    "recurrent_activation": "sigmoid",
    "use_bias": True,
    "go_backwards": False,
    "stateful": False,
    "dropout": 0,
    "recurrent_dropout": 0,
    "kernel_regularizer": None,
    "recurrent_regularizer": None,
    "bias_regularizer": None,
    "activity_regularizer": None,
    "kernel_constraint": None,
    "recurrent_constraint": None,
    "bias_constraint": None,
}
OWN = (
    "units",
    "lower_units",
    "return_sequences",
    "return_state",
    "return_focused",
    "dtype",
)


def focused_encoder_from_keras(
    lower: keras.layers.LSTM,
    upper: keras.layers.LSTM,
    context_size: int,
    initial_openness: float = 0.95,
    **options: Any,
) -> FocusedHierarchicalEncoder:
    """An encoder that gives the answers of two stacked LSTMs.

    At inference all gates are open, whatever the sequence and the context: the
    gate's last kernel is zeros and its bias the logit of `initial_openness`.
    Gates learn from there. In training they are drawn, or soft, as ever: about
    `1 - initial_openness` of them are closed at first, so that the upper LSTM
    meets a few skipped steps and the gate has something to learn from.

    Args:
        lower: A built `keras.layers.LSTM` that returns sequences.
        upper: A built `keras.layers.LSTM` that reads them.
        context_size: Positive int, features of the context that gates will
            depend on.
        initial_openness: Probability of being open at first, above one half.
        **options: Further arguments of `FocusedHierarchicalEncoder`, such as
            `penalties`.

    Returns:
        A built encoder that returns what the upper LSTM returns: sequences or
        the last state, by its `return_sequences`, and with its `return_state`
        the states of both.

    Raises:
        ValueError: If the LSTMs do not fit, or have what an encoder has not:
            other activations, no bias, dropout, regularizers, constraints,
            `go_backwards`, `stateful`.

    Example:

    >>> import keras, numpy as np
    >>> lower = keras.layers.LSTM(8, return_sequences=True)
    >>> upper = keras.layers.LSTM(6)
    >>> x = np.ones((2, 7, 5))
    >>> expected = upper(lower(x))
    >>> encoder = focused_encoder_from_keras(lower, upper, context_size=3)
    >>> np.allclose(encoder(x, np.ones((2, 3))), expected, atol=1e-6)
    True
    """
    check_options(options, OWN)
    _check_pair(lower, upper)
    checks.check_positive_int("context_size", context_size)
    checks.check_open_share("initial_openness", initial_openness)
    if initial_openness <= 0.5:
        raise ValueError(
            "Argument `initial_openness` must be above 0.5, where gates are "
            f"open at inference. Received: initial_openness={initial_openness}"
        )
    encoder = FocusedHierarchicalEncoder(
        upper.units,
        lower.units,
        initial_openness=initial_openness,
        return_sequences=upper.return_sequences,
        return_state=upper.return_state,
        dtype=upper.dtype_policy,
        **options,
    )
    features = lower.cell.kernel.shape[0]
    encoder.build((None, None, features), (None, context_size))
    encoder.lower.cell.set_weights(lower.cell.get_weights())
    encoder.upper.cell.set_weights(upper.cell.get_weights())
    kernel = encoder.gate.output_kernel
    kernel.assign(ops.zeros_like(kernel))
    return encoder


def _check_pair(lower: Any, upper: Any) -> None:
    for name, lstm in (("lower", lower), ("upper", upper)):
        if type(lstm) is not keras.layers.LSTM or not lstm.built:
            raise ValueError(
                f"Argument `{name}` must be a built `keras.layers.LSTM`, of "
                f"no subclass. Received: {name}={lstm!r}"
            )
        config = lstm.get_config()
        for argument, value in ASSUMED.items():
            if config.get(argument, value) != value:
                raise ValueError(
                    f"Argument `{name}` must be a `keras.layers.LSTM` with "
                    f"{argument}={value!r}, as the LSTMs of a "
                    "`FocusedHierarchicalEncoder` are. "
                    f"Received: {argument}={config[argument]!r}"
                )
    if not lower.return_sequences:
        raise ValueError(
            "Argument `lower` must return sequences. "
            "Received: return_sequences=False"
        )
    features = upper.cell.kernel.shape[0]
    if features != lower.units or lower.dtype_policy != upper.dtype_policy:
        raise ValueError(
            "Argument `upper` must read the states of `lower`, in its dtype. "
            f"Received: an upper layer of {features} features and "
            f"{upper.dtype_policy.name}, a lower one of {lower.units} units "
            f"and {lower.dtype_policy.name}"
        )
