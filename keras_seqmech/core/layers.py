"""Helpers of layers: sequences, specs, scalars, constraints, configs."""

import warnings
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from keras_seqmech._keras_compat import in_control_flow
from keras_seqmech._keras_compat import is_recomputed
from keras_seqmech.core import checks
from keras_seqmech.core.numerics import score_dtype
from keras_seqmech.typing import Tensor


class SequenceLayer(keras.layers.Layer):
    """Base of layers of one sequence `(batch, time, features)` and its mask.

    What they return has another time axis or none, or no features, so they
    pass no mask on: Keras would mask losses by steps that are not theirs.
    """

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.supports_masking = True
        # Those that a layer with weights was built for.
        self.features: Any = None

    def check_shape(self, shape: Sequence[int | None]) -> None:
        """Refuses shapes of sequences that the layer does not take."""
        checks.check_sequences("sequence.shape", shape)
        checks.check_features("sequence.shape", shape, self.features)

    def prepare(
        self, sequence: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Checked sequences, and a boolean mask or None."""
        self.check_shape(sequence.shape)
        checks.check_mask("mask", mask, sequence.shape)
        return checks.assert_steps(sequence, mask)

    def compute_mask(
        self, sequence: Tensor, mask: Tensor | None = None
    ) -> None:
        return None


def output_specs(shapes: Any, dtype: str) -> Any:
    """Outputs of a layer, as `KerasTensor`s, from the shapes in a structure.

    Those in a dict are of decisions, which are float32 or wider.
    """
    if isinstance(shapes, dict):
        dtype = score_dtype(dtype)
        return {k: keras.KerasTensor(x, dtype) for k, x in shapes.items()}
    if any(isinstance(x, (tuple, list, dict)) for x in shapes):
        return type(shapes)(output_specs(x, dtype) for x in shapes)
    return keras.KerasTensor(shapes, dtype)


def freeze_parts(layer: keras.layers.Layer) -> None:
    """Freezes the layers within a layer made with `trainable=False`.

    Keras itself does so only when the attribute is set to another value.
    """
    if not layer.trainable:
        layer.trainable = True
        layer.trainable = False


def add_kernel(
    layer: Any,
    name: str,
    shape: tuple[int, ...],
    initializer: Any = None,
    autocast: bool = True,
) -> keras.Variable:
    """Adds a kernel to a layer that has a `kernel_initializer`."""
    return layer.add_weight(
        name=name,
        shape=shape,
        initializer=checks.fresh(initializer or layer.kernel_initializer),
        regularizer=layer.kernel_regularizer,
        autocast=autocast,
    )


def add_scalar(
    layer: keras.layers.Layer,
    name: str,
    value: float,
    constraint: Any = "non_neg",
) -> keras.Variable:
    """Adds a non-trainable float32 scalar variable to a layer.

    Nothing is traced again when it changes, and it is kept in saves. The
    `constraint` says what callbacks must not violate; see `Schedule`.
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
    """Holds each entry of a weight between 0 and 1."""

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
    """Mean loss of the rows of a batch, 0 for no rows, as on a replica.

    It is float32 or wider: half precision holds no large count or sum.
    """
    dtype = keras.backend.result_type(
        losses.dtype, keras.config.floatx(), "float32"
    )
    count = tf.cast(tf.maximum(tf.shape(losses)[0], 1), dtype)
    return ops.sum(ops.cast(losses, dtype)) / count


def add_loss(
    layer: keras.layers.Layer,
    loss: Tensor,
    weights: dict[str, keras.Variable],
    is_used: bool,
) -> None:
    """Adds an auxiliary loss of a layer to that of the model.

    It is added in the dtype in which Keras adds up losses.

    What a loop or a condition computes cannot be used outside of it, and what
    is recomputed has no gradient there, so a loss that is not used is not
    added; a weight that is raised later is refused when the loop runs.

    Args:
        layer: The layer whose loss it is.
        loss: Scalar tensor.
        weights: The weights of its terms, by name.
        is_used: Whether a weight was above 0 when the layer was made.
    """
    if is_used:
        checks.check_not_recomputed()
    if is_used or not (in_control_flow() or is_recomputed()):
        layer.add_loss(ops.cast(loss, keras.config.floatx()))
        if in_control_flow():
            warnings.warn(
                f"Layer '{layer.name}' adds a loss within a loop or condition. "
                "Only a training step within the same one can use it; `fit` "
                "fails: there call the layer outside, or without penalties.",
                UserWarning,
                stacklevel=2,
            )
        return
    for name, weight in weights.items():
        tf.debugging.assert_equal(
            tf.convert_to_tensor(weight),
            0.0,
            f"`{name}` of layer '{layer.name}' must be 0: its loss is not "
            "added within a loop, a condition or a recomputed function. Call "
            "the layer outside of it.",
        )
