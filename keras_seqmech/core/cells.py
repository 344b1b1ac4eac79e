"""Adapters of Keras RNN cells.

A cell is called with any number of states, within a loop of Keras or of ours.
Of the cells that the package knows, the products with the inputs are hoisted
out of the time loop, and a step computes the rest.
"""

import contextlib
import functools
import inspect
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import keras
import tensorflow as tf
from keras import ops

from keras_seqmech.core import numerics
from keras_seqmech.core.kept_steps import States
from keras_seqmech.core.loop import Multiply
from keras_seqmech.core.loop import Product
from keras_seqmech.typing import Tensor


def state_size(cell: Any) -> Any:
    """Sizes of a cell's states in their structure, as ints of Python."""
    return keras.tree.map_structure(int, cell.state_size)


def flat_state_sizes(cell: Any) -> list[int]:
    """Sizes of a cell's states, nested structures flattened."""
    return keras.tree.flatten(state_size(cell))


def output_size(cell: Any) -> int:
    """Size of a cell's output: `output_size`, or that of its first state."""
    size = getattr(cell, "output_size", None)
    return flat_state_sizes(cell)[0] if size is None else int(size)


def gated_state(cell: Any, gated: str) -> int:
    """Index of the state that a gate acts on, among a cell's flat states.

    `"output"` is its first state, `"memory"` its last, which in an `LSTMCell`
    is c. For stacked cells: of the first, whose states come first.
    """
    if gated == "output":
        return 0
    return len(flat_state_sizes(_parts(cell)[0])) - 1


def build(cell: Any, batch_size: int | None, features: int) -> None:
    """Builds a cell for a number of input features.

    One that is no Keras layer has nothing to build. An `LSTMCell`, `GRUCell`
    or `SimpleRNNCell` that is built for others is refused.
    """
    if not isinstance(cell, keras.layers.Layer):
        return
    if not cell.built:
        cell.build((batch_size, features))
        cell.built = True
    elif type(cell) in _STEPS and cell.kernel.shape[0] != features:
        raise ValueError(
            "Argument `cell` must not be built for other inputs than those it "
            f"gets, of {features} features. "
            f"Received: cell.kernel.shape={tuple(cell.kernel.shape)}"
        )


def call_cell(
    cell: Any, inputs: Tensor, states: Sequence[Tensor], training: bool
) -> tuple[Tensor, list[Tensor]]:
    """Calls any cell on one step `(batch, features)`.

    The states, `(batch, size)` each before and after the step, are in the order
    of `flat_state_sizes`. `training` is passed on if the cell's `call` takes
    it.
    """
    packed = keras.tree.pack_sequence_as(cell.state_size, list(states))
    if not keras.tree.is_nested(packed):
        packed = [packed]
    arguments = {}
    if "training" in inspect.signature(cell.call).parameters:
        arguments["training"] = training
    run = cell if callable(cell) else cell.call
    output, new_states = run(inputs, packed, **arguments)
    return output, keras.tree.flatten(new_states)


def _parts(cell: Any) -> list:
    """The cells of a stack, or the cell itself in a list."""
    if not isinstance(cell, keras.layers.StackedRNNCells):
        return [cell]
    return [part for one in cell.cells for part in _parts(one)]


def caches_dropout(cell: Any) -> bool:
    """Returns whether a cell keeps its dropout masks for all steps."""
    return hasattr(cell, "get_dropout_mask") and hasattr(
        cell, "get_recurrent_dropout_mask"
    )


@contextlib.contextmanager
def fresh_dropout(cell: Any) -> Iterator[None]:
    """Within it, a cell's cached dropout masks are those of this call alone."""

    def reset() -> None:
        for part in filter(caches_dropout, _parts(cell)):
            part.reset_dropout_mask()
            part.reset_recurrent_dropout_mask()

    reset()
    try:
        yield
    finally:
        reset()


def draw_dropout(cell: Any, batch_size: Any, features: int, dtype: str) -> None:
    """Draws and caches a cell's dropout masks, one for all following steps.

    Stacked cells draw for each of theirs. Cells that cache no masks are left as
    they are.
    """
    for part in _parts(cell):
        if caches_dropout(part):
            hidden = flat_state_sizes(part)[0]
            part.get_dropout_mask(ops.zeros((batch_size, features), dtype))
            part.get_recurrent_dropout_mask(
                ops.zeros((batch_size, hidden), dtype)
            )
        features = output_size(part)


class CellRun(NamedTuple):
    """A cell as `scan` runs it.

    Attributes:
        operands: The operands of the cell's part of a step.
        step: Function `(operands, states) -> (output, states)` of those at one
            step, the states flat.
    """

    operands: Any
    step: Callable


def prepare(
    cell: Any,
    sequence: Tensor,
    dtype: str,
    training: bool,
    hoists: bool = True,
) -> CellRun:
    """Splits a cell's work into what precedes the loop and what stays in it.

    `SimpleRNNCell`, `LSTMCell` and `GRUCell` have the products with the inputs,
    `(time, batch, features)`, taken out of the loop. Other cells, subclasses,
    and cells with dropout in training or with an activation that has weights
    are called as they are, step by step. Without `hoists` an `LSTMCell` keeps
    its products in the loop, which pays where that may end early.
    """
    if not hoists and type(cell) is keras.layers.LSTMCell:
        return _lstm_in_loop(cell, sequence, dtype)
    if not projects_before_loop(cell, training):

        def step(
            inputs: Tensor, states: Sequence[Tensor]
        ) -> tuple[Tensor, tuple[Tensor, ...]]:
            output, states = call_cell(cell, inputs, states, training)
            states = tuple(ops.cast(state, dtype) for state in states)
            return ops.cast(output, dtype), states

        return CellRun(sequence, step)

    kernel = ops.cast(cell.kernel, dtype)
    recurrent_kernel = ops.cast(cell.recurrent_kernel, dtype)
    bias = None if cell.bias is None else ops.cast(cell.bias, dtype)
    known_step: Callable = functools.partial(_STEPS[type(cell)], cell)
    if isinstance(cell, keras.layers.GRUCell):
        gru = _gru_operands(cell, sequence, kernel, recurrent_kernel, bias)
        return CellRun(gru, known_step)
    parts = recurrent_kernel.shape[1] // recurrent_kernel.shape[0]
    projected = numerics.project(sequence, kernel, bias, parts)
    return CellRun(Product(recurrent_kernel, projected), known_step)


def _lstm_in_loop(cell: Any, sequence: Tensor, dtype: str) -> CellRun:
    """An `LSTMCell` whose step computes the products with its inputs."""
    kernel, recurrent_kernel, bias = (
        ops.cast(variable, dtype)
        for variable in (cell.kernel, cell.recurrent_kernel, cell.bias)
    )

    def step(operands: tuple, states: States) -> tuple[Tensor, States]:
        inputs, project, multiply = operands
        (projected,) = project(inputs)

        def both(hidden: Tensor) -> list[Tensor]:
            (product,) = multiply(hidden)
            return tf.split(projected + product, 4, axis=-1)

        return _lstm_step(cell, both, states)

    products = Product(kernel, bias=bias), Product(recurrent_kernel)
    return CellRun((sequence, *products), step)


def projects_before_loop(cell: Any, training: bool) -> bool:
    """Returns whether a cell's input products are hoisted; see `prepare`."""
    if type(cell) not in _STEPS:
        return False
    if training and (cell.dropout or cell.recurrent_dropout):
        return False
    activations = (cell.activation, getattr(cell, "recurrent_activation", None))
    return not any(isinstance(a, keras.layers.Layer) for a in activations)


class _GRUOperands(NamedTuple):
    """The operands of a `GRUCell`.

    Attributes:
        gates: Product of the state, for update and reset gate; with
            `reset_after` also the state's part of the candidate.
        candidate: The other part of the candidate, an input; without
            `reset_after` the candidate's own product.
    """

    gates: Any
    candidate: Any


def _gru_operands(
    cell: Any,
    sequence: Tensor,
    kernel: Tensor,
    recurrent_kernel: Tensor,
    bias: Tensor | None,
) -> _GRUOperands:
    if not cell.reset_after:
        update, reset, candidate = numerics.project(sequence, kernel, bias, 3)
        split = 2 * cell.units
        return _GRUOperands(
            Product(recurrent_kernel[:, :split], [update, reset]),
            Product(recurrent_kernel[:, split:], [candidate]),
        )
    if bias is None:
        bias = tf.zeros((2, kernel.shape[1]), kernel.dtype)
    input_bias, recurrent_bias = tf.unstack(bias)
    products = numerics.project(sequence, kernel, input_bias, 3)
    biases = tf.split(recurrent_bias, 3)
    update, reset = (p + b for p, b in zip(products[:2], biases))
    candidate = products[2]
    state_candidate = tf.zeros_like(candidate) + biases[2]
    gates = Product(recurrent_kernel, [update, reset, state_candidate])
    return _GRUOperands(gates, candidate)


# Each step takes the cell, its operands at one step, and the states `(batch,
# units)`.


def _simple_rnn_step(
    cell: Any, multiply: Multiply, states: States
) -> tuple[Tensor, States]:
    r"""$h_t = g(z_t + U h_{t-1})$."""
    (pre_activation,) = multiply(states[0])
    hidden = cell.activation(pre_activation)
    return hidden, (hidden,)


def _lstm_step(
    cell: Any, multiply: Multiply, states: States
) -> tuple[Tensor, States]:
    r"""$c_t = f_t c_{t-1} + i_t g(\tilde c_t)$, $h_t = o_t g(c_t)$.

    The four parts of the product with U are in Keras' order: input, forget,
    candidate, output.
    """
    activation, gate = cell.activation, cell.recurrent_activation
    hidden, carry = states
    input_gate, forget_gate, candidate, output_gate = multiply(hidden)
    carry = gate(forget_gate) * carry + gate(input_gate) * activation(candidate)
    hidden = gate(output_gate) * activation(carry)
    return hidden, (hidden, carry)


def _gru_step(
    cell: Any, operands: _GRUOperands, states: States
) -> tuple[Tensor, States]:
    r"""$h_t = z_t h_{t-1} + (1 - z_t) \tilde h_t$.

    With `reset_after` the reset gate acts on the state's part of the
    candidate, else on the state itself.
    """
    (hidden,) = states
    update, reset, *state_candidate = operands.gates(hidden)
    update = cell.recurrent_activation(update)
    reset = cell.recurrent_activation(reset)
    if cell.reset_after:
        candidate = operands.candidate + reset * state_candidate[0]
    else:
        (candidate,) = operands.candidate(reset * hidden)
    hidden = update * hidden + (1 - update) * cell.activation(candidate)
    return hidden, (hidden,)


_STEPS: dict[type, Callable] = {
    keras.layers.SimpleRNNCell: _simple_rnn_step,
    keras.layers.LSTMCell: _lstm_step,
    keras.layers.GRUCell: _gru_step,
}
