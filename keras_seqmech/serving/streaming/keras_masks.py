"""Masks that Keras passes on from layer to layer, made visible."""

import inspect
from typing import Any

import keras
import tensorflow as tf

from keras_seqmech.typing import Tensor


def with_masks(operation: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Arguments of a layer, with the masks that Keras fills in for it."""
    if not isinstance(operation, keras.Layer):
        return args, kwargs
    signature = inspect.signature(operation.call)
    given = signature.bind(*args, **kwargs).arguments
    tensors = {
        name: value
        for name, value in given.items()
        if all(map(is_symbolic, keras.tree.flatten(value)))
    }
    for name, value in tensors.items():
        own = "mask" if len(tensors) == 1 else f"{name}_mask"
        is_missing = own in signature.parameters and given.get(own) is None
        if is_missing and is_symbolic(value):
            mask = mask_of(value)
            kwargs = kwargs if mask is None else {**kwargs, own: mask}
    return args, kwargs


def is_symbolic(value: Any) -> bool:
    """Returns whether a value is a symbolic tensor of Keras."""
    return isinstance(value, keras.KerasTensor)


def mask_of(tensor: Any) -> Any:
    """The mask that comes with a tensor, as Keras shows it to layers alone."""
    shown = Shown(autocast=False)
    shown(tensor)
    return shown.mask


class Shown(keras.layers.Layer):
    """Keeps the mask that it is called with."""

    mask: Any = None

    def call(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        self.mask = mask
        return x

    def compute_output_spec(self, x: Tensor, mask: Any = None) -> Tensor:
        self.mask = mask
        return keras.KerasTensor(x.shape, x.dtype)

    def compute_mask(self, x: Tensor, mask: Any = None) -> None:
        return None


class Passed(keras.layers.Layer):
    """Passes a tensor on, in a dtype, and with another mask if one is given."""

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, tensors: list[Tensor]) -> Tensor:
        # As a functional model casts what it is given.
        return tf.identity(tf.cast(tensors[0], self.compute_dtype))

    def compute_output_spec(
        self, tensors: list[keras.KerasTensor]
    ) -> keras.KerasTensor:
        return keras.KerasTensor(tensors[0].shape, self.compute_dtype)

    def compute_mask(self, tensors: list[Tensor], mask: Any = None) -> Any:
        if len(tensors) > 1:
            return tensors[1]
        return mask[0] if isinstance(mask, (list, tuple)) else mask
