"""Numbers of a layer that callbacks set while it trains."""

from typing import Any

import keras


def add_scalar(
    layer: keras.layers.Layer,
    name: str,
    value: float,
    constraint: Any = "non_neg",
) -> keras.Variable:
    """Adds a non-trainable float32 number to a layer.

    A variable, so that nothing is traced again when it changes, and so that
    it is kept in saves.

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
