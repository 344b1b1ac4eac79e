"""Adaptive receptive fields, one step after the other.

A field of at most S positions can be read once S - 1 further steps have
arrived, so that outputs lie S - 1 steps behind the inputs.
"""

from typing import Any

import tensorflow as tf
from keras import ops

from keras_seqmech.receptive_field import loop
from keras_seqmech.receptive_field.layer import compute_choices
from keras_seqmech.receptive_field.windows import Sequences
from keras_seqmech.receptive_field.windows import pad_inputs
from keras_seqmech.serving.streaming.layer import StreamedLayer
from keras_seqmech.serving.streaming.recurrent import StreamedRNN
from keras_seqmech.typing import Tensor


class StreamedFieldRNN(StreamedRNN):
    """A `ReceptiveFieldRNN`, or a `LearnedInitialState` of one."""

    @property
    def waits(self) -> int:
        return self.rnn.max_size - 1

    def move(
        self, steps: Tensor, real: Tensor, states: list[Tensor]
    ) -> tuple[Any, ...]:
        sequences = Sequences(steps[:, :1], real[:, :1])
        if self.waits:
            sequences = Sequences(*sequences[:2], steps[:, 1:], real[:, 1:])
        field_inputs = pad_inputs(sequences, self.rnn.max_size)
        options = loop.RunOptions(
            return_sequences=True,
            return_choices=self.rnn.return_field,
            unroll=True,
        )
        run = loop.run(self.rnn.cell, field_inputs, tuple(states), options)
        moved = run.outputs[:, 0], list(run.states)
        if not self.rnn.return_field:
            return moved
        chosen = compute_choices(self.rnn.cell, run, field_inputs)
        return *moved, chosen.field()


class StreamedWindows(StreamedLayer):
    """A `ReceptiveFieldWindows`."""

    @property
    def waits(self) -> int:
        return self.layer.max_size - 1

    def call(self, sequence: Tensor, mask: Tensor | None = None) -> Tensor:
        steps, real = self.read(sequence, mask)
        real = real[..., None]
        steps = tf.where(real, steps, tf.zeros_like(steps))
        windows = [steps, ops.cast(real, steps.dtype)]
        return ops.concatenate(windows, axis=-1)[:, None]
