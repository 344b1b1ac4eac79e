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
from keras_seqmech.core.decisions import reports
from keras_seqmech.core.decisions.categorical import Sizes
from keras_seqmech.core.masks import zero_masked
from keras_seqmech.core.wrapped import unwrapped
from keras_seqmech.receptive_field import loop
from keras_seqmech.receptive_field.cell import RFCell
from keras_seqmech.receptive_field.layer import compute_sizes
from keras_seqmech.receptive_field.windows import Sequences
from keras_seqmech.receptive_field.windows import pad_inputs
from keras_seqmech.serving.streaming.layer import FieldLayer
from keras_seqmech.serving.streaming.layer import State
from keras_seqmech.serving.streaming.layer import append
from keras_seqmech.serving.streaming.layer import choose
from keras_seqmech.serving.streaming.layer import remove_first
from keras_seqmech.serving.streaming.layers import StreamedRNN
from keras_seqmech.serving.streaming.layers import first_states
from keras_seqmech.typing import Tensor


class StreamedFieldRNN(FieldLayer, StreamedRNN):
    """A `ReceptiveFieldRNN`, or a `LearnedInitialState` of one.

    Also a `keras.layers.RNN` with an `RFCell`, called on the sequence that
    its windows are made of.
    """

    @property
    def waits(self) -> int:
        return unwrapped(self.layer).cell.max_size - 1

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
        sequence_mask: Tensor | None = None,
    ) -> Any:
        mask = self.own_mask(mask, sequence_mask)
        steps, real, count = self.enqueue(sequence, mask)
        states = first_states(
            self.output_timeline, initial_state, self.state["states"]
        )
        read = ops.cast(steps, self.rnn.cell.compute_dtype)
        sizes = self._sizes(read, real, count, states[0])
        leaves = self.leave(sizes, steps, real, count)
        output, new, *field = self._read(read, real, states)
        returned = self.advance(output, new, states, leaves & real[:, 0])
        if not field:
            return returned
        returned = returned if isinstance(returned, list) else [returned]
        return *returned, *field

    def _sizes(
        self, steps: Tensor, real: Tensor, count: Tensor, hidden: Tensor
    ) -> Tensor:
        """Sizes of the oldest waiting steps if more steps follow.

        Above `count` they are provisional.
        """
        cell = self.rnn.cell
        if not self.waits:
            return tf.ones_like(count)
        equations = cell.equations(training=False)
        may_exist = real | (tf.range(self.waits + 1) >= count[:, None])
        states: list[Tensor] = []
        if cell.size_from == "field":
            offsets = [
                equations.offsets(steps[:, i]) for i in range(self.waits + 1)
            ]
            states = equations.states(offsets, may_exist)
        kernel = equations.size_recurrent_kernel
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
        decides = returns_field or reports.is_recording()
        options = loop.RunOptions(
            return_sequences=True, return_choices=decides, unroll=True
        )
        run = loop.run(self.rnn.cell, field_inputs, tuple(states), options)
        moved = run.outputs[:, 0], list(run.states)
        if not decides:
            return moved
        field = compute_sizes(self.rnn.cell, run, field_inputs).field()
        reports.record(self.rnn, field)
        return (*moved, field) if returns_field else moved


def is_over_windows(layer: keras.Layer) -> bool:
    """Whether a layer is a `keras.layers.RNN` with an `RFCell`."""
    rnn = unwrapped(layer)
    return type(rnn) is keras.layers.RNN and type(rnn.cell) is RFCell


class StreamedLookAhead(FieldLayer):
    """A `LookAhead`."""

    @property
    def waits(self) -> int:
        return self.layer.max_size - 1

    def initial_state(self, batch_size: Tensor) -> State:
        state = super().initial_state(batch_size)
        # The position that follows the last one read.
        state["reach"] = tf.zeros((batch_size,), "int32")
        if self.waits and self.layer.context_features:
            shape = (batch_size, self.waits, self.layer.context_features)
            state["context"] = tf.zeros(shape, self.context_dtype)
        return state

    def compute_output_spec(
        self,
        sequence: keras.KerasTensor,
        context: keras.KerasTensor | None = None,
        **kwargs: Any,
    ) -> Any:
        if context is not None:
            self.context_dtype = context.dtype
        return super().compute_output_spec(sequence, context, **kwargs)

    def call(
        self,
        sequence: Tensor,
        context: Tensor | None = None,
        mask: Tensor | None = None,
        training: bool = False,
        sequence_mask: Tensor | None = None,
    ) -> Any:
        mask = sequence_mask if mask is None else mask
        timeline = self.output_timeline
        steps, real, count = self.enqueue(sequence, mask)
        contexts = context
        if context is not None and self.waits:
            before = self.timeline.passed - timeline.passed
            contexts = append(
                self.state["context"], context, before, self.timeline.present
            )
        chosen, sizes = self._choose(steps, real, count, contexts)
        extent = tf.maximum(sizes, self.state["reach"] - timeline.passed)
        leaves = self.leave(extent, steps, real, count)
        if context is not None and self.waits:
            self.state["context"] = remove_first(contexts, leaves)
        reach = timeline.passed + extent
        self.state["reach"] = choose(
            leaves & real[:, 0], reach, self.state["reach"]
        )
        keep = tf.range(self.waits + 1) < extent[:, None]
        keep = keep & real & real[:, :1]
        return self._returned(steps, real, keep, chosen)

    def _choose(
        self,
        steps: Tensor,
        real: Tensor,
        count: Tensor,
        contexts: Tensor | None,
    ) -> tuple[tuple[Tensor, Tensor], Tensor]:
        """Logits, selection and sizes of the oldest waiting steps.

        Sizes above `count` are provisional.
        """
        may_arrive = tf.range(self.waits + 1) >= count[:, None]
        may_exist = real | (may_arrive & ~self.timeline.ended[:, None])
        dtype = self.layer.compute_dtype
        masked = choose(real, steps, tf.zeros_like(steps))
        projected = self.layer.project_for_sizes(tf.cast(masked, dtype))
        logits = self.layer.size_logits(
            tf.unstack(projected, axis=1),
            None if contexts is None else tf.cast(contexts[:, 0], dtype),
            may_exist,
        )
        selection = self.layer.select(logits, training=False)
        return (logits, selection), categorical.best(selection) + 1

    def _returned(
        self,
        steps: Tensor,
        real: Tensor,
        keep: Tensor,
        chosen: tuple[Tensor, Tensor],
    ) -> Any:
        """What the layer returns for the oldest steps."""
        read = choose(keep, steps, tf.zeros_like(steps))
        read = tf.cast(read, self.layer.compute_dtype)
        projected = self.layer.project_for_summary(read)
        views, projected = (tf.unstack(x, axis=1) for x in (read, projected))
        outputs = self.layer.show(views, projected, keep, real)[:, None]
        logits, selection = (x[:, None] for x in chosen)
        size = tf.reduce_sum(tf.cast(keep, logits.dtype), axis=-1)[:, None]
        sizes = Sizes.of(
            logits, selection, self.layer.estimator, lambda selection: size
        )
        sizes = sizes.map(lambda x: zero_masked(x, keep[:, :1]))
        return reports.with_decisions(
            self.layer, outputs, sizes.field(), self.layer.return_field
        )
