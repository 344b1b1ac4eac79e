"""Look-ahead windows: the steps that a field at step t can read."""

from typing import NamedTuple

import tensorflow as tf
from keras import ops

from keras_seqmech.ops import masking
from keras_seqmech.typing import Tensor


class Readable(NamedTuple):
    """What the fields of a batch can read, time first.

    Attributes:
        steps: Tensor `(time + lookahead, batch, features)`, zeros at masked
            steps.
        mask: Boolean tensor `(time, batch)`, True at real steps; or None.
        validity: Boolean tensor `(time, batch or 1, S)`: whether each
            position of the window at each step exists and is real.
        length: Number of steps T that have a window, an int or a scalar.
    """

    steps: Tensor
    mask: Tensor | None
    validity: Tensor
    length: Tensor

    @property
    def current(self) -> Tensor:
        """The steps that have a window, `(time, batch, features)`."""
        return self.steps[: self.length]


def readable(
    sequences: Tensor,
    max_size: int,
    mask: Tensor | None = None,
    lookahead: Tensor | None = None,
    lookahead_mask: Tensor | None = None,
) -> Readable:
    """Brings sequences into the form in which fields read them.

    Args:
        sequences: Tensor `(batch, time, features)`, in reading order.
        max_size: Window size S.
        mask: Boolean tensor `(batch, time)`, True at real steps; None: all.
        lookahead: Tensor `(batch, steps, features)` or None: what follows the
            last step.
        lookahead_mask: Boolean tensor `(batch, steps)` or None.

    Returns:
        `Readable`.
    """
    batch_size, length, _ = ops.shape(sequences)
    if sequences.shape[1] is None:
        tf.debugging.assert_positive(
            length,
            "Argument `sequences` must have at least one time step. "
            "Received: sequences of 0 steps",
        )
    steps = masking.zero_masked(sequences, mask)
    # Without masks all rows are alike, and one row of validity serves all.
    rows = 1 if mask is None and lookahead_mask is None else batch_size
    real = ops.ones((rows, length), "bool") if mask is None else mask
    if lookahead is not None:
        if lookahead_mask is None:
            follows = ops.ones((rows, ops.shape(lookahead)[1]), "bool")
        else:
            follows = lookahead_mask
        lookahead = masking.zero_masked(lookahead, lookahead_mask)
        steps = ops.concatenate([steps, lookahead], axis=1)
        real = ops.concatenate([real, follows], axis=1)
    views = look_ahead(ops.transpose(real), max_size, length, axis=0)
    return Readable(
        ops.transpose(steps, (1, 0, 2)),
        None if mask is None else ops.transpose(mask),
        ops.stack(views, axis=-1),
        length,
    )


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
