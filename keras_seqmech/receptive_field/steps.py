"""Adaptive fields, one step of a stream after the other."""

from typing import Any

import tensorflow as tf
from keras import ops

from keras_seqmech.core.decisions import choices
from keras_seqmech.core.decisions import reports
from keras_seqmech.core.decisions.learning import as_log_weight
from keras_seqmech.core.masks import zero_masked
from keras_seqmech.core.stream import Queue
from keras_seqmech.core.stream import RecurrentSteps
from keras_seqmech.core.stream import State
from keras_seqmech.core.stream import Stepped
from keras_seqmech.core.stream import Tick
from keras_seqmech.core.stream import first_states
from keras_seqmech.receptive_field.ahead import UNREAD
from keras_seqmech.receptive_field.ahead import oldest_window
from keras_seqmech.receptive_field.ahead import stream_limit
from keras_seqmech.receptive_field.ahead import within
from keras_seqmech.typing import Tensor


class FieldSteps(RecurrentSteps):
    """The steps of a `keras.layers.RNN` with an `RFCell`.

    They are called on the sequence itself, not on windows over it: a step
    leaves once the positions that it chose to read have arrived.
    """

    @property
    def stream_delay(self) -> int:
        """The most further steps that a step waits for."""
        return self.rnn.cell.max_size - 1

    @property
    def stream_refusal(self) -> str | None:
        """The reason why the layer cannot be streamed, or None."""
        if self.rnn.cell.inference == "sample":
            return "draws at inference"
        return super().stream_refusal

    @property
    def stream_unread(self) -> tuple[str, ...]:
        """Decisions that depend on what a step has not read."""
        return UNREAD[self.rnn.cell.size_from]

    def stream_state(self, batch_size: Tensor) -> State:
        """Beside that of the cell, the steps that wait."""
        state = super().stream_state(batch_size)
        if self.stream_delay:
            cell = self.rnn.cell
            shape = (None, None, cell.field_kernel.shape[0])
            specs = {
                "sequence": tf.TensorSpec(shape, cell.compute_dtype),
                "real": tf.TensorSpec((None, None), "bool"),
            }
            queue = Queue.empty(batch_size, self.stream_delay, specs)
            state["queue"] = queue._asdict()
        return state

    def stream_step(
        self,
        state: State,
        tick: Tick,
        sequence: Tensor,
        initial_state: Any = None,
        mask: Tensor | None = None,
        weight: Tensor | None = None,
        limit: Tensor | None = None,
    ) -> Stepped:
        """Calls the cell where the oldest step has all that it reads."""
        cell = self.rnn.cell
        arriving = {
            "sequence": ops.cast(sequence, cell.compute_dtype),
            "real": tick.real(mask)[:, None],
        }
        queue = Queue.receive(state, arriving, tick)
        window = oldest_window(queue, tick, cell.max_size)
        is_first, real = window.passed == 0, window.real
        states = first_states(is_first, initial_state, state["states"])
        log_weight = None
        if weight is not None:
            log_weight = as_log_weight(weight, cell.score_dtype)[:, None]
        allowed, most = window.may_exist, cell.max_size
        if limit is not None:
            limit = stream_limit(limit, sequence, cell.max_size)
            allowed &= within(limit, cell.max_size)
            most = limit + 1
        output, new, chosen = cell.read_window(
            window.steps, allowed, states, log_weight=log_weight
        )
        needed = 1
        if cell.max_size > 1:
            sizes = tf.minimum(choices.best(chosen.selection) + 1, most)
            # A masked step reads nothing.
            needed = tf.where(real[:, 0], sizes, 1)
        leaves, pending = queue.oldest_leave(needed, tick)
        outputs, state = self.advance(
            output,
            new,
            {**state, "states": states},
            leaves,
            leaves & real[:, 0],
        )
        returns_field = getattr(self.rnn, "return_field", False)
        if returns_field or reports.is_recording():
            sizes = cell.sizes(
                chosen.logits,
                chosen.selection,
                real & allowed,
                tf.shape(real)[:1],
            ).map(lambda x: zero_masked(x[:, None], real[:, :1]))
            outputs = outputs if isinstance(outputs, list) else [outputs]
            outputs = reports.with_decisions(
                self.rnn, outputs, sizes.shown("size"), returns_field
            )
        if not self.stream_delay:
            return Stepped(outputs, state)
        state["queue"] = queue.remove_first(leaves)._asdict()
        return Stepped(outputs, state, leaves, pending)
