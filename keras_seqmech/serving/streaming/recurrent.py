"""Recurrent layers, one step after the other."""

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from keras_seqmech.core import cells
from keras_seqmech.initial_state import LearnedInitialState
from keras_seqmech.keep_mask import KeepMask
from keras_seqmech.serving.streaming.layer import State
from keras_seqmech.serving.streaming.layer import StreamedLayer
from keras_seqmech.serving.streaming.layer import choose
from keras_seqmech.typing import Tensor


def unwrap(layer: keras.Layer) -> keras.Layer:
    """The recurrent layer itself, without what keeps masks or learns states."""
    layer = _starting(layer)
    return layer.rnn if type(layer) is LearnedInitialState else layer


def _starting(layer: keras.Layer) -> keras.Layer:
    """What has the initial states of a layer."""
    return layer.layer if type(layer) is KeepMask else layer


def one_or_all(returned: tuple) -> Any:
    """What a layer returns: a tensor alone, or a tuple of several."""
    return returned[0] if len(returned) == 1 else returned


class StreamedRNN(StreamedLayer):
    """A `keras.layers.RNN`, or a `LearnedInitialState` of one.

    Without `return_sequences` the output, like returned states, is that after
    the steps so far.
    """

    @property
    def rnn(self) -> keras.layers.RNN:
        """The recurrent layer itself."""
        return unwrap(self.layer)

    def initial_state(self, batch_size: Tensor) -> State:
        first = _starting(self.layer).get_initial_state(batch_size=batch_size)
        first = [self._cast(state) for state in keras.tree.flatten(first)]
        width = cells.output_size(self.rnn.cell)
        output = tf.zeros((batch_size, width), self.compute_dtype)
        return {**self._named(first), "output": output}

    def _cast(self, state: Tensor) -> Tensor:
        """A state as the cell computes it, also where a variable holds it."""
        cell = self.rnn.cell
        if not keras.backend.is_float_dtype(state.dtype):
            return state
        return ops.cast(
            state, getattr(cell, "compute_dtype", self.compute_dtype)
        )

    def call(
        self,
        sequence: Tensor,
        initial_state: Any = None,
        mask: Tensor | None = None,
        training: bool = False,
    ) -> Any:
        real = self.is_real(mask, ops.shape(sequence)[0])
        states = self.states_before(initial_state)
        output, new_states = cells.call_cell(
            self.rnn.cell, sequence[:, 0], states, training=False
        )
        new_states = [
            choose(real, new, old) for new, old in zip(new_states, states)
        ]
        return one_or_all(self.assemble(output, new_states, real))

    def _named(self, states: list[Tensor]) -> State:
        return {f"{i}": state for i, state in enumerate(states)}

    def states_before(self, initial_state: Any) -> list[Tensor]:
        """What to start from, flat."""
        count = len(cells.flat_state_sizes(self.rnn.cell))
        states = [self.state[f"{i}"] for i in range(count)]
        return self.start_from(initial_state, states)

    def assemble(
        self, output: Tensor, states: list[Tensor], real: Tensor
    ) -> tuple:
        """Keeps what the next step starts from; returns what the layer does.

        A masked step repeats the output before it, or has zeros.
        """
        before = self.state["output"]
        otherwise = before
        if self.rnn.zero_output_for_mask:
            otherwise = tf.zeros_like(before)
        output = choose(real, output, otherwise)
        latest = choose(self.clock.exists(self.output_delay), output, before)
        self.state = {**self._named(states), "output": latest}
        returned = [output[:, None] if self.rnn.return_sequences else latest]
        if self.rnn.return_state:
            size = self.rnn.state_size
            packed = keras.tree.pack_sequence_as(size, states)
            returned += packed if keras.tree.is_nested(size) else [packed]
        return tuple(returned)

    def compute_mask(self, sequence: Tensor, mask: Any = None) -> Any:
        return self.layer.compute_mask(sequence, mask)
