"""Positions ahead of each step, and those that have arrived in a stream."""

from collections.abc import Sequence
from typing import Any
from typing import NamedTuple
from typing import TypeAlias

import numpy as np
import tensorflow as tf
from keras import ops

from keras_seqmech.core import checks
from keras_seqmech.core.decisions.choices import Decision
from keras_seqmech.core.decisions.choices import best
from keras_seqmech.core.decisions.learning import Decides
from keras_seqmech.core.decisions.statistics import DecisionStatistics
from keras_seqmech.core.kept_steps import Layout
from keras_seqmech.core.kept_steps import Packing
from keras_seqmech.core.kept_steps import taken_once
from keras_seqmech.core.masks import zero_masked
from keras_seqmech.core.stream import Queue
from keras_seqmech.core.stream import State
from keras_seqmech.core.stream import Tick
from keras_seqmech.typing import Tensor

# Outputs that need the whole window, by `size_from`: streams lack them where
# sizes are decided while reading.
UNREAD = {"input": (), "field": ("probabilities", "log_probability")}


def views_ahead(sequence: Tensor, max_size: int, axis: int = 1) -> list[Tensor]:
    """Views a sequence `0, 1, ..., max_size - 1` steps ahead.

    Time is its `axis`, 0 or 1. Step t of view i is step `t + i` of the
    sequences; zeros follow their end.
    """
    padding = [[0, 0] for _ in sequence.shape]
    padding[axis][1] = max_size - 1
    padded = ops.pad(sequence, padding)
    length = ops.shape(sequence)[axis]
    if axis == 0:
        return [padded[i : i + length] for i in range(max_size)]
    return [padded[:, i : i + length] for i in range(max_size)]


def within(limit: Tensor, max_size: int) -> Tensor:
    """The positions that a limit allows, boolean: the shape of it, then S."""
    return tf.range(max_size) <= limit[..., None]


class PaddedViews(NamedTuple):
    """The positions ahead of each step of a `Padded` layout.

    Attributes:
        validity: Boolean tensor `(time, batch or 1, S)`: whether each position
            exists and is real.
    """

    validity: Tensor

    def of(self, values: Tensor) -> list[Tensor]:
        """Views what was computed of the steps 0, 1, ..., S - 1 steps ahead.

        Returns:
            S tensors in the layout. At positions that are not valid their
            values are undefined, but finite where `values` are; a caller
            leaves these out, so that they have no gradient.
        """
        return views_ahead(values, self.validity.shape[-1], axis=0)


class PackedViews(NamedTuple):
    """The positions ahead of each step of a `Packing`.

    Attributes:
        validity: Boolean tensor `(total, S)`.
        positions: For each size from 2 on, `(total,)`: the last step in a
            step's window; the step itself if the window ends there.
        inverse_positions: For each size from 2 on, `(total,)`: the window that
            ends on a step; -1 without such a window.
    """

    validity: Tensor
    positions: list[Tensor]
    inverse_positions: list[Tensor]

    def of(self, values: Tensor) -> list[Tensor]:
        """As `PaddedViews.of`."""
        further = zip(self.positions, self.inverse_positions)
        return [values, *(taken_once(values, *places) for places in further)]


Views: TypeAlias = PaddedViews | PackedViews


def views_of(layout: Layout, steps: Tensor, max_size: int) -> Views:
    """The views ahead of gathered steps."""
    if isinstance(layout, Packing):
        return _packed_views(layout, max_size)
    real = layout.mask
    if real is None:
        # All rows are alike, and one row of validity serves all.
        real = ops.ones((ops.shape(steps)[0], 1), "bool")
    return PaddedViews(ops.stack(views_ahead(real, max_size, axis=0), axis=-1))


def _packed_views(packing: Packing, max_size: int) -> PackedViews:
    # By row and time: the number of the packed step from 1 on; 0 elsewhere.
    numbers = tf.where(packing.keep, packing.last + 1, 0)
    ahead = tf.stack(views_ahead(numbers, max_size), axis=-1)
    behind = tf.stack(views_ahead(numbers[:, ::-1], max_size), axis=-1)
    found = packing.gather(ahead) - 1
    itself = tf.range(tf.shape(packing.rows)[0])[:, None]
    positions = tf.where(found >= 0, found, itself)
    inverse_positions = packing.gather(behind[:, ::-1]) - 1
    return PackedViews(
        found >= 0,
        tf.unstack(positions, axis=1)[1:],
        tf.unstack(inverse_positions, axis=1)[1:],
    )


def arrived(asked: Tensor) -> Tensor:
    r"""Share of each position that has arrived when a step leaves, in order.

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


class DecidesSizes(Decides):
    """A layer that decides sizes, up to its `max_size`."""

    def keep_statistics(self: Any) -> None:
        """Makes the metrics of `track_statistics=True`."""
        self.statistics = DecisionStatistics(
            self.name,
            "mean_size",
            "size_entropy",
            choices=self.max_size,
            is_size=True,
        )

    def count(
        self: Any,
        decision: Decision,
        mask: Tensor | None,
        validity: Tensor,
        allowed: Tensor,
    ) -> None:
        """Counts the sizes of a batch.

        Of the boolean tensors `(batch, time, S)`, validity says which
        positions are real, and allowed which of them a step may ask for.
        """
        # Truncated windows are excluded; excluding only truncated choices
        # would bias the mean.
        whole, free = ops.all(validity, axis=-1), ops.all(allowed, axis=-1)
        choice = best(decision.probabilities)
        delay = emission_delays(decision.read, validity)
        self.statistics(decision, choice, mask, whole, free, delay)

    def field_shapes(
        self: Any, steps: Sequence[int | None]
    ) -> dict[str, tuple[int | None, ...]]:
        """Shapes of what `return_field=True` returns, by name.

        `steps` are batch size and number of steps.
        """
        shapes: dict[str, tuple[int | None, ...]] = {
            "size": tuple(steps),
            "probabilities": (*steps, self.max_size),
        }
        if self.estimator == "reinforce":
            shapes["log_probability"] = tuple(steps)
        return shapes


def first_queue(
    batch_size: Tensor, size: int, dtype: str, **features: int
) -> State:
    """The `queue` of a stream before its first step; none for no steps.

    Its `size` steps are tensors of `dtype`, of the named numbers of features,
    and whether they are real.
    """
    if not size:
        return {}
    specs = {
        name: tf.TensorSpec((None, None, width), dtype)
        for name, width in features.items()
    }
    specs["real"] = tf.TensorSpec((None, None), "bool")
    return {"queue": Queue.empty(batch_size, size, specs)._asdict()}


class Window(NamedTuple):
    """The oldest step that waits in a stream, and those after it.

    Attributes:
        steps: Tensor `(batch, S, features)`, zeros where not `real`.
        real: Boolean tensor `(batch, S)`: what has arrived and is not masked.
        allowed: Boolean tensor `(batch, S)`: the positions that the step may
            read: the real ones, and those that may still arrive, of which it
            has read none where it leaves; within the limit if there is one.
        most: How many these are at most, int or int32 tensor `(batch,)`.
        passed: int32 tensor `(batch,)`: how many steps left before.
    """

    steps: Tensor
    real: Tensor
    allowed: Tensor
    most: Tensor | int
    passed: Tensor


def oldest_window(
    queue: Queue, tick: Tick, limit: Tensor | None, max_size: int
) -> Window:
    """The window of a queue whose `sequence` and `real` steps have arrived."""
    real = queue.steps["real"]
    sequence = zero_masked(queue.steps["sequence"], real)
    may_arrive = tf.range(max_size) >= queue.count[:, None]
    allowed = real | (may_arrive & ~tick.ended[:, None])
    most: Tensor | int = max_size
    if limit is not None:
        if len(limit.shape) != 1:
            raise ValueError(
                "Argument `limit` must be of shape (batch,) in a stream: it "
                "holds for all steps that wait. "
                f"Received: limit.shape={tuple(limit.shape)}"
            )
        limit = checks.checked_limit(limit, sequence, max_size)[:, 0]
        allowed &= within(limit, max_size)
        most = limit + 1
    return Window(sequence, real, allowed, most, tick.received - queue.count)
