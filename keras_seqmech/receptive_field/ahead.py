"""What lies ahead of each step, and what of it has arrived in a stream."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf
from keras import ops

from keras_seqmech.core.masks import zero_masked
from keras_seqmech.core.stream import Queue
from keras_seqmech.core.stream import Tick
from keras_seqmech.typing import Tensor

# What a field shows of sizes that depends on all of its window, which a stream
# has not read where they are decided while reading, by `size_from`.
UNREAD = {"input": (), "field": ("probabilities", "log_probability")}


def views_ahead(
    sequences: Tensor, max_size: int, axis: int = 1
) -> list[Tensor]:
    """Views a sequence `0, 1, ..., max_size - 1` steps ahead.

    Time is its `axis`, 0 or 1. Step t of view i is step `t + i` of the
    sequences; zeros follow their end.
    """
    padding = [[0, 0] for _ in sequences.shape]
    padding[axis][1] = max_size - 1
    padded = ops.pad(sequences, padding)
    length = ops.shape(sequences)[axis]
    if axis == 0:
        return [padded[i : i + length] for i in range(max_size)]
    return [padded[:, i : i + length] for i in range(max_size)]


def arrived(asked: Tensor) -> Tensor:
    r"""How much of each position has arrived when a step leaves, in order.

    $$k_{t,i} = 1 - (1 - q_{t,i})(1 - k_{t-1,i+1})$$

    with q `(batch, time, S)`, how much of each position a step asks for. What
    steps before asked for is included. Of probabilities it is the probability,
    if steps choose independently.
    """
    *sooner, last = ops.split(asked, asked.shape[-1], axis=-1)
    result = [last]
    for own in reversed(sooner):
        before = ops.pad(result[0][:, :-1], ((0, 0), (1, 0), (0, 0)))
        result.insert(0, 1 - (1 - own) * (1 - before))
    return ops.concatenate(result, axis=-1)


def emission_delays(size: Tensor, validity: Tensor) -> Tensor:
    """Steps that each step waits for in a stream, in order.

    From the number `(batch, time)` of positions really read, and the boolean
    validity `(batch, time, S)`; 0 at masked steps.
    """
    valid = ops.cast(validity, size.dtype)
    is_read = ops.cumsum(valid, axis=-1) < size[..., None] + 0.5
    own = valid[..., :1]
    keep = arrived(ops.cast(is_read, size.dtype) * valid * own) * valid * own
    distances = np.arange(valid.shape[-1])
    # The maximum of an empty batch needs an initial value.
    waited = keep * ops.cast(distances, size.dtype)
    return ops.max(waited, axis=-1, initial=0)


class Window(NamedTuple):
    """The oldest step that waits in a stream, and those after it.

    Attributes:
        steps: Tensor `(batch, S, features)`, zeros where not `real`.
        real: Boolean tensor `(batch, S)`: what has arrived and is not masked.
        may_exist: Boolean tensor `(batch, S)`: the real ones, and those that
            may still arrive. Where the step leaves, it has read none of these.
        passed: int32 tensor `(batch,)`: how many steps left before.
    """

    steps: Tensor
    real: Tensor
    may_exist: Tensor
    passed: Tensor


def oldest_window(queue: Queue, tick: Tick, max_size: int) -> Window:
    """The window of a queue whose `sequence` and `real` steps have arrived."""
    real = queue.steps["real"]
    may_arrive = tf.range(max_size) >= queue.count[:, None]
    return Window(
        zero_masked(queue.steps["sequence"], real),
        real,
        real | (may_arrive & ~tick.ended[:, None]),
        tick.received - queue.count,
    )
