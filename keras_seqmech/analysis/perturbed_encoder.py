"""A focused encoder whose lower or upper states are perturbed."""

from typing import Any

import keras
from keras import ops

from keras_seqmech.analysis.perturbed_model import Perturbed
from keras_seqmech.analysis.perturbed_model import PerturbedCell
from keras_seqmech.analysis.perturbed_model import Site
from keras_seqmech.layers.focused_encoder.outputs import UpperOutputs
from keras_seqmech.ops import compaction
from keras_seqmech.ops import masking
from keras_seqmech.typing import Tensor


class PerturbedEncoder(Perturbed):
    """A `FocusedHierarchicalEncoder` at inference, perturbed.

    The upper state is perturbed after each step, whether its gate is open or
    not. A closed gate keeps the state, so that the states before and after it
    have the same gradient.
    """

    def __init__(self, site: Site):
        super().__init__(site)
        encoder = site.layer
        self.lower = _loop(encoder.lower.cell)
        self.upper = _loop(_GatedCell(encoder.upper.cell))
        self.is_lower = site.loops[0] is encoder.lower

    def build(
        self,
        sequence_shape: Any,
        context_shape: Any,
        initial_state_shape: Any = None,
    ) -> None:
        pass  # The loops build themselves when they run.

    def call(
        self,
        sequence: Tensor,
        context: Tensor,
        sequence_mask: Tensor | None = None,
        initial_state: Any = None,
        training: bool = False,
        mask: None = None,
    ) -> Any:
        encoder = self.site.layer
        real = masking.as_booleans(sequence_mask)
        sequence = ops.cast(sequence, self.compute_dtype)
        sequence = masking.zero_masked(sequence, real)
        perturbations = [
            ops.zeros((*ops.shape(sequence)[:2], units), self.compute_dtype)
            for units in (encoder.lower_units, encoder.units)
        ]
        self.record(
            perturbations[:1] if self.is_lower else perturbations[1:], real
        )
        starts: list[Any] = [None, None]
        if initial_state is not None:
            flat = keras.tree.flatten(initial_state)
            starts = [flat[:2], flat[2:]]

        hidden, *lower_states = self.lower(
            ops.concatenate([sequence, perturbations[0]], axis=-1),
            initial_state=starts[0],
            mask=real,
        )
        gates, decisions = encoder.gate(hidden, context, sequence_mask=real)
        keep = gates > 0.5
        is_open = ops.cast(keep, self.compute_dtype)[..., None]
        states, *upper_states = self.upper(
            ops.concatenate([hidden, is_open, perturbations[1]], axis=-1),
            initial_state=starts[1],
            mask=real,
        )
        upper = UpperOutputs(tuple(upper_states), states)
        if encoder.returned.focused:
            indices, found = compaction.compact(keep, compaction.capacity(keep))
            focused = compaction.gather(states, keep, indices)
            focused = masking.zero_masked(focused, found)
            upper = UpperOutputs(
                tuple(upper_states), states, focused, found, indices
            )
        return encoder.returned.assemble(
            upper, tuple(lower_states), decisions, real
        )


class _GatedCell(keras.layers.Layer):
    """A cell that keeps its states except where its last input is 1."""

    def __init__(self, cell: keras.layers.LSTMCell):
        super().__init__(dtype=cell.dtype_policy)
        self.cell = cell
        self.state_size = cell.state_size
        self.output_size = cell.units
        self.get_initial_state = cell.get_initial_state

    def build(self, input_shape: Any) -> None:
        pass  # The cell is built.

    def call(self, inputs: Tensor, states: Any) -> Any:
        is_open = inputs[:, -1:] > 0.5
        _, new = self.cell(inputs[:, :-1], states)
        states = [ops.where(is_open, *pair) for pair in zip(new, states)]
        return states[0], states


def _loop(cell: Any) -> keras.layers.RNN:
    return keras.layers.RNN(
        PerturbedCell(cell, dtype=cell.dtype_policy),
        return_sequences=True,
        return_state=True,
        dtype=cell.dtype_policy,
    )
