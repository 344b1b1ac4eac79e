"""Sequences shortened to the steps that are kept, and their way back.

`compact` says which steps of each row are kept, in order; `gather` takes them
from a sequence; `expand` brings results back to all steps. Gradients of both
ways are sums over the same indices.
"""

from collections.abc import Callable

import tensorflow as tf

from keras_seqmech._keras_compat import in_xla


def capacity(keep: tf.Tensor) -> int | tf.Tensor:
    """Length that shortened sequences need: the most steps any row keeps.

    Args:
        keep: Boolean tensor `(batch, time)`, True where a step is kept.

    Returns:
        An int32 scalar, at least 1; compiled with XLA the number of steps,
        which sets the size of arrays there.
    """
    if in_xla():
        return tf.shape(keep)[1]
    return tf.maximum(longest(keep), 1)


def longest(keep: tf.Tensor) -> tf.Tensor:
    """The most steps any row keeps, an int32 scalar; 0 for an empty batch."""
    counts = tf.reduce_sum(tf.cast(keep, "int32"), axis=1)
    return tf.maximum(tf.reduce_max(counts), 0)


def compact(
    keep: tf.Tensor, capacity: int | tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Finds the kept steps of each row.

    Args:
        keep: Boolean tensor `(batch, time)`, True where a step is kept.
        capacity: Length K of the shortened sequences. Rows that keep more
            lose the last ones.

    Returns:
        Indices of the kept steps, int32 `(batch, K)`, ascending, 0 where a
        row keeps fewer; and a boolean mask `(batch, K)` of those that exist.

    Example:

    >>> keep = tf.constant([[False, True, True], [False, True, False]])
    >>> indices, mask = compact(keep, 2)
    >>> indices.numpy().tolist(), mask.numpy().tolist()
    ([[1, 2], [1, 0]], [[True, True], [True, False]])
    """
    batch_size, length = tf.unstack(tf.shape(keep))
    number = numbers(keep)
    # Steps that are not kept go to one additional place, which is cut off.
    place = tf.where(keep & (number <= capacity), number - 1, capacity)
    place += tf.range(batch_size)[:, None] * (capacity + 1)
    steps = tf.broadcast_to(tf.range(length), (batch_size, length))
    indices = tf.math.unsorted_segment_sum(
        tf.reshape(steps, [-1]),
        tf.reshape(place, [-1]),
        batch_size * (capacity + 1),
    )
    indices = tf.reshape(indices, (batch_size, capacity + 1))[:, :-1]
    mask = tf.range(capacity) < number[:, -1:]
    return indices, mask


def numbers(keep: tf.Tensor) -> tf.Tensor:
    """How many steps are kept up to each step and with it, int32."""
    return tf.cumsum(tf.cast(keep, "int32"), axis=1)


def gather(
    sequences: tf.Tensor, keep: tf.Tensor, indices: tf.Tensor
) -> tf.Tensor:
    """Takes the kept steps of each row.

    Args:
        sequences: Tensor `(batch, time, features)`.
        keep: Boolean tensor `(batch, time)`.
        indices: From `compact`.

    Returns:
        Tensor `(batch, K, features)`. Places beyond the steps that a row keeps
        hold its first step, without a gradient.
    """

    @tf.custom_gradient
    def take(sequences: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            # Every step is taken once at most: its gradient is gathered too,
            # which is cheaper than adding up by index.
            number = numbers(keep)
            last = tf.shape(indices)[1] - 1
            place = tf.clip_by_value(number - 1, 0, last)
            taken = keep & (number <= last + 1)
            values = tf.gather(upstream, place, batch_dims=1)
            return tf.where(taken[..., None], values, tf.zeros_like(values))

        return tf.gather(sequences, indices, batch_dims=1), gradient

    return take(sequences)


def expand(
    initial: tf.Tensor, compacted: tf.Tensor, keep: tf.Tensor
) -> tf.Tensor:
    """Brings states after the kept steps back to all steps.

    Args:
        initial: Tensor `(batch, units)`, the state before the first kept
            step.
        compacted: Tensor `(batch, K, units)`, K at least the most steps any
            row keeps.
        keep: Boolean tensor `(batch, time)`.

    Returns:
        Tensor `(batch, time, units)`: at each step the state of the last kept
        one.
    """
    states = tf.concat([initial[:, None], compacted], axis=1)
    return tf.gather(states, numbers(keep), batch_dims=1)


def final(
    initial: tf.Tensor, compacted: tf.Tensor, keep: tf.Tensor
) -> tf.Tensor:
    """The last step of `expand`, without the others: `(batch, units)`."""
    count = numbers(keep)[:, -1:]
    place = tf.maximum(count - 1, 0)
    last = tf.gather(compacted, place, batch_dims=1)[:, 0]
    return tf.where(count > 0, last, initial)
