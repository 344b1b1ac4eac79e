"""Masks: boolean, `(batch, time)`, True where a step is real."""

from typing import Any

import keras
from keras import ops

from keras_seqmech._keras_compat import custom_gradient
from keras_seqmech.typing import Tensor


def zero_masked(sequence: Tensor, mask: Tensor | None) -> Tensor:
    """Sets masked steps to zero, whatever their values (NaN included).

    The sequence is `(batch, time, ...)`. No gradient reaches masked steps.
    """
    if mask is None:
        return sequence
    mask = ops.cast(mask, "bool")
    for _ in sequence.shape[2:]:
        mask = ops.expand_dims(mask, axis=-1)
    return ops.where(mask, sequence, ops.cast(0, sequence.dtype))


def zero_masked_forward(sequence: Tensor, mask: Tensor | None) -> Tensor:
    """Like `zero_masked` in value; the gradient is passed on unchanged.

    Use it where masked steps have weight 0 downstream: their gradient is 0
    anyway, and one pass over the tensor is saved.
    """
    if mask is None:
        return sequence

    @custom_gradient
    def fill(sequence: Tensor) -> Any:
        def gradient(upstream: Tensor) -> Tensor:
            return upstream

        return zero_masked(sequence, mask), gradient

    return fill(sequence)


def given(mask: Tensor | None, sequence_mask: Tensor | None) -> Tensor | None:
    """The mask of a call: `mask`, or what Keras fills in where that is None.

    Beside further tensors Keras fills in the mask of an argument `sequence` as
    `sequence_mask`.
    """
    return sequence_mask if mask is None else mask


def real_steps(sequence: Tensor, mask: Tensor | None) -> Tensor:
    """The mask as booleans `(batch, time)`; all True for None."""
    if mask is None:
        return ops.ones(ops.shape(sequence)[:2], dtype="bool")
    return ops.cast(mask, "bool")


def output_masks(layer: keras.layers.Layer, mask: Any) -> Any:
    """The masks of what a layer over sequences returns, in every Keras.

    From Keras 3.16 on, its recurrent layers do not pass masks on.

    The layer is a `keras.layers.RNN`, `Bidirectional` or `TimeDistributed`.
    The mask is that of the outputs, a list of two where both directions of a
    `Bidirectional` are returned; these come before states, which get none.
    """
    if mask is None or not getattr(layer, "return_sequences", True):
        return None
    is_both = isinstance(layer, keras.layers.Bidirectional)
    return [mask, mask] if is_both and layer.merge_mode is None else mask
