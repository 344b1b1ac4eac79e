"""Masks: boolean, `(batch, time)`, True where a step is real."""

from typing import Any

from keras import ops

from keras_seqmech.typing import Tensor


def zero_masked(sequences: Tensor, mask: Tensor | None) -> Tensor:
    """Sets masked steps to zero, whatever their values (NaN included).

    Args:
        sequences: Tensor `(batch, time, ...)`.
        mask: Boolean tensor `(batch, time)` or None.

    Returns:
        Tensor of the shape of `sequences`. No gradient reaches masked steps.
    """
    if mask is None:
        return sequences
    mask = ops.cast(mask, "bool")
    for _ in sequences.shape[2:]:
        mask = ops.expand_dims(mask, axis=-1)
    return ops.where(mask, sequences, ops.cast(0, sequences.dtype))


def zero_masked_forward(sequences: Tensor, mask: Tensor | None) -> Tensor:
    """Like `zero_masked` in value; the gradient is passed on unchanged.

    Use it where masked steps have weight 0 downstream: their gradient is 0
    anyway, and one pass over the tensor is saved.
    """
    if mask is None:
        return sequences

    @ops.custom_gradient
    def fill(sequences: Tensor) -> Any:
        def gradient(*args: Tensor, upstream: Tensor | None = None) -> Tensor:
            return args[0] if upstream is None else upstream

        return zero_masked(sequences, mask), gradient

    return fill(sequences)


def as_booleans(mask: Tensor | None) -> Tensor | None:
    """The mask as booleans; None stays None."""
    return None if mask is None else ops.cast(mask, "bool")


def real_steps(sequences: Tensor, mask: Tensor | None) -> Tensor:
    """The mask as booleans `(batch, time)`; all True for None."""
    if mask is None:
        return ops.ones(ops.shape(sequences)[:2], dtype="bool")
    return ops.cast(mask, "bool")
