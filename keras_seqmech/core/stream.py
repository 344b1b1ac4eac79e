"""Layers that are given a sequence one step after the other.

A stream runs in ticks. In each, at most one step of each row arrives at a
layer, and at most one leaves it: a layer that reads ahead holds a step back in
a `Queue` until what it reads has arrived. A layer streams if it has these
members, whose results depend on their arguments and on the weights alone:

- `stream_state(batch_size)`: the `State` before the first tick.
- `stream_step(state, tick, sequence, ...)`: one tick. After `state` and `tick`
  comes the first argument of `call`, then the others, by name: sequences with
  one step, `(batch, 1, ...)`, and the mask of the first as `mask`. They have
  the dtypes of a call; the state keeps its own. It returns a `Stepped`, or its
  first two fields.
- `stream_delay`, a property: the most further steps that a step waits for, 0
  where there is no such property.
- `stream_refusal`, a property: why the layer cannot be streamed as it is
  configured, None if it can.
- `stream_unread`, a property: keys of decisions, shown or returned, that depend
  on more than has arrived when a step leaves, and are left out; none where
  there is no such property.

Instead, a layer that calls another one may have a method `stream_steps(owner)`
that returns what has these members, such as those of the layer within. `owner`
is a layer around it whose initial states are used, None if there is none.

The step belongs to the `call` of the same class, or of one that it inherits
from. A subclass with a `call` of its own loses it, as it may do more, and
declares its own. Masks are passed on unchanged: `compute_mask` returns one that
the layer was given, or None.

Every cut of a sequence into ticks gives what `call` gives for all of it.

Layers of Keras that carry a state have no such members: `RecurrentSteps` and
`ConvolutionSteps` have them in their place, and `steps_of` finds what has them.
"""

from collections.abc import Mapping
from typing import Any
from typing import NamedTuple
from typing import TypeAlias

import keras
import tensorflow as tf
from keras import ops

from keras_seqmech.core import cells
from keras_seqmech.typing import Tensor

# What a layer carries from tick to tick: a nest of tensors `(batch, ...)` in
# dicts and lists.
State: TypeAlias = dict[str, Any]
# The length of sequences that have not ended.
ENDLESS = 2**31 - 1


class Tick(NamedTuple):
    """The steps of the rows that pass one place of a network in one tick.

    Attributes:
        present: Boolean tensor `(batch,)`: whether a step passes.
        passed: int32 tensor `(batch,)`: how many passed before.
        length: int32 tensor `(batch,)`: how many the sequences have there,
            `ENDLESS` until that is known.
    """

    present: Tensor
    passed: Tensor
    length: Tensor

    @property
    def received(self) -> Tensor:
        """Number of steps that have passed, that of this tick included."""
        return self.passed + ops.cast(self.present, "int32")

    @property
    def ended(self) -> Tensor:
        """True if the last step has passed, `(batch,)`."""
        return self.received >= self.length

    def real(self, mask: Tensor | None) -> Tensor:
        """Returns whether a real step passes, from a mask `(batch, 1)`."""
        if mask is None:
            return self.present
        return ops.logical_and(self.present, ops.cast(mask[:, 0], "bool"))


class Stepped(NamedTuple):
    """Results of a layer for a tick.

    Attributes:
        outputs: What `call` returns, of one step, `(batch, 1, ...)`. Undefined
            in rows that emit no step.
        state: The state after the tick.
        leaves: Boolean tensor `(batch,)`: whether a step leaves. None: the one
            that arrives.
        pending: Boolean tensor `(batch,)`: whether a further step may leave
            although none arrives. None: none may.
        length: int32 tensor `(batch,)`: how many steps leave in all,
            `ENDLESS` until that is known. None: as many as arrive.
    """

    outputs: Any
    state: State
    leaves: Tensor | None = None
    pending: Tensor | None = None
    length: Tensor | None = None


class Queue(NamedTuple):
    """Steps that wait, the oldest first.

    Attributes:
        steps: Tensors `(batch, size, ...)` by name: what each step consists
            of; zeros and False behind the last.
        count: int32 tensor `(batch,)`: how many steps wait.
    """

    steps: dict[str, Tensor]
    count: Tensor

    @classmethod
    def empty(
        cls, batch_size: Tensor, size: int, specs: Mapping[str, Any]
    ) -> "Queue":
        """A queue for `size` steps; specs have shapes `(batch, time, ...)`."""
        steps = {
            name: tf.zeros((batch_size, size, *spec.shape[2:]), spec.dtype)
            for name, spec in specs.items()
        }
        return cls(steps, tf.zeros((batch_size,), "int32"))

    @classmethod
    def receive(
        cls, state: State, steps: dict[str, Tensor], tick: Tick
    ) -> "Queue":
        """The `queue` of a state, with the steps `(batch, 1, ...)` that arrive.

        A layer whose steps never wait has none in its state.
        """
        if "queue" in state:
            queue = cls(**state["queue"])
        else:
            queue = cls.empty(tf.shape(tick.present)[0], 0, steps)
        return queue.append(steps, tick.present)

    def append(self, steps: dict[str, Tensor], present: Tensor) -> "Queue":
        """The queue, larger by one, with steps `(batch, 1, ...)` if present."""

        def append(waiting: Tensor, new: Tensor) -> Tensor:
            waiting = tf.concat([waiting, tf.zeros_like(new)], axis=1)
            is_next = tf.range(tf.shape(waiting)[1]) == self.count[:, None]
            return choose(is_next & present[:, None], new, waiting)

        longer = {
            name: append(x, steps[name]) for name, x in self.steps.items()
        }
        return Queue(longer, self.count + tf.cast(present, "int32"))

    def oldest_leave(self, needed: Any, tick: Tick) -> tuple[Tensor, Tensor]:
        """Lets the oldest steps leave, if all that they need has arrived.

        Args:
            needed: int32 tensor `(batch,)`, or int: how many waiting steps they
                need if the sequence has no end, themselves included.
            tick: The steps that arrive, in the queue already.

        Returns:
            Boolean tensors `(batch,)`: whether they leave, and whether the next
            ones may leave although no further step arrives.
        """
        leaves = (self.count > 0) & (tick.ended | (self.count >= needed))
        return leaves, leaves & (self.count > 1)

    def remove_first(self, leaves: Tensor) -> "Queue":
        """The queue, smaller by one, without the oldest step where it leaves.

        Where it does not, the last place is empty.
        """
        shorter = {
            name: choose(leaves, x[:, 1:], x[:, :-1])
            for name, x in self.steps.items()
        }
        return Queue(shorter, self.count - tf.cast(leaves, "int32"))


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


def first_states(is_first: Tensor, given: Any, states: list) -> list[Tensor]:
    """The states before a step: before the first, those given if any."""
    if given is None:
        return states
    return [
        choose(is_first, first, state)
        for first, state in zip(keras.tree.flatten(given), states)
    ]


class RecurrentSteps:
    """The steps of a `keras.layers.RNN` of any kind.

    Without `return_sequences` the output, like returned states, is that after
    the steps so far.

    Args:
        rnn: The layer.
        owner: A layer around it that has its initial states; itself if None.
    """

    def __init__(self, rnn: keras.layers.RNN, owner: Any = None):
        self.rnn = rnn
        self.owner = owner or rnn

    @property
    def stream_refusal(self) -> str | None:
        """The reason why the layer cannot be streamed, or None."""
        return "reads from the end" if self.rnn.go_backwards else None

    def stream_state(self, batch_size: Tensor) -> State:
        """The cell's initial state, and a first output of zeros."""
        cell = self.rnn.cell
        dtype = getattr(cell, "compute_dtype", self.rnn.compute_dtype)
        states = self.owner.get_initial_state(batch_size=batch_size)
        # As the cell computes them, also where a variable holds them.
        states = [
            tf.cast(state, dtype)
            if keras.backend.is_float_dtype(state.dtype)
            else state
            for state in keras.tree.flatten(states)
        ]
        shape = (batch_size, cells.output_size(cell))
        output = tf.zeros(shape, self.rnn.compute_dtype)
        return {"states": states, "output": output}

    def stream_step(
        self,
        state: State,
        tick: Tick,
        sequence: Tensor,
        initial_state: Any = None,
        mask: Tensor | None = None,
    ) -> Stepped:
        """Calls the cell, and moves on where the step is real."""
        states = first_states(tick.passed == 0, initial_state, state["states"])
        output, new = cells.call_cell(
            self.rnn.cell, sequence[:, 0], states, training=False
        )
        return Stepped(
            *self.advance(
                output,
                new,
                {**state, "states": states},
                tick.present,
                tick.real(mask),
            )
        )

    def advance(
        self,
        output: Tensor,
        new: list[Tensor],
        state: State,
        leaves: Tensor,
        real: Tensor,
    ) -> tuple[Any, State]:
        """Outputs and state of the layer, once the cell was called.

        Args:
            output: The cell's output, `(batch, units)`.
            new: The cell's states after the step, flat.
            state: The state before it.
            leaves: Boolean tensor `(batch,)`: whether a step leaves.
            real: Boolean tensor `(batch,)`: whether a real one does.
        """
        before, rnn = state["output"], self.rnn
        states = [choose(real, *x) for x in zip(new, state["states"])]
        # A masked step repeats the output before it, or has zeros.
        zeros = rnn.zero_output_for_mask
        otherwise = tf.zeros_like(before) if zeros else before
        output = choose(real, output, otherwise)
        latest = choose(leaves, output, before)
        state = {**state, "states": states, "output": latest}
        returned = output[:, None] if rnn.return_sequences else latest
        if not rnn.return_state:
            return returned, state
        packed = keras.tree.pack_sequence_as(rnn.state_size, states)
        if not keras.tree.is_nested(packed):
            packed = [packed]
        return [returned, *packed], state


class ConvolutionSteps:
    """The steps of a `keras.layers.Conv1D` with strides of 1.

    Causal padding is zeros, as are the steps before the first.
    """

    def __init__(self, layer: keras.layers.Conv1D):
        self.layer = layer

    @property
    def stream_refusal(self) -> str | None:
        """The reason why the layer cannot be streamed, or None."""
        layer = self.layer
        if layer.padding != "causal" and layer.kernel_size != (1,):
            return "reads steps that follow; `padding='causal'` reads none"
        return None if layer.strides == (1,) else "skips steps"

    def stream_state(self, batch_size: Tensor) -> State:
        """The steps that the kernel reaches back to."""
        layer = self.layer
        (size,), (dilation,) = layer.kernel_size, layer.dilation_rate
        features = layer.kernel.shape[1] * layer.groups
        shape = (batch_size, (size - 1) * dilation, features)
        return {"steps": tf.zeros(shape, layer.compute_dtype)}

    def stream_step(
        self, state: State, tick: Tick, sequence: Tensor
    ) -> Stepped:
        """Convolves the steps before with the one that arrives."""
        layer, before = self.layer, state["steps"]
        steps = tf.concat([before, sequence], axis=1)
        outputs = ops.conv(
            steps[:, :: layer.dilation_rate[0]],
            layer.kernel,
            padding="valid",
            data_format=layer.data_format,
        )
        if layer.use_bias:
            outputs += layer.bias
        after = choose(tick.present, steps[:, 1:], before)
        return Stepped(layer.activation(outputs), {"steps": after})


# Classes that run their cell at each step and do nothing else. A class derived
# from one of them may do more.
RECURRENT = (
    keras.layers.RNN,
    keras.layers.LSTM,
    keras.layers.GRU,
    keras.layers.SimpleRNN,
)


def steps_of(layer: Any, owner: Any = None) -> Any:
    """The streaming adapter of a layer, or None.

    That is the layer itself, if it has a `stream_step` that belongs to its
    `call`, or what its `stream_steps(owner)` returns; one of the classes here
    for a layer of Keras; None for all others, subclasses with a `call` of their
    own among them, which may do more.

    Args:
        layer: Any operation.
        owner: A layer around it that has its initial states.
    """
    for kind in type(layer).__mro__:
        if "stream_step" in vars(kind):
            return layer
        if "stream_steps" in vars(kind):
            return layer.stream_steps(owner)
        if "call" in vars(kind):
            break
    if type(layer) in RECURRENT:
        of_cell = getattr(layer.cell, "stream_steps", RecurrentSteps)
        return of_cell(layer, owner)
    if type(layer) is keras.layers.Conv1D:
        return ConvolutionSteps(layer)
    return None
