"""The focused hierarchical encoder, one step after the other."""

from typing import Any

import tensorflow as tf

from keras_seqmech.core import cells
from keras_seqmech.serving.streaming.layer import State
from keras_seqmech.serving.streaming.layer import StreamedLayer
from keras_seqmech.serving.streaming.layer import choose
from keras_seqmech.serving.streaming.recurrent import first_states
from keras_seqmech.typing import Tensor


class StreamedEncoder(StreamedLayer):
    """A `FocusedHierarchicalEncoder` that does not return focused states.

    Without `return_sequences` the output, like returned states, is that after
    the steps so far.
    """

    def initial_state(self, batch_size: Tensor) -> State:
        states = [
            tf.zeros((batch_size, size), self.compute_dtype)
            for size in self.layer.state_size
        ]
        started = tf.zeros((batch_size, 1), "bool")
        return {"states": states, "started": started}

    def call(
        self,
        sequence: Tensor,
        context: Tensor,
        sequence_mask: Tensor | None = None,
        initial_state: Any = None,
        training: bool = False,
        mask: None = None,
    ) -> Any:
        real = self.real(sequence_mask)
        states = first_states(
            self.timeline, initial_state, self.state["states"]
        )
        lower = self._advance("lower", sequence[:, 0], states[:2], real)
        gates, decisions = self.layer.gate(
            lower[0][:, None], context, sequence_mask=real[:, None]
        )
        # Closed where the step is not real.
        upper = self._advance("upper", lower[0], states[2:], gates[:, 0] > 0.5)
        started = tf.logical_or(self.state["started"], real[:, None])
        self.state = {"states": lower + upper, "started": started}
        output = tf.where(started, upper[0], tf.zeros_like(upper[0]))
        options = self.layer.returned
        returned = [output[:, None] if options.sequences else output]
        if options.state:
            returned += [*lower, *upper]
        if options.gates:
            returned.append(decisions)
        return returned[0] if len(returned) == 1 else tuple(returned)

    def _advance(
        self, name: str, step: Tensor, states: list[Tensor], moves: Tensor
    ) -> list[Tensor]:
        """States of an LSTM after a step, in the rows that it moves on."""
        cell = getattr(self.layer, name).cell
        _, new = cells.call_cell(cell, step, states, training=False)
        return [choose(moves, a, b) for a, b in zip(new, states)]
