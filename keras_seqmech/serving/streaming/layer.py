"""Layers that are given a sequence one step after the other.

A network runs in ticks. In each tick at most one step of each row passes each
place of it: layers that read ahead hold a step back until what it reads has
arrived. The steps that pass one place are a `Timeline`.
"""

import inspect
from collections.abc import Iterable
from typing import Any

import keras
import tensorflow as tf

from keras_seqmech.typing import Tensor

# What a layer carries from tick to tick: tensors `(batch, ...)`, or lists.
State = dict[str, Any]
# The length of sequences that have not ended.
ENDLESS = 2**31 - 1


class Timeline:
    """The steps of the rows as they pass one place of a network.

    Args:
        earlier: The timelines that it waits for.
        waits: Number of further steps that it may wait for.

    Attributes:
        inputs: The timeline of the inputs.
        earlier: All timelines that it waits for, directly or not.
        delay: The most steps that it lies behind the inputs.
        passed: int32 tensor `(batch,)`, the steps that passed before this tick.
        present: Boolean tensor `(batch,)`, whether a step passes in this tick.
        length: Length of the sequences, set on the timeline of the inputs;
            `ENDLESS` until their end is known.
    """

    def __init__(self, earlier: Iterable["Timeline"] = (), waits: int = 0):
        earlier = list(earlier)
        self.delay: int = max((t.delay for t in earlier), default=0) + waits
        self.inputs: Timeline = earlier[0].inputs if earlier else self
        self.earlier: set[Timeline] = set(earlier).union(
            *(t.earlier for t in earlier)
        )
        self.passed: Tensor = 0
        self.present: Tensor = False
        self.length: Tensor = ENDLESS

    @property
    def received(self) -> Tensor:
        """The steps that have passed, that of this tick included."""
        return self.passed + tf.cast(self.present, "int32")

    @property
    def ended(self) -> Tensor:
        """Whether the last step has passed, `(batch,)`."""
        return self.received >= self.inputs.length

    def never_leads(self, other: "Timeline") -> bool:
        """Whether no step passes here before it has passed there."""
        return self is other or other in self.earlier


class StreamedLayer(keras.layers.Layer):
    """A layer that carries a state, called on one step `(batch, 1, ...)`.

    It starts from `state` and replaces it by the state for the next tick.

    Args:
        layer: The layer in place of which it is called.
        timeline: The timeline of its inputs.

    Attributes:
        output_timeline: The timeline of its outputs.
        pending: Boolean tensor `(batch,)`: whether it may return a further
            step although none arrives. None: it never does.
    """

    def __init__(self, layer: keras.Layer, timeline: Timeline):
        super().__init__(dtype=layer.dtype_policy, autocast=layer.autocast)
        self.supports_masking = layer.supports_masking
        self.layer = layer
        self.timeline = timeline
        self.output_timeline = timeline
        self.pending: Tensor | None = None
        self.state: State = {}
        # The shape and dtype of the sequence that it is given.
        self.spec = keras.KerasTensor(())

    def initial_state(self, batch_size: Tensor) -> State:
        """The state before the first tick."""
        del batch_size
        return {}

    def own_mask(self, mask: Tensor | None, beside: Tensor | None) -> Any:
        """The mask that the layer takes.

        `beside` comes with a sequence that is not the one tensor argument:
        there Keras' own layers are called without it.
        """
        takes = inspect.signature(self.layer.call).parameters
        return beside if mask is None and "sequences_mask" in takes else mask

    def real(self, mask: Tensor | None) -> Tensor:
        """Whether a real step arrives, `(batch,)`."""
        present = self.timeline.present
        if mask is None:
            return present
        return tf.logical_and(present, tf.cast(mask[:, 0], "bool"))

    def compute_output_spec(
        self, sequence: keras.KerasTensor, *args: Any, **kwargs: Any
    ) -> Any:
        self.spec = keras.KerasTensor(sequence.shape, sequence.dtype)
        return self.layer.compute_output_spec(sequence, *args, **kwargs)

    def compute_mask(self, sequence: Tensor, mask: Any = None) -> Any:
        return self.layer.compute_mask(sequence, mask)


class WaitingLayer(StreamedLayer):
    """A layer whose steps wait in a queue until they are certain.

    As one step arrives in a tick and one leaves as soon as it is certain, the
    queue has at most `waits` steps between ticks.
    """

    def __init__(self, layer: keras.Layer, timeline: Timeline):
        super().__init__(layer, timeline)
        # The mask of the step that was returned last.
        self.mask: Tensor | None = None

    @property
    def waits(self) -> int:
        """The most further steps that a step may wait for."""
        raise NotImplementedError

    def initial_state(self, batch_size: Tensor) -> State:
        state = super().initial_state(batch_size)
        if not self.waits:
            return state
        shape = (batch_size, self.waits)
        return {
            **state,
            "steps": tf.zeros((*shape, *self.spec.shape[2:]), self.spec.dtype),
            "real": tf.zeros(shape, "bool"),
        }

    def enqueue(
        self, sequence: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Appends the step that arrives.

        Returns:
            The steps that wait, oldest first, `(batch, waits + 1, ...)`;
            whether each is real, `(batch, waits + 1)`, not so behind the
            last; and their number, `(batch,)`.
        """
        before = self.timeline.passed - self.output_timeline.passed
        present = self.timeline.present
        count = before + tf.cast(present, "int32")
        real = self.real(mask)[:, None]
        if not self.waits:
            return sequence, real, count
        steps = append(self.state["steps"], sequence, before, present)
        real = append(self.state["real"], real, before, present)
        return steps, real, count

    def dequeue(self, steps: Tensor, real: Tensor) -> None:
        """Removes the oldest steps in the rows where they leave now."""
        leaves = self.output_timeline.present
        self.mask = real[:, :1]
        if not self.waits:
            return
        self.state = {
            **self.state,
            "steps": remove_first(steps, leaves),
            "real": remove_first(real, leaves),
        }

    def compute_mask(self, sequence: Tensor, mask: Any = None) -> Any:
        """The layer's mask for the step that leaves, known when it runs."""
        if mask is not None:
            is_symbolic = isinstance(sequence, keras.KerasTensor)
            mask = None if is_symbolic else self.mask
        return self.layer.compute_mask(sequence, mask)


class FieldLayer(WaitingLayer):
    """A layer whose steps wait for the positions that they choose to read."""

    def __init__(self, layer: keras.Layer, timeline: Timeline):
        super().__init__(layer, timeline)
        self.output_timeline = Timeline([timeline], self.waits)

    def initial_state(self, batch_size: Tensor) -> State:
        passed = tf.zeros((batch_size,), "int32")
        return {**super().initial_state(batch_size), "passed": passed}

    def enqueue(
        self, sequence: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        self.output_timeline.passed = self.state["passed"]
        return super().enqueue(sequence, mask)

    def leave(
        self, sizes: Tensor, steps: Tensor, real: Tensor, count: Tensor
    ) -> Tensor:
        """Lets the oldest steps leave where they have all that they read.

        Args:
            sizes: int32 tensor `(batch,)`: the positions they would read if
                the sequence had no end.
            steps: Tensor `(batch, waits + 1, ...)` from `enqueue`.
            real: Boolean tensor `(batch, waits + 1)` from `enqueue`.
            count: int32 tensor `(batch,)` from `enqueue`.

        Returns:
            Boolean tensor `(batch,)`: whether they leave.
        """
        # A masked step reads nothing.
        has_all = self.timeline.ended | (sizes <= count) | ~real[:, 0]
        leaves = (count > 0) & has_all
        # The next one may have all that it reads, too.
        self.pending = leaves & (count > 1)
        self.output_timeline.present = leaves
        self.state = {**self.state, "passed": self.output_timeline.received}
        self.dequeue(steps, real)
        return leaves


class DelayLine(WaitingLayer):
    """Holds steps back until a timeline has them too.

    Args:
        timeline: The timeline of its inputs.
        later: One that never leads it.
    """

    def __init__(self, timeline: Timeline, later: Timeline):
        super().__init__(keras.layers.Identity(autocast=False), timeline)
        self.output_timeline = later

    @property
    def waits(self) -> int:
        return self.output_timeline.delay

    def call(
        self,
        sequence: Tensor,
        later: Tensor,
        sequence_mask: Tensor | None = None,
    ) -> Tensor:
        """Returns the steps as late as those of `later`, which runs before."""
        del later
        steps, real, _ = self.enqueue(sequence, sequence_mask)
        self.dequeue(steps, real)
        return steps[:, :1]

    def compute_output_spec(
        self, sequence: keras.KerasTensor, *args: Any, **kwargs: Any
    ) -> keras.KerasTensor:
        return super().compute_output_spec(sequence)


class Meeting(StreamedLayer):
    """Joins timelines: a step is present once it is present in all.

    Called on a tensor of each timeline; returns the first.
    """

    def __init__(self, timelines: list[Timeline]):
        super().__init__(keras.layers.Identity(autocast=False), timelines[0])
        self.timelines = timelines
        self.output_timeline = Timeline(timelines)

    def initial_state(self, batch_size: Tensor) -> State:
        return {"passed": tf.zeros((batch_size,), "int32")}

    def call(self, tensors: list[Tensor]) -> Tensor:
        timeline = self.output_timeline
        timeline.passed = self.state["passed"]
        received = tf.reduce_min([t.received for t in self.timelines], axis=0)
        timeline.present = received > timeline.passed
        self.state = {"passed": timeline.received}
        self.pending = received > timeline.received
        return tensors[0]

    def compute_output_spec(
        self, tensors: list[keras.KerasTensor]
    ) -> keras.KerasTensor:
        return super().compute_output_spec(tensors[0])

    def compute_mask(self, tensors: Any, mask: Any = None) -> None:
        return None


def append(
    queue: Tensor, new: Tensor, count: Tensor, present: Tensor
) -> Tensor:
    """Appends `(batch, 1, ...)` to queues `(batch, N, ...)` where present.

    Args:
        queue: Tensor `(batch, N, ...)`.
        new: Tensor `(batch, 1, ...)`.
        count: int32 tensor `(batch,)`: how many entries each queue has.
        present: Boolean tensor `(batch,)`.

    Returns:
        Tensor `(batch, N + 1, ...)`.
    """
    queue = tf.concat([queue, tf.zeros_like(new)], axis=1)
    is_next = tf.range(tf.shape(queue)[1]) == count[:, None]
    return choose(is_next & present[:, None], new, queue)


def remove_first(queue: Tensor, leaves: Tensor) -> Tensor:
    """Queues `(batch, N, ...)` without their first entry where it leaves."""
    return choose(leaves, queue[:, 1:], queue[:, :-1])


def choose(condition: Tensor, new: Tensor, old: Tensor) -> Tensor:
    """New values where the condition holds, else old ones, of their dtype.

    Args:
        condition: Boolean tensor whose axes are the first ones of `old`.
        new: Tensor of the rank of `old`.
        old: Tensor.
    """
    rank = len(old.shape) - len(condition.shape)
    condition = condition[(..., *[None] * rank)]
    return tf.where(condition, tf.cast(new, old.dtype), old)
