"""Layers that carry a state, one step after the other."""

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from keras_seqmech.core import cells
from keras_seqmech.core.decisions import reports
from keras_seqmech.core.wrapped import unwrapped
from keras_seqmech.initial_state import LearnedInitialState
from keras_seqmech.serving.streaming.layer import State
from keras_seqmech.serving.streaming.layer import StreamedLayer
from keras_seqmech.serving.streaming.layer import Timeline
from keras_seqmech.serving.streaming.layer import choose
from keras_seqmech.typing import Tensor


def first_states(
    timeline: Timeline, given: Any, states: list[Tensor]
) -> list[Tensor]:
    """The states before a step: at the first, the initial states if given."""
    if given is None:
        return states
    is_first = timeline.passed == 0
    return [
        choose(is_first, first, state)
        for first, state in zip(keras.tree.flatten(given), states)
    ]


class StreamedRNN(StreamedLayer):
    """A `keras.layers.RNN`, or a `KeepMask` or `LearnedInitialState` of one.

    Without `return_sequences` the output, like returned states, is that after
    the steps so far.
    """

    @property
    def rnn(self) -> keras.layers.RNN:
        """The recurrent layer itself."""
        return unwrapped(self.layer)

    def initial_state(self, batch_size: Tensor) -> State:
        cell = self.rnn.cell
        learns = type(self.layer) is LearnedInitialState
        layer = self.layer if learns else self.rnn
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
        sequence_mask: Tensor | None = None,
    ) -> Any:
        mask = self.own_mask(mask, sequence_mask)
        states = first_states(
            self.timeline, initial_state, self.state["states"]
        )
        output, new = cells.call_cell(
            self.rnn.cell, sequence[:, 0], states, False
        )
        return self.advance(output, new, states, self.real(mask))

    def compute_output_spec(
        self,
        sequence: keras.KerasTensor,
        *args: Any,
        sequence_mask: Any = None,
        **kwargs: Any,
    ) -> Any:
        return super().compute_output_spec(sequence, *args, **kwargs)

    def advance(
        self,
        output: Tensor,
        new: list[Tensor],
        states: list[Tensor],
        real: Tensor,
    ) -> Any:
        """Moves on where there is a real step.

        Args:
            output: The cell's output, `(batch, units)`.
            new: The states after the step, flat.
            states: The states before it.
            real: Boolean tensor `(batch,)`.

        Returns:
            What the layer returns.
        """
        before = self.state["output"]
        states = [choose(real, *both) for both in zip(new, states)]
        # A masked step repeats the output before it, or has zeros.
        zeros = self.rnn.zero_output_for_mask
        otherwise = tf.zeros_like(before) if zeros else before
        output = choose(real, output, otherwise)
        latest = choose(self.output_timeline.present, output, before)
        self.state = {**self.state, "states": states, "output": latest}
        if not self.rnn.return_state:
            return output[:, None] if self.rnn.return_sequences else latest
        size = self.rnn.state_size
        packed = keras.tree.pack_sequence_as(size, states)
        return [
            output[:, None] if self.rnn.return_sequences else latest,
            *(packed if keras.tree.is_nested(size) else [packed]),
        ]


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
        state: State = {"states": states, "started": started}
        if self.layer.gate.inference == "running_sum":
            state["total"] = tf.zeros((batch_size, 1), "int64")
        return state

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
        gate = self.layer.gate
        decisions, total = gate.decide(
            gate.logits(lower[0][:, None], context),
            real[:, None],
            before=self.state.get("total"),
        )
        # Closed where the step is not real.
        is_open = decisions.gates[:, 0] > 0.5
        upper = self._advance("upper", lower[0], states[2:], is_open)
        started = tf.logical_or(self.state["started"], real[:, None])
        self.state = {"states": lower + upper, "started": started}
        if total is not None:
            self.state["total"] = total
        output = tf.where(started, upper[0], tf.zeros_like(upper[0]))
        options = self.layer.returned
        returned = [output[:, None] if options.sequences else output]
        if options.state:
            returned += [*lower, *upper]
        shown = gate.returned(decisions)
        reports.record(self.layer, shown)
        if options.gates:
            returned.append(shown)
        return returned[0] if len(returned) == 1 else tuple(returned)

    def _advance(
        self, name: str, step: Tensor, states: list[Tensor], moves: Tensor
    ) -> list[Tensor]:
        """States of an LSTM after a step, in the rows that it moves on."""
        cell = getattr(self.layer, name).cell
        _, new = cells.call_cell(cell, step, states, training=False)
        return [choose(moves, a, b) for a, b in zip(new, states)]


class StreamedConvolution(StreamedLayer):
    """A `keras.layers.Conv1D` with strides of 1, causal or over one step.

    Causal padding is zeros, as are the steps before the first.
    """

    def initial_state(self, batch_size: Tensor) -> State:
        (size,), (dilation,) = self.layer.kernel_size, self.layer.dilation_rate
        shape = (batch_size, (size - 1) * dilation, self.spec.shape[2])
        return {"steps": tf.zeros(shape, self.spec.dtype)}

    def call(self, sequence: Tensor) -> Tensor:
        layer, before = self.layer, self.state["steps"]
        steps = tf.concat([before, sequence], axis=1)
        steps_after = choose(self.timeline.present, steps[:, 1:], before)
        self.state = {"steps": steps_after}
        outputs = ops.conv(
            steps[:, :: layer.dilation_rate[0]],
            layer.kernel,
            padding="valid",
            data_format=layer.data_format,
        )
        if layer.use_bias:
            outputs += layer.bias
        return layer.activation(outputs)
