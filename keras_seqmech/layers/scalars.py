"""Scalar variables that callbacks set in training."""

from typing import Any

import keras


def add_scalar(
    layer: keras.layers.Layer,
    name: str,
    value: float,
    constraint: Any = "non_neg",
) -> keras.Variable:
    """Adds a non-trainable float32 scalar variable to a layer.

    Nothing is traced again when it changes, and it is kept in saves.

    Args:
        layer: The layer that holds it.
        name: Name of the variable.
        value: Its initial value.
        constraint: What callbacks must not violate; see `Curriculum`.

    Returns:
        The variable, of shape `()`.
    """
    return layer.add_weight(
        name=name,
        shape=(),
        dtype="float32",
        initializer=keras.initializers.Constant(value),
        trainable=False,
        autocast=False,
        constraint=constraint,
    )
