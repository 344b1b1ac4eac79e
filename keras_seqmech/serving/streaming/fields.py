"""Adaptive receptive fields, one step after the other.

A step leaves as soon as the positions that its field reads have arrived, and
all steps before it have left.
"""

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from keras_seqmech.core import numerics
from keras_seqmech.core.decisions import categorical
from keras_seqmech.receptive_field import loop
from keras_seqmech.receptive_field.cell import RFCell
from keras_seqmech.receptive_field.layer import compute_choices
from keras_seqmech.receptive_field.windows import Sequences
from keras_seqmech.receptive_field.windows import pad_inputs
from keras_seqmech.serving.streaming.layer import FieldLayer
from keras_seqmech.serving.streaming.layer import remove_first
from keras_seqmech.serving.streaming.recurrent import StreamedRNN
from keras_seqmech.serving.streaming.recurrent import first_states
from keras_seqmech.serving.streaming.recurrent import unwrap
from keras_seqmech.typing import Tensor


class StreamedFieldRNN(FieldLayer, StreamedRNN):
    """A `ReceptiveFieldRNN`, or a `LearnedInitialState` of one.

    Also a `keras.layers.RNN` with an `RFCell`, called on the sequence that
    its windows are made of.
    """

    @property
    def waits(self) -> int:
        return unwrap(self.layer).cell.max_size - 1

    def compute_output_spec(
        self, sequence: keras.KerasTensor, *args: Any, **kwargs: Any
    ) -> Any:
        spec = super().compute_output_spec
        if not is_over_windows(self.layer):
            return spec(sequence, *args, **kwargs)
        batch_size, length, features = sequence.shape
        window = (batch_size, length, self.waits + 1, features + 1)
        outputs = spec(keras.KerasTensor(window, sequence.dtype), **kwargs)
        self.spec = keras.KerasTensor(sequence.shape, sequence.dtype)
        return outputs

    def call(
        self,
        sequence: Tensor,
        initial_state: Any = None,
        mask: Tensor | None = None,
        training: bool = False,
    ) -> Any:
        steps, real, count = self.enqueue(sequence, mask)
        states = first_states(
            self.output_timeline, initial_state, self.state["states"]
        )
        sizes = self._sizes(steps, real, count, states[0])
        is_certain = self.certain(sizes, real, count)
        self.leave(is_certain, steps, real)
        output, new, *field = self._read(steps, real, states)
        returned = self.advance(output, new, states, is_certain & real[:, 0])
        self._find_pending(
            remove_first(steps, is_certain),
            remove_first(real, is_certain),
            count - tf.cast(is_certain, "int32"),
        )
        if not field:
            return returned
        returned = returned if isinstance(returned, list) else [returned]
        return *returned, *field

    def _find_pending(self, steps: Tensor, real: Tensor, count: Tensor) -> None:
        """Finds whether the next steps are certain, too."""
        if not self.waits:
            return
        steps = tf.concat([steps, tf.zeros_like(steps[:, :1])], axis=1)
        real = tf.concat([real, tf.zeros_like(real[:, :1])], axis=1)
        hidden = self.state["states"][0]
        sizes = self._sizes(steps, real, count, hidden)
        self.pending = self.certain(sizes, real, count)

    def _sizes(
        self, steps: Tensor, real: Tensor, count: Tensor, hidden: Tensor
    ) -> Tensor:
        """What the oldest steps read if the sequence has no end.

        A size above `count` may change with the steps that arrive.
        """
        cell = self.rnn.cell
        if not self.waits:
            return tf.ones_like(count)
        equations = cell.equations(training=False)
        may_exist = real | (tf.range(self.waits + 1) >= count[:, None])
        states: list[Tensor] = []
        if cell.options.size_from == "field":
            offsets = [
                equations.offsets(steps[:, i]) for i in range(self.waits + 1)
            ]
            states = equations.states(offsets, may_exist)
        kernel = equations.weights.size_recurrent_kernel
        scores = equations.size_scores(steps[:, 0], states)
        scores += numerics.product(ops.cast(hidden, kernel.dtype), kernel)
        mask = equations.position_mask(may_exist)
        logits = equations.size_logits(scores, mask)
        return categorical.best(equations.select(logits, noise=None)) + 1

    def _read(
        self, steps: Tensor, real: Tensor, states: list[Tensor]
    ) -> tuple[Any, ...]:
        """Output, states and sizes of the oldest steps."""
        sequences = Sequences(steps[:, :1], real[:, :1])
        if self.waits:
            sequences = Sequences(*sequences[:2], steps[:, 1:], real[:, 1:])
        field_inputs = pad_inputs(sequences, self.waits + 1)
        returns_field = getattr(self.rnn, "return_field", False)
        options = loop.RunOptions(
            return_sequences=True, return_choices=returns_field, unroll=True
        )
        run = loop.run(self.rnn.cell, field_inputs, tuple(states), options)
        moved = run.outputs[:, 0], list(run.states)
        if not returns_field:
            return moved
        chosen = compute_choices(self.rnn.cell, run, field_inputs)
        return *moved, chosen.field()


def is_over_windows(layer: keras.Layer) -> bool:
    """Whether a layer is a `keras.layers.RNN` with an `RFCell`."""
    rnn = unwrap(layer)
    return type(rnn) is keras.layers.RNN and type(rnn.cell) is RFCell


class StreamedWindows(FieldLayer):
    """A `ReceptiveFieldWindows`, whose steps need all positions."""

    @property
    def waits(self) -> int:
        return self.layer.max_size - 1

    def call(self, sequence: Tensor, mask: Tensor | None = None) -> Tensor:
        steps, real, count = self.enqueue(sequence, mask)
        sizes = tf.fill(tf.shape(count), self.waits + 1)
        is_certain = self.certain(sizes, real, count)
        self.leave(is_certain, steps, real)
        if self.waits:
            left = count - tf.cast(is_certain, "int32")
            later = remove_first(real, is_certain)
            self.pending = self.certain(sizes, later, left)
        real = real[..., None]
        steps = tf.where(real, steps, tf.zeros_like(steps))
        windows = [steps, ops.cast(real, steps.dtype)]
        return ops.concatenate(windows, axis=-1)[:, None]
