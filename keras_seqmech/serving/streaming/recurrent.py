"""Recurrent layers, one step after the other."""

from typing import Any

import keras
import tensorflow as tf

from keras_seqmech.core import cells
from keras_seqmech.initial_state import LearnedInitialState
from keras_seqmech.keep_mask import KeepMask
from keras_seqmech.serving.streaming.layer import State
from keras_seqmech.serving.streaming.layer import StreamedLayer
from keras_seqmech.serving.streaming.layer import choose
from keras_seqmech.typing import Tensor


def unwrap(layer: keras.Layer) -> keras.Layer:
    """The recurrent layer itself, without what keeps masks or learns states."""
    if type(layer) is KeepMask:
        layer = layer.layer
    return layer.rnn if type(layer) is LearnedInitialState else layer


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
        cell = self.rnn.cell
        keeps_mask = type(self.layer) is KeepMask
        layer = self.layer.layer if keeps_mask else self.layer
        states = keras.tree.flatten(
            layer.get_initial_state(batch_size=batch_size)
        )
        # As the cell computes them, also where a variable holds them.
        dtype = getattr(cell, "compute_dtype", self.compute_dtype)
        states = [
            tf.cast(state, dtype)
            if keras.backend.is_float_dtype(state.dtype)
            else state
            for state in states
        ]
        shape = (batch_size, cells.output_size(cell))
        return {
            **super().initial_state(batch_size),
            "states": states,
            "output": tf.zeros(shape, self.compute_dtype),
        }

    def call(
        self,
        sequence: Tensor,
        initial_state: Any = None,
        mask: Tensor | None = None,
        training: bool = False,
    ) -> Any:
        steps, real = self.read(sequence, mask)
        states = self.start_from(initial_state, self.state["states"])
        output, new_states, *decisions = self.move(steps, real, states)
        is_real, before = real[:, :1], self.state["output"]
        states = [choose(is_real, *both) for both in zip(new_states, states)]
        # A masked step repeats the output before it, or has zeros.
        zeros = self.rnn.zero_output_for_mask
        output = choose(
            is_real, output, tf.zeros_like(before) if zeros else before
        )
        latest = choose(self.clock.exists(self.output_delay), output, before)
        self.state = {**self.state, "states": states, "output": latest}
        returned = [output[:, None] if self.rnn.return_sequences else latest]
        if self.rnn.return_state:
            size = self.rnn.state_size
            packed = keras.tree.pack_sequence_as(size, states)
            returned += packed if keras.tree.is_nested(size) else [packed]
        returned += decisions
        return returned[0] if len(returned) == 1 else tuple(returned)

    def move(
        self, steps: Tensor, real: Tensor, states: list[Tensor]
    ) -> tuple[Any, ...]:
        """Reads the first of the steps.

        Args:
            steps: Tensor `(batch, waits + 1, ...)`: a step and what follows.
            real: Boolean tensor `(batch, waits + 1)`.
            states: The states before the step, flat.

        Returns:
            The output, the states after it, and decisions if they are
            returned. They count where the step is real.
        """
        return cells.call_cell(self.rnn.cell, steps[:, 0], states, False)
