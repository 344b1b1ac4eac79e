"""Look-ahead windows: the steps that a field at step t can read."""

from keras import ops

from keras_seqmech.ops import masking
from keras_seqmech.typing import Tensor


def look_ahead(
    sequences: Tensor, max_size: int, length: Tensor, axis: int = 1
) -> list[Tensor]:
    """Views a sequence `0, 1, ..., max_size - 1` steps ahead.

    Args:
        sequences: Tensor with its time steps along `axis`. Steps beyond
            `length` serve as what comes after the end; zeros follow them.
        max_size: How many views, S.
        length: Number of steps T of each view, an int or a scalar tensor.
        axis: The time axis, 0 or 1.

    Returns:
        List of S tensors with T steps; step t of view i is step `t + i` of
        `sequences`.
    """
    padding = [[0, 0] for _ in sequences.shape]
    padding[axis][1] = max_size - 1
    padded = ops.pad(sequences, padding)
    if axis == 0:
        return [padded[i : i + length] for i in range(max_size)]
    return [padded[:, i : i + length] for i in range(max_size)]


def look_ahead_windows(
    sequences: Tensor, max_size: int, mask: Tensor | None = None
) -> Tensor:
    """Stacks each step with the `max_size - 1` steps after it.

    Args:
        sequences: Tensor `(batch, time, features)`.
        max_size: Window size S.
        mask: Boolean tensor `(batch, time)`, True = real. None: all are.

    Returns:
        Tensor `(batch, time, S, features + 1)`. The last feature is 1 where
        the position exists and is not masked; elsewhere all features are 0.
    """
    length = ops.shape(sequences)[1]
    if mask is None:
        mask = ops.ones(ops.shape(sequences)[:2], dtype="bool")
    mask = ops.cast(mask, "bool")
    real = ops.expand_dims(ops.cast(mask, sequences.dtype), axis=-1)
    sequences = masking.zero_masked(sequences, mask)
    features = ops.concatenate([sequences, real], axis=-1)
    return ops.stack(look_ahead(features, max_size, length), axis=2)
