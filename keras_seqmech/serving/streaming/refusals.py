"""Refusals of layers and models that cannot be streamed."""

from typing import Any

import keras
import tensorflow as tf

from keras_seqmech.core.graph import sublayers
from keras_seqmech.core.stream import ConvolutionSteps
from keras_seqmech.core.stream import State
from keras_seqmech.serving.streaming.per_step import has_known_activation
from keras_seqmech.serving.streaming.per_step import has_time

UNKNOWN = (
    "is not known to treat each step alone, as it is called here; a window is "
    "made by padding, then slices, as in "
    "`keras.layers.ZeroPadding1D((0, 2))(x)[:, 2:]`; classes of your own that "
    "do are declared by `per_step`, and those that carry a state have a "
    "`stream_step` of their own, as far as they have their own `call`"
)


def check_classes(per_step: Any) -> None:
    """Refuses a `per_step` that is not a list of classes of layers."""
    is_list = isinstance(per_step, (list, tuple))
    if not is_list or not all(
        isinstance(kind, type) and issubclass(kind, keras.Layer)
        for kind in per_step
    ):
        raise ValueError(
            "Argument `per_step` must be a list or tuple of classes of layers. "
            f"Received: per_step={per_step!r}"
        )


def check_inputs(model: keras.Model) -> None:
    """Refuses models without an input whose time axis, alone, is free."""
    shapes = [tuple(x.shape) for x in model.inputs]
    only_time_is_free = all(None not in shape[2:] for shape in shapes)
    if not only_time_is_free or not any(map(has_time, model.inputs)):
        raise ValueError(
            "Argument `model` must have an input with a free time axis, such "
            "as `keras.Input((None, 8))`, and no other free axis, to be served "
            f"step by step. Received: inputs of shapes {shapes}"
        )


def check_call(model: keras.Model) -> None:
    """Refuses models that do not just run their graph, as a plain one does."""
    plain = type(keras.Model(model.inputs, model.outputs))
    for name in ("call", "__call__"):
        if getattr(type(model), name) not in (
            getattr(plain, name),
            getattr(keras.Sequential, name),
        ):
            raise refusal_of(model, f"has a `{name}` of its own")


def check_streams(operation: Any, steps: Any) -> None:
    """Refuses layers that are told to do what cannot be streamed."""
    reason = getattr(steps or operation, "stream_refusal", None)
    if reason is not None:
        raise refusal_of(operation, reason)
    if isinstance(operation, keras.Layer):
        for part in sublayers(operation):
            if getattr(part, "stateful", False):
                raise refusal_of(operation, "is stateful")
    if isinstance(steps, ConvolutionSteps):
        if not has_known_activation(steps.layer, rank=3):
            raise refusal_of(operation, "has an activation that is not known")


def check_state(layer: keras.Layer, before: State, after: State) -> None:
    """Refuses steps whose next state is not like the one that they get."""
    own, new = (
        {path: tf.TensorSpec(x.shape, x.dtype) for path, x in flat}
        for flat in map(keras.tree.flatten_with_path, (before, after))
    )
    if own.keys() != new.keys() or not all(
        new[path].is_compatible_with(spec) for path, spec in own.items()
    ):
        reason = (
            "has a `stream_step` whose state is not like that of "
            f"`stream_state`, {own}, but {new}"
        )
        raise refusal_of(layer, reason)


def refusal_of(operation: Any, reason: str) -> ValueError:
    """The error that names an operation and why it cannot be streamed."""
    return ValueError(
        "Argument `model` must have layers that can be given one step after "
        f"the other. Received: {operation.name!r}, of class "
        f"{type(operation).__name__}, which {reason}. Allowed are recurrent "
        "layers that read forwards, causal convolutions, those of this "
        "package, and layers that are known to treat each step alone"
    )
