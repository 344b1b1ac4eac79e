"""From Keras' recurrent layers to receptive fields."""

from collections.abc import Collection
from typing import Any

import keras

from keras_seqmech.core.wrapped import directions
from keras_seqmech.receptive_field import ReceptiveFieldRNN
from keras_seqmech.receptive_field import RFCell

# Subclasses may do more than their cell says.
PLAIN = (
    keras.layers.RNN,
    keras.layers.LSTM,
    keras.layers.GRU,
    keras.layers.SimpleRNN,
)
# Arguments that a migrated layer has under the same names.
CARRIED = (
    "return_sequences",
    "return_state",
    "go_backwards",
    "stateful",
    "unroll",
    "zero_output_for_mask",
    "activity_regularizer",
    "name",
    "trainable",
)
# Arguments that options cannot give.
TAKEN = (*CARRIED, "cell", "dtype")


def receptive_field_from_keras(
    layer: keras.layers.Layer, max_size: int, **options: Any
) -> keras.layers.Layer:
    r"""A layer with receptive fields that gives a Keras layer's answers.

    The cell, its weights and all arguments of the layer are carried over. The
    field's own weights are new. At first its gate is open whatever it reads,

    $$1 - a \odot (1 - F_t), \quad a = 0,$$

    in place of $F_t$: states are multiplied by exactly 1. The strength $a$ is
    trainable, between 0 and 1, and has a gradient from the first step on;
    inner network, gate and sizes get theirs as soon as it is above 0. (A gate
    of equation 3 that is open to rounding has none: at $F_t = 1 - 10^{-7}$
    its gradient is $10^{-7}$ times that.)

    Args:
        layer: A `keras.layers.LSTM`, `GRU`, `SimpleRNN`, a `keras.layers.RNN`
            of any cell or several, or a `keras.layers.Bidirectional` of one.
            Not a subclass, which may do other things. It does not change.
        max_size: Positive int, the largest field size S.
        **options: Further arguments of `ReceptiveFieldRNN`, such as
            `field_units` and `penalties`. `forget_strength` is 0 unless
            given.

    Returns:
        A `ReceptiveFieldRNN`, or a `keras.layers.Bidirectional` of two. It has
        the name of the layer, and its weights and states where it is built.

    Raises:
        ValueError: If the layer is no such layer, or an option one of its own.

    Example:

    >>> import keras, numpy as np
    >>> lstm = keras.layers.LSTM(8)
    >>> x = np.ones((2, 7, 5))
    >>> expected = lstm(x)
    >>> layer = receptive_field_from_keras(lstm, max_size=4)
    >>> np.allclose(layer(x), expected, atol=1e-6)
    True
    """
    check_options(options, TAKEN)
    check_migratable(layer)
    options = {"forget_strength": 0.0, **options, "max_size": max_size}
    parts = [_without_weights(rnn, options) for rnn in directions(layer)]
    migrated = parts[0]
    if len(parts) == 2:
        migrated = keras.layers.Bidirectional(
            parts[0],
            backward_layer=parts[1],
            merge_mode=layer.merge_mode,
            name=layer.name,
            trainable=layer.trainable,
            dtype=layer.dtype_policy,
            activity_regularizer=layer.activity_regularizer,
        )
    if layer.built:
        _build_like(migrated, layer)
        for own, rnn in zip(directions(migrated), directions(layer)):
            _copy(own, rnn)
    return migrated


def check_options(options: dict[str, Any], carried: Collection[str]) -> None:
    """Refuses arguments that a migrated layer takes from the given one."""
    both = sorted(set(options) & set(carried))
    if both:
        raise ValueError(
            f"Arguments {both} are those of the layer that is migrated and "
            "must not be given. "
            f"Received: {', '.join(f'{k}={options[k]!r}' for k in both)}"
        )


def is_migratable(layer: Any) -> bool:
    """Whether `receptive_field_from_keras` takes a layer."""
    if type(layer) is keras.layers.Bidirectional:
        return all(map(is_migratable, directions(layer)))
    return type(layer) in PLAIN and not isinstance(layer.cell, RFCell)


def check_migratable(layer: Any) -> None:
    """Refuses other layers."""
    if not is_migratable(layer):
        raise ValueError(
            "Argument `layer` must be a `keras.layers.LSTM`, `GRU`, "
            "`SimpleRNN` or `RNN` without receptive fields, or a "
            "`keras.layers.Bidirectional` of one, and of no subclass. "
            f"Received: layer={layer!r}"
        )


def _without_weights(
    layer: keras.layers.RNN, options: dict[str, Any]
) -> ReceptiveFieldRNN:
    cell = type(layer.cell).from_config(layer.cell.get_config())
    carried = {name: getattr(layer, name) for name in CARRIED}
    return ReceptiveFieldRNN(
        cell, **carried, dtype=layer.dtype_policy, **options
    )


def _build_like(
    migrated: keras.layers.Layer, layer: keras.layers.Layer
) -> None:
    """Builds a layer for the shapes that another is built for."""
    shapes = layer.get_build_config()
    if "shapes_dict" in shapes:
        shapes = {"input_shape": shapes["shapes_dict"]["sequences_shape"]}
    migrated.build_from_config(shapes)


def _copy(migrated: ReceptiveFieldRNN, layer: keras.layers.RNN) -> None:
    """Copies weights, and the states of stateful layers."""
    migrated.cell.cell.set_weights(layer.cell.get_weights())
    if layer.stateful:
        pairs = zip(*map(keras.tree.flatten, (migrated.states, layer.states)))
        for own, given in pairs:
            own.assign(given)
