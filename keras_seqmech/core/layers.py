"""What layers of the package share: scalars, constraints, configs, losses."""

from typing import Any

import keras
from keras import ops

from keras_seqmech.typing import Tensor


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
        constraint: What callbacks must not violate; see `Schedule`.

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


@keras.saving.register_keras_serializable(package="keras_seqmech")
class UnitInterval(keras.constraints.Constraint):
    """Holds each entry of a weight between 0 and 1.

    A weight at 0 has the gradient it would have without the constraint, so it
    leaves as soon as the loss would fall.
    """

    def __call__(self, weight: Tensor) -> Tensor:
        return ops.clip(weight, 0, 1)


def unbuilt_config(layer: Any) -> dict[str, Any]:
    """A serialized layer or cell, without the shapes that it was built for.

    With them, Keras would build it before the layer around it, and its weights
    would lose that layer's name from their paths.
    """
    return _without_shapes(keras.saving.serialize_keras_object(layer))


def _without_shapes(config: Any) -> Any:
    if isinstance(config, dict):
        is_object = "class_name" in config and "config" in config
        return {
            key: _without_shapes(value)
            for key, value in config.items()
            if not (is_object and key == "build_config")
        }
    if isinstance(config, (list, tuple)):
        return type(config)(_without_shapes(value) for value in config)
    return config


def batch_mean(losses: Tensor) -> Tensor:
    """Mean loss of the rows of a batch.

    Args:
        losses: Tensor `(batch,)`; the batch may be empty, as on a replica.

    Returns:
        Scalar in the dtype in which Keras adds up losses; 0 for no rows.
    """
    losses = ops.cast(losses, keras.config.floatx())
    count = ops.maximum(ops.shape(losses)[0], 1)
    return ops.sum(losses) / ops.cast(count, losses.dtype)
