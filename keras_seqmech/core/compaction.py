"""Sequences shortened to the steps that are kept, and their way back.

`compact` says which steps of each row are kept, in order; `gather` takes them
from a sequence; `expand` brings results back to all steps. Gradients of both
ways are sums over the same indices. `keep` is boolean `(batch, time)`, True
where a step is kept.
"""

from collections.abc import Callable

import tensorflow as tf

from keras_seqmech._keras_compat import custom_gradient
from keras_seqmech._keras_compat import in_xla


def capacity(keep: tf.Tensor) -> int | tf.Tensor:
    """Length that shortened sequences need: the most steps any row keeps.

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
    keep: tf.Tensor, length: int | tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Finds the kept steps of each row, K = `length` of them at most.

    Returns:
        Indices of the kept steps, int32 `(batch, K)`, ascending, 0 where a
        row keeps fewer; and a boolean mask `(batch, K)` of those that exist.

    Example:

    >>> keep = tf.constant([[False, True, True], [False, True, False]])
    >>> indices, mask = compact(keep, 2)
    >>> indices.numpy().tolist(), mask.numpy().tolist()
    ([[1, 2], [1, 0]], [[True, True], [True, False]])
    """
    batch_size, time = tf.unstack(tf.shape(keep))
    count = running_count(keep)
    # Steps that are not kept go to one additional place, which is cut off.
    place = tf.where(keep & (count <= length), count - 1, length)
    place += tf.range(batch_size)[:, None] * (length + 1)
    steps = tf.broadcast_to(tf.range(time), (batch_size, time))
    indices = tf.math.unsorted_segment_sum(
        tf.reshape(steps, [-1]),
        tf.reshape(place, [-1]),
        batch_size * (length + 1),
    )
    indices = tf.reshape(indices, (batch_size, length + 1))[:, :-1]
    mask = tf.range(length) < count[:, -1:]
    return indices, mask


def running_count(keep: tf.Tensor) -> tf.Tensor:
    """How many steps are kept up to each step and with it, int32."""
    return tf.cumsum(tf.cast(keep, "int32"), axis=1)


def gather(
    sequences: tf.Tensor, keep: tf.Tensor, indices: tf.Tensor
) -> tf.Tensor:
    """Takes the kept steps of each row, as `(batch, K, features)`.

    The indices `(batch, K)` are those of `compact`. Places beyond the steps
    that a row keeps hold its first step, without a gradient.
    """

    @custom_gradient
    def take(sequences: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            # Every step is taken once at most: its gradient is gathered too,
            # which is cheaper than adding up by index.
            count = running_count(keep)
            last = tf.shape(indices)[1] - 1
            place = tf.clip_by_value(count - 1, 0, last)
            taken = keep & (count <= last + 1)
            values = tf.gather(upstream, place, batch_dims=1)
            return tf.where(taken[..., None], values, tf.zeros_like(values))

        return tf.gather(sequences, indices, batch_dims=1), gradient

    return take(sequences)


def expand(
    initial: tf.Tensor, compacted: tf.Tensor, keep: tf.Tensor
) -> tf.Tensor:
    """The state of the last kept step at each step, `(batch, time, units)`.

    `initial` is that before the first kept step, `(batch, units)`, `compacted`
    those of the kept steps, `(batch, K, units)`, K at least the most steps any
    row keeps.
    """
    states = tf.concat([initial[:, None], compacted], axis=1)
    return tf.gather(states, running_count(keep), batch_dims=1)


def final(
    initial: tf.Tensor, compacted: tf.Tensor, keep: tf.Tensor
) -> tf.Tensor:
    """The last step of `expand`, without the others: `(batch, units)`."""
    count = running_count(keep)[:, -1:]
    place = tf.maximum(count - 1, 0)
    last = tf.gather(compacted, place, batch_dims=1)[:, 0]
    return tf.where(count > 0, last, initial)
