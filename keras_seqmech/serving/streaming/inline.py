"""Functional models without functional models within them."""

import inspect
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_seqmech.core import graph
from keras_seqmech.typing import Tensor


def inlined(
    model: keras.Model,
    check: Callable[[keras.Model], None],
    kept: Sequence[type],
) -> keras.Model:
    """A functional model whose graph has the operations of those within it.

    Masks that Keras passes on are arguments of its calls.

    Args:
        model: A functional model, or a built `keras.Sequential`.
        check: Function that refuses a functional model within it.
        kept: Classes of operations that stay as they are.
    """

    def call(operation: Any, *args: Any, **kwargs: Any) -> Any:
        if not getattr(operation, "outputs", None) or type(operation) in kept:
            args, kwargs = _with_masks(operation, args, kwargs)
            return operation(*args, **kwargs)
        check(operation)
        return call_model(operation, *args, **kwargs)

    def call_model(
        model: keras.Model, inputs: Any, mask: Any = None, **kwargs: Any
    ) -> Any:
        functional = graph.as_functional(model)
        inputs = keras.tree.flatten(inputs)
        masks = [None] * len(inputs)
        if mask is not None:
            masks = keras.tree.flatten(mask)
        given = [
            Passed(dtype=own.dtype)([x] if mask is None else [x, mask])
            for own, x, mask in zip(functional.inputs, inputs, masks)
        ]
        return graph.call_again(functional, call, given)

    return graph.run_again(model, call)


def _with_masks(operation: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Arguments of a layer, with the masks that Keras fills in for it."""
    if not isinstance(operation, keras.Layer):
        return args, kwargs
    signature = inspect.signature(operation.call)
    given = signature.bind(*args, **kwargs).arguments
    named = {k: x for k, x in given.items() if isinstance(x, keras.KerasTensor)}
    for name, x in named.items():
        own = "mask" if len(named) == 1 else f"{name}_mask"
        if own in signature.parameters and given.get(own) is None:
            mask = _mask_of(x)
            kwargs = kwargs if mask is None else {**kwargs, own: mask}
    return args, kwargs


def _mask_of(tensor: keras.KerasTensor) -> keras.KerasTensor | None:
    """The mask that comes with a tensor, as Keras shows it to layers alone."""
    found = []

    class Shown(keras.layers.Layer):
        def call(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
            return x

        def compute_output_spec(self, x: Tensor, mask: Any = None) -> Tensor:
            found.append(mask)
            return keras.KerasTensor(x.shape, x.dtype)

        def compute_mask(self, x: Tensor, mask: Any = None) -> None:
            return None

    Shown(autocast=False)(tensor)
    return found[0]


class Passed(keras.layers.Layer):
    """Passes a tensor on, in a dtype, and with another mask if one is given."""

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, tensors: list[Tensor]) -> Tensor:
        return tf.identity(tensors[0])

    def compute_output_spec(
        self, tensors: list[keras.KerasTensor]
    ) -> keras.KerasTensor:
        return keras.KerasTensor(tensors[0].shape, self.compute_dtype)

    def compute_mask(self, tensors: list[Tensor], mask: Any = None) -> Any:
        if len(tensors) > 1:
            return tensors[1]
        return mask[0] if isinstance(mask, (list, tuple)) else mask
