"""Masks: boolean, `(batch, time)`, True where a step is real."""

from typing import Any

from keras import ops


def zero_masked(sequences: Any, mask: Any | None) -> Any:
    """Puts zeros at masked steps, whatever stands there (NaN included).

    Args:
        sequences: Tensor `(batch, time, features)`.
        mask: Boolean tensor `(batch, time)` or None.

    Returns:
        Tensor of the shape of `sequences`. No gradient reaches masked steps.
    """
    if mask is None:
        return sequences
    mask = ops.expand_dims(ops.cast(mask, "bool"), axis=-1)
    return ops.where(mask, sequences, ops.cast(0, sequences.dtype))


def real_steps(sequences: Any, mask: Any | None) -> Any:
    """The mask as booleans `(batch, time)`; all True for None."""
    if mask is None:
        return ops.ones(ops.shape(sequences)[:2], dtype="bool")
    return ops.cast(mask, "bool")
