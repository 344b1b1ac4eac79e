"""Adaptive receptive fields, one step after the other.

A field of at most S positions can be read once S - 1 further steps have
arrived, so that outputs lie S - 1 steps behind the inputs.
"""

from typing import Any
from typing import NamedTuple

import keras
import tensorflow as tf
from keras import ops

from keras_seqmech.receptive_field import loop
from keras_seqmech.receptive_field.layer import compute_choices
from keras_seqmech.receptive_field.windows import ReceptiveFieldWindows
from keras_seqmech.receptive_field.windows import Sequences
from keras_seqmech.receptive_field.windows import pad_inputs
from keras_seqmech.serving.streaming.clock import Clock
from keras_seqmech.serving.streaming.layer import State
from keras_seqmech.serving.streaming.layer import StreamedLayer
from keras_seqmech.serving.streaming.recurrent import StreamedRNN
from keras_seqmech.serving.streaming.recurrent import one_or_all
from keras_seqmech.serving.streaming.recurrent import unwrap
from keras_seqmech.typing import Tensor


class Window(NamedTuple):
    """A step and what follows it, `(batch, S, ...)` each.

    Attributes:
        values: The steps, zeros where they are not real.
        real: Whether each step is real.
    """

    values: Tensor
    real: Tensor


def empty_window(layer: StreamedLayer, batch_size: Tensor) -> State:
    """The state of a layer that waits for as many steps as it must see."""
    shape = (batch_size, layer.waits, layer.spec.shape[-1])
    return {
        "ahead": tf.zeros(shape, layer.spec.dtype),
        "ahead_real": tf.zeros(shape[:2], "bool"),
    }


def read_window(
    layer: StreamedLayer, sequence: Tensor, mask: Tensor | None
) -> tuple[Window, State]:
    """The window that a step completes, and the state for the next."""
    real = layer.is_real(mask, ops.shape(sequence)[0])
    step = tf.where(real[..., None], sequence, tf.zeros_like(sequence))
    window = Window(
        tf.concat([layer.state["ahead"], step], axis=1),
        tf.concat([layer.state["ahead_real"], real], axis=1),
    )
    layer.mask = window.real[:, :1]
    return window, {
        "ahead": window.values[:, 1:],
        "ahead_real": window.real[:, 1:],
    }


class StreamedFieldRNN(StreamedRNN):
    """A `ReceptiveFieldRNN`, or a `LearnedInitialState` of one."""

    def __init__(self, clock: Clock, delay: int, layer: keras.Layer):
        super().__init__(clock, delay, layer, unwrap(layer).max_size - 1)

    def initial_state(self, batch_size: Tensor) -> State:
        states = super().initial_state(batch_size)
        return {**states, **empty_window(self, batch_size)}

    def call(
        self,
        sequence: Tensor,
        initial_state: Any = None,
        mask: Tensor | None = None,
        training: bool = False,
    ) -> Any:
        window, waiting = read_window(self, sequence, mask)
        field_inputs = pad_inputs(_read(window), self.rnn.max_size)
        options = loop.RunOptions(
            return_sequences=True,
            return_choices=self.rnn.return_field,
            unroll=True,
        )
        states = tuple(self.states_before(initial_state))
        run = loop.run(self.rnn.cell, field_inputs, states, options)
        returned = self.assemble(
            run.outputs[:, 0], list(run.states), window.real[:, :1]
        )
        self.state |= waiting
        if self.rnn.return_field:
            chosen = compute_choices(self.rnn.cell, run, field_inputs)
            returned += (chosen.field(),)
        return one_or_all(returned)

    def compute_mask(self, sequence: Tensor, mask: Any = None) -> Any:
        mask = StreamedLayer.compute_mask(self, sequence, mask)
        return super().compute_mask(sequence, mask)


class StreamedWindows(StreamedLayer):
    """A `ReceptiveFieldWindows`."""

    def __init__(self, clock: Clock, delay: int, layer: ReceptiveFieldWindows):
        super().__init__(clock, delay, layer, layer.max_size - 1)

    def initial_state(self, batch_size: Tensor) -> State:
        return empty_window(self, batch_size)

    def call(self, sequence: Tensor, mask: Tensor | None = None) -> Tensor:
        window, self.state = read_window(self, sequence, mask)
        real = ops.cast(window.real, window.values.dtype)[..., None]
        return ops.concatenate([window.values, real], axis=-1)[:, None]


def _read(window: Window) -> Sequences:
    """The first step of a window as a sequence, the others ahead of it."""
    values, real = window
    if values.shape[1] == 1:
        return Sequences(values, real, None, None)
    return Sequences(values[:, :1], real[:, :1], values[:, 1:], real[:, 1:])
