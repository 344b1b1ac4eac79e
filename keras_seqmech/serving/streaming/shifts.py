"""Sequences that are padded at one end and cut at the other: shifted ones."""

from typing import Any
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from keras_seqmech.core.stream import Queue
from keras_seqmech.core.stream import State
from keras_seqmech.core.stream import Stepped
from keras_seqmech.core.stream import Tick
from keras_seqmech.core.stream import choose
from keras_seqmech.typing import Tensor

_ALL = (slice(None), slice(None))


class Ends(NamedTuple):
    """Changes of the ends of a sequence by an operation.

    Attributes:
        before: Number of steps added before the first; negative: cut off.
        behind: Number of steps added behind the last; negative: cut off.
        fill: Value of the steps added; None if there are none.
        kept: Index of what is kept of the other axes.
    """

    before: int
    behind: int
    fill: Any = None
    kept: tuple = _ALL

    def then(self, ends: "Ends") -> "Ends | None":
        """These changes and further ones, of a sequence that was cut already.

        None if padding hides steps that were cut off, or has another value
        than the padding before.
        """
        hides = ends.before > 0 > self.before or ends.behind > 0 > self.behind
        fills = {self.fill, ends.fill} - {None}
        if hides or len(fills) > 1:
            return None
        before, behind = self.before + ends.before, self.behind + ends.behind
        return Ends(before, behind, *fills)


def changed_ends(operation: Any, arguments: list) -> Ends | None:
    """Changes of the ends of a sequence by an operation; None if not known.

    Known are `keras.layers.ZeroPadding1D` and `keras.layers.Cropping1D`,
    `keras.ops.pad` of time with a constant, and slices of time from a step
    counted from the start to one counted from the end.

    Args:
        operation: A layer, or an operation of `keras.ops`.
        arguments: The arguments of its call, the sequence first.
    """
    kind = type(operation)
    if kind is keras.layers.Cropping1D:
        before, behind = operation.cropping
        return Ends(-before, -behind)
    if kind is keras.layers.ZeroPadding1D:
        before, behind = operation.padding
        is_time = operation.data_format == "channels_last"
        return Ends(before, behind, fill=0) if is_time else None
    # Classes of `keras.ops` are not public.
    if kind.__module__.partition(".")[0] != "keras":
        return None
    if kind.__name__ == "Pad":
        return _padding(operation, *arguments)
    return _slice(*arguments) if kind.__name__ == "GetItem" else None


def _padding(
    operation: Any, sequence: keras.KerasTensor, fill: Any = None
) -> Ends | None:
    widths = [tuple(map(int, width)) for width in operation.pad_width]
    rank = len(sequence.shape)
    only_time = len(widths) == rank and not np.any(np.delete(widths, 1, 0))
    fill = 0 if fill is None else fill
    if not only_time or operation.mode != "constant" or not np.isscalar(fill):
        return None
    before, behind = widths[1]
    return Ends(before, behind, fill)


def _slice(sequence: keras.KerasTensor, key: Any) -> Ends | None:
    key = tuple(key) if isinstance(key, (list, tuple)) else (key,)
    if key[:1] == (Ellipsis,):
        axes = [part for part in key[1:] if part is not None]
        keeps_all = len(axes) <= len(sequence.shape) - 2
        return Ends(0, 0, kept=key) if keeps_all else None
    if len(key) < 2 or not all(isinstance(part, slice) for part in key[:2]):
        return None
    time = key[1]
    start, stop = time.start or 0, time.stop
    from_both_ends = start >= 0 and (stop is None or stop < 0)
    if key[0] != _ALL[0] or not from_both_ends or time.step not in (None, 1):
        return None
    return Ends(-start, stop or 0, kept=(*_ALL, *key[2:]))


class ShiftAhead:
    """Steps `steps` later in a sequence, and behind the last a value.

    See `keras_seqmech.core.stream` for its members.
    """

    def __init__(self, steps: int, fill: Any, spec: Any):
        self.stream_delay = steps
        self.fill = fill
        self.spec = spec

    def stream_state(self, batch_size: Tensor) -> State:
        """The steps that wait."""
        specs = {"step": self.spec}
        return Queue.empty(batch_size, self.stream_delay, specs)._asdict()

    def stream_step(
        self, state: State, tick: Tick, sequence: Tensor
    ) -> Stepped:
        """Returns the step that arrives as the oldest that waits."""
        queue = Queue(**state).append({"step": sequence}, tick.present)
        exists = queue.count > self.stream_delay
        shifted = choose(~exists, self.fill, queue.steps["step"][:, -1:])
        leaves, pending = queue.oldest_leave(self.stream_delay + 1, tick)
        state = queue.remove_first(leaves)._asdict()
        return Stepped(shifted, state, leaves, pending)


class ShiftBehind:
    """Steps `steps` earlier in a sequence, and before the first a value.

    See `keras_seqmech.core.stream` for its members.
    """

    def __init__(self, steps: int, fill: Any, spec: Any):
        self.steps = steps
        self.fill = fill
        self.spec = spec

    def stream_state(self, batch_size: Tensor) -> State:
        """The steps before."""
        shape = (batch_size, self.steps, *self.spec.shape[2:])
        return {"steps": tf.fill(shape, tf.cast(self.fill, self.spec.dtype))}

    def stream_step(
        self, state: State, tick: Tick, sequence: Tensor
    ) -> Stepped:
        """Returns the oldest of the steps before."""
        before = state["steps"]
        steps = tf.concat([before, sequence], axis=1)
        after = choose(tick.present, steps[:, 1:], before)
        return Stepped(steps[:, :1], {"steps": after})
