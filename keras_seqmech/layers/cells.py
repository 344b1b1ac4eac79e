"""What layers need of the cell inside them, whichever it is."""

import contextlib
import inspect
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any
from typing import Protocol
from typing import runtime_checkable

import keras
from keras import ops

from keras_seqmech.typing import Tensor

# Cells whose weights and steps are known; any other is only called.
KNOWN_CELLS = (
    keras.layers.SimpleRNNCell,
    keras.layers.LSTMCell,
    keras.layers.GRUCell,
)


@runtime_checkable
class CachesDropout(Protocol):
    """A cell that keeps its dropout masks, the same for all steps.

    `LSTMCell`, `GRUCell` and `SimpleRNNCell` have these methods, and
    `keras.layers.RNN` calls them on every cell that has them.
    """

    def get_dropout_mask(self, step_input: Tensor) -> Any:
        """Mask of the inputs, drawn like `step_input` at the first call."""

    def get_recurrent_dropout_mask(self, step_input: Tensor) -> Any:
        """Mask of the state, drawn like `step_input` at the first call."""

    def reset_dropout_mask(self) -> None:
        """Forgets the mask of the inputs."""

    def reset_recurrent_dropout_mask(self) -> None:
        """Forgets the mask of the state."""


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


def gated_states(cell: Any, gated: str) -> tuple[int, ...]:
    """Which of a cell's states a gate acts on.

    Args:
        cell: A Keras cell. Of stacked cells the first is meant, whose states
            come first.
        gated: `"output"`, its first state; `"memory"`, its last, which in an
            `LSTMCell` is c; or `"all"`.

    Returns:
        Indices into the cell's flat states.
    """
    count = len(flat_state_sizes(_parts(cell)[0]))
    indices = {"output": (0,), "memory": (count - 1,), "all": range(count)}
    return tuple(indices[gated])


def build(cell: Any, batch_size: int | None, features: int) -> None:
    """Builds a cell; one that is built must have been built for the features.

    Args:
        cell: A cell of `keras.layers.RNN`. One that is no Keras layer has
            nothing to build.
        batch_size: Size of a batch, or None.
        features: Number of features of the cell's inputs.

    Raises:
        ValueError: If an `LSTMCell`, `GRUCell` or `SimpleRNNCell` is built for
            another number of features.
    """
    if not isinstance(cell, keras.layers.Layer):
        return
    if not cell.built:
        cell.build((batch_size, features))
        cell.built = True
    elif type(cell) in KNOWN_CELLS and cell.kernel.shape[0] != features:
        raise ValueError(
            "Argument `cell` must not be built for other inputs than those it "
            f"gets, of {features} features. "
            f"Received: cell.kernel.shape={tuple(cell.kernel.shape)}"
        )


def call_cell(
    cell: Any, inputs: Tensor, states: Sequence[Tensor], training: bool
) -> tuple[Tensor, list[Tensor]]:
    """Calls any cell on one step, with flat lists of states.

    Args:
        cell: A built cell of `keras.layers.RNN`.
        inputs: Tensor `(batch, features)`.
        states: States before the step, `(batch, size)` each, in the order of
            `flat_state_sizes`.
        training: Whether the cell trains; passed on if its `call` takes it.

    Returns:
        The output `(batch, output size)`, and the states after the step.
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
    """The cells that a cell is made of, itself if it is no stack."""
    if not isinstance(cell, keras.layers.StackedRNNCells):
        return [cell]
    return [part for inner in cell.cells for part in _parts(inner)]


@contextlib.contextmanager
def fresh_dropout(cell: Any) -> Iterator[None]:
    """Within it, a cell's cached dropout masks are those of this call alone."""

    def reset() -> None:
        for part in _parts(cell):
            if isinstance(part, CachesDropout):
                part.reset_dropout_mask()
                part.reset_recurrent_dropout_mask()

    reset()
    try:
        yield
    finally:
        reset()


def draw_dropout(cell: Any, batch_size: Any, features: int, dtype: str) -> None:
    """Draws and caches a cell's dropout masks, one for all following steps.

    Args:
        cell: A built cell; stacked cells draw for each of theirs. Cells that
            cache no masks are left as they are.
        batch_size: Size of the batch, an int or a scalar tensor.
        features: Number of features of the cell's inputs.
        dtype: Dtype of the masks.
    """
    for part in _parts(cell):
        if isinstance(part, CachesDropout):
            hidden = flat_state_sizes(part)[0]
            part.get_dropout_mask(ops.zeros((batch_size, features), dtype))
            part.get_recurrent_dropout_mask(
                ops.zeros((batch_size, hidden), dtype)
            )
        features = output_size(part)
