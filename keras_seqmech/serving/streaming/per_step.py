"""Layers and operations that are known to treat each step alone."""

from typing import Any

import keras
import numpy as np

from keras_seqmech.focused.gate import BoundaryGate
from keras_seqmech.keep_mask import KeepMask
from keras_seqmech.subsample.emission_probabilities import EmissionProbabilities


def _named(place: Any, names: str) -> set:
    return {getattr(place, name) for name in names.split()}


# Whatever their arguments, with a known activation.
_LAYERS = {BoundaryGate, EmissionProbabilities} | _named(
    keras.layers,
    "Activation ActivityRegularization AlphaDropout Dense Dropout ELU "
    "Embedding GaussianDropout GaussianNoise Identity LeakyReLU ReLU "
    "SpatialDropout1D TimeDistributed",
)
# Where time is none of their axes.
_LAYERS_WITH_AXES = _named(
    keras.layers,
    "BatchNormalization Concatenate LayerNormalization Normalization "
    "RMSNormalization Softmax UnitNormalization",
)
# Where time meets time alone.
_MERGES = _named(keras.layers, "Add Average Maximum Minimum Multiply Subtract")
# One id for each id or word, unless they encode several as one.
_LOOKUPS = _named(keras.layers, "Hashing IntegerLookup StringLookup")
# Names of classes of `keras.ops`, which are not public.
_ELEMENTWISE_OPS = set(
    "Absolute Add Cast Ceil Clip Cos Divide DivideNoNan Elu Equal Erf Exp "
    "Expm1 Floor FloorDivide Gelu Greater GreaterEqual Isfinite Isnan "
    "LeakyRelu Less LessEqual Log Log1p LogSigmoid LogicalAnd LogicalNot "
    "LogicalOr LogicalXor Maximum Minimum Mod Multiply Negative NotEqual "
    "OnesLike Power Reciprocal "
    "Relu Relu6 Round Rsqrt Selu Sigmoid Sign Silu Sin Softplus Softsign Sqrt "
    "Square StopGradient Subtract Tanh TrueDivide Where ZerosLike".split()
)
_OPS_WITH_AXES = set(
    "All Any Argmax Argmin Concatenate ExpandDims LogSoftmax Max Mean Min "
    "OneHot Prod Softmax Squeeze Stack Sum".split()
)
_ACTIVATIONS = _named(
    keras.activations,
    "celu elu exponential gelu hard_shrink hard_sigmoid hard_silu hard_tanh "
    "leaky_relu linear log_sigmoid mish relu relu6 selu sigmoid silu "
    "soft_shrink softplus softsign sparse_plus sparse_sigmoid squareplus tanh "
    "tanh_shrink threshold",
)
# Over the last axis.
_FEATURE_ACTIVATIONS = _named(
    keras.activations, "glu log_softmax softmax sparsemax"
)


def has_time(tensor: Any) -> bool:
    """Returns whether a tensor is a sequence of free length."""
    shape: Any = getattr(tensor, "shape", ())
    return len(shape) > 1 and shape[1] is None


def treats_steps_alone(operation: Any, args: Any, kwargs: Any) -> bool:
    """Returns whether an operation is known to treat each step alone.

    Args:
        operation: A layer, or an operation of `keras.ops`. A subclass of a
            known class is not known.
        args: Positional arguments of the call.
        kwargs: Keyword arguments of the call. At least one argument is a
            sequence.
    """
    kind, layer = type(operation), operation
    arguments = [*args, *kwargs.values()]
    tensors = [x for x in keras.tree.flatten(arguments) if hasattr(x, "shape")]
    rank = max(len(x.shape) for x in tensors)
    if kind is KeepMask:
        return type(layer.layer) is keras.layers.TimeDistributed
    if kind in _LAYERS:
        return has_known_activation(layer, rank)
    if kind in _MERGES:
        return _meet(arguments[0], rank, are_merged=True)
    if kind is keras.layers.BatchNormalization:
        return _avoid_time(layer.axis, rank)
    if kind in _LAYERS_WITH_AXES:
        return _avoid_time(layer.axis, rank) and _are_alike(tensors)
    if kind in _LOOKUPS:
        return layer.output_mode == "int"
    if kind is keras.layers.Masking:
        return rank > 2
    if kind is keras.layers.Conv1D:
        # Others carry a state; those that skip steps were refused.
        return layer.kernel_size == (1,)
    return _is_alone(operation, arguments, tensors, rank)


def has_known_activation(layer: keras.Layer, rank: int) -> bool:
    """Returns whether a layer's activation, if any, treats steps alone."""
    activation = getattr(layer, "activation", None)
    if activation in _FEATURE_ACTIVATIONS:
        return rank > 2
    return activation is None or activation in _ACTIVATIONS


def _is_alone(
    operation: Any, arguments: list, tensors: list, rank: int
) -> bool:
    """`treats_steps_alone` of an operation of `keras.ops`."""
    name = type(operation).__name__
    if type(operation).__module__.partition(".")[0] != "keras":
        return False
    if name in _OPS_WITH_AXES:
        added = name in ("ExpandDims", "OneHot", "Stack")
        return _avoid_time(operation.axis, rank + added) and _are_alike(tensors)
    return name in _ELEMENTWISE_OPS and _meet(arguments, rank)


def _avoid_time(axes: Any, rank: int) -> bool:
    """Returns whether axes are given, without those of batch and time."""
    if axes is None:
        return False
    axes = [axes] if isinstance(axes, int) else axes
    return all((axis + rank if axis < 0 else axis) > 1 for axis in axes)


def _are_alike(tensors: list) -> bool:
    """Returns whether all tensors are sequences of one rank."""
    return len({len(x.shape) for x in tensors}) == 1 and all(
        map(has_time, tensors)
    )


def _meet(arguments: list, rank: int, are_merged: bool = False) -> bool:
    """Returns whether time meets time alone where arguments are broadcast.

    Axes that an argument lacks are put first; by merging layers, after the
    batch.
    """

    def meets(x: Any) -> bool:
        shape = tuple(x.shape) if hasattr(x, "shape") else np.shape(x)
        lacks = rank - len(shape)
        if lacks < 0 or has_time(x):
            return lacks == 0
        if are_merged and lacks:
            return True
        return lacks > 1 or shape[1 - lacks] == 1

    return all(map(meets, arguments))
