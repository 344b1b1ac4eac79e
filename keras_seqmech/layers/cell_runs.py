"""A cell's part of the fast loop: what precedes it, and what stays in it."""

from collections.abc import Callable
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import keras
import tensorflow as tf
from keras import ops

from keras_seqmech.layers import cells
from keras_seqmech.ops import cell_steps
from keras_seqmech.ops import linear
from keras_seqmech.ops.scan import Affine
from keras_seqmech.ops.scan import Named
from keras_seqmech.ops.scan import Operands
from keras_seqmech.ops.scan import States
from keras_seqmech.typing import Tensor


class CellRun(NamedTuple):
    """What `scan` needs to run a cell.

    Attributes:
        inputs: Tensors by name to scan over, `(time, ...)`.
        weights: Matrices of the products inside the loop, by name.
        step: Function `(inputs_t, states, affine) -> (output, states)`, the
            states flat.
    """

    inputs: dict[str, Any]
    weights: dict[str, Tensor]
    step: Callable

    @property
    def operands(self) -> Operands:
        """The operands of the cell's part of a step."""
        return Operands(self.inputs, self.weights)


def prepare(
    cell: Any, sequences: Tensor, dtype: str, training: bool
) -> CellRun:
    """Splits a cell's work into what precedes the loop and what stays in it.

    `SimpleRNNCell`, `LSTMCell` and `GRUCell` have their input products taken
    out of the loop. Other cells, subclasses, and cells with dropout in
    training or with an activation that has weights are called as they are,
    step by step.

    Args:
        cell: A built Keras cell.
        sequences: The cell's inputs, `(time, batch, features)`.
        dtype: Compute dtype.
        training: Whether dropout is active.

    Returns:
        A `CellRun`.
    """
    if not projects_before_loop(cell, training):

        def step(
            inputs: dict[str, Tensor], states: Sequence[Tensor], affine: Affine
        ) -> tuple[Tensor, tuple[Tensor, ...]]:
            output, states = cells.call_cell(
                cell, inputs["cell_inputs"], states, training
            )
            return ops.cast(output, dtype), tuple(
                ops.cast(s, dtype) for s in states
            )

        return CellRun({"cell_inputs": sequences}, {}, step)

    def cast(variable: Any) -> Tensor | None:
        return None if variable is None else ops.cast(variable, dtype)

    kernel = cast(cell.kernel)
    recurrent_kernel = cast(cell.recurrent_kernel)
    builder = _BUILDERS[type(cell)]
    return builder(cell, sequences, kernel, recurrent_kernel, cast(cell.bias))


def projects_before_loop(cell: Any, training: bool) -> bool:
    """Whether a cell's input products leave the loop; see `prepare`."""
    if type(cell) not in _BUILDERS:
        return False
    if training and (cell.dropout or cell.recurrent_dropout):
        return False
    activations = (cell.activation, getattr(cell, "recurrent_activation", None))
    return not any(isinstance(a, keras.layers.Layer) for a in activations)


def _simple_rnn(
    cell: Any,
    sequences: Tensor,
    kernel: Tensor,
    recurrent_kernel: Tensor,
    bias: Tensor | None,
) -> CellRun:
    def step(
        inputs: Named, states: States, affine: Affine
    ) -> tuple[Tensor, States]:
        return cell_steps.simple_rnn_step(states, affine, cell.activation)

    inputs = {"cell": linear.project(sequences, kernel, bias, 1)}
    return CellRun(inputs, {"cell": recurrent_kernel}, step)


def _lstm(
    cell: Any,
    sequences: Tensor,
    kernel: Tensor,
    recurrent_kernel: Tensor,
    bias: Tensor | None,
) -> CellRun:
    def step(
        inputs: Named, states: States, affine: Affine
    ) -> tuple[Tensor, States]:
        return cell_steps.lstm_step(
            states, affine, cell.activation, cell.recurrent_activation
        )

    inputs = {"cell": linear.project(sequences, kernel, bias, 4)}
    return CellRun(inputs, {"cell": recurrent_kernel}, step)


def _gru(
    cell: Any,
    sequences: Tensor,
    kernel: Tensor,
    recurrent_kernel: Tensor,
    bias: Tensor | None,
) -> CellRun:
    def step(
        inputs: Named, states: States, affine: Affine
    ) -> tuple[Tensor, States]:
        return cell_steps.gru_step(
            inputs,
            states,
            affine,
            cell.activation,
            cell.recurrent_activation,
            cell.reset_after,
        )

    split = 2 * cell.units
    if not cell.reset_after:
        update, reset, candidate = linear.project(sequences, kernel, bias, 3)
        inputs = {"cell": [update, reset], "cell_candidate": [candidate]}
        weights = {
            "cell": recurrent_kernel[:, :split],
            "cell_candidate": recurrent_kernel[:, split:],
        }
        return CellRun(inputs, weights, step)

    input_bias, recurrent_bias = (
        (None, None) if bias is None else tf.unstack(bias)
    )
    update, reset, candidate = linear.project(sequences, kernel, input_bias, 3)
    state_candidate = tf.zeros_like(candidate)
    if recurrent_bias is not None:
        update_bias, reset_bias, state_bias = tf.split(recurrent_bias, 3)
        update, reset = update + update_bias, reset + reset_bias
        state_candidate += state_bias
    inputs = {
        "cell": [update, reset, state_candidate],
        "cell_candidate": candidate,
    }
    return CellRun(inputs, {"cell": recurrent_kernel}, step)


_BUILDERS = {
    keras.layers.SimpleRNNCell: _simple_rnn,
    keras.layers.LSTMCell: _lstm,
    keras.layers.GRUCell: _gru,
}
