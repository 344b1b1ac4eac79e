"""Layers of Keras that carry a state, one step after the other.

These classes have the members of `keras_seqmech.core.stream` in place of a
layer of Keras, which has none; `steps_of` finds what has them.
"""

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from keras_seqmech.core import cells
from keras_seqmech.core.stream import State
from keras_seqmech.core.stream import Stepped
from keras_seqmech.core.stream import Tick
from keras_seqmech.core.stream import choose
from keras_seqmech.core.stream import first_states
from keras_seqmech.typing import Tensor


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
