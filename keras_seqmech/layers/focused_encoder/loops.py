"""The two loops behind `FocusedHierarchicalEncoder`.

The lower network reads every step. The upper one has two paths of the same
answers: `run_open` shortens each row to the steps whose gates are open, runs
over those, and brings the states back; `run_every` computes a candidate at
every step and blends it in by the gate, which is what soft gates, and
gradients of closed ones, need.
"""

from typing import Any
from typing import NamedTuple

import tensorflow as tf
from keras import ops

from keras_seqmech.layers import cell_adapters
from keras_seqmech.ops import cell_steps
from keras_seqmech.ops import compaction
from keras_seqmech.ops.scan import Operands
from keras_seqmech.ops.scan import ScanOptions
from keras_seqmech.ops.scan import scan


class UpperOutputs(NamedTuple):
    """What the upper network leaves behind.

    Attributes:
        sequence: States after every step, `(batch, time, units)`, or None.
        states: Final states h and c, `(batch, units)` each; of `run_open`
            without `return_state`, h alone.
        focused: States after the open steps, `(batch, K, units)`, or None.
        focused_mask: Boolean `(batch, K)`, or None.
        focused_indices: The open steps, int32 `(batch, K)`, 0 where the mask
            is False; or None.
    """

    sequence: Any
    states: tuple
    focused: Any
    focused_mask: Any
    focused_indices: Any


def run_lower(
    cell,
    sequence: Any,
    states: tuple,
    mask: Any | None,
    training: bool,
    jit_compile: bool,
) -> tuple[Any, tuple]:
    """Runs an `LSTMCell` over all steps; masked ones keep the states.

    Args:
        cell: A built `keras.layers.LSTMCell`.
        sequence: Tensor `(batch, time, features)`, finite everywhere.
        states: Initial h and c, `(batch, units)` each.
        mask: Boolean tensor `(batch, time)` or None.
        training: Whether to use the recomputing gradient.
        jit_compile: Whether to compile the loop with XLA where the code around
            it is not.

    Returns:
        The states h after each step, `(batch, time, units)`, and the final
        states.
    """
    dtype = sequence.dtype
    run = cell_adapters.prepare(
        cell, ops.transpose(sequence, (1, 0, 2)), dtype, training
    )
    constants = {}
    if mask is not None:
        constants["mask"] = ops.transpose(mask)[..., None]

    def step(inputs, states, affine):
        _, new = run.step(inputs, states, affine)
        if mask is not None:
            new = tuple(
                tf.where(inputs["mask"], a, b) for a, b in zip(new, states)
            )
        return {"hidden": new[0]}, new

    values, states = scan(
        step,
        Operands(run.inputs, run.weights, constants=constants),
        states,
        {"hidden": tf.TensorSpec((sequence.shape[0], cell.units), dtype)},
        ScanOptions(recompute_gradient=training, jit_compile=jit_compile),
    )
    return ops.transpose(values["hidden"], (1, 0, 2)), states


def run_upper(
    cell,
    sequence: Any,
    gates: Any,
    states: tuple,
    training: bool,
    jit_compile: bool,
    soft: bool,
    return_sequences: bool,
    return_state: bool,
    return_focused: bool,
) -> UpperOutputs:
    """Runs the upper cell on the path that its gates need.

    Args:
        soft: Whether gates may lie between 0 and 1, or need a gradient.

    See `run_every` and `run_open` for the others.

    Returns:
        `UpperOutputs`.
    """
    forms = {
        "return_sequences": return_sequences,
        "return_focused": return_focused,
    }
    if soft:
        return run_every(
            cell, sequence, gates, states, training, jit_compile, **forms
        )
    return run_open(
        cell,
        sequence,
        gates > 0.5,
        states,
        training,
        return_state=return_state,
        **forms,
    )


def run_every(
    cell,
    sequence: Any,
    gates: Any,
    states: tuple,
    training: bool,
    jit_compile: bool,
    return_sequences: bool = False,
    return_focused: bool = False,
) -> UpperOutputs:
    """Runs the upper cell at every step: state = b * new + (1 - b) * old.

    Args:
        cell: A built `keras.layers.LSTMCell`.
        sequence: States of the lower network, `(batch, time, features)`.
        gates: Tensor `(batch, time)`, from 0 to 1, 0 at masked steps. All
            gates get a gradient, closed ones too.
        states: Initial h and c, `(batch, units)` each.
        training: Whether to use the recomputing gradient.
        jit_compile: Whether to compile the loop with XLA where the code around
            it is not.
        return_sequences: Whether to keep the states after every step.
        return_focused: Whether to keep those at gates above one half.

    Returns:
        `UpperOutputs`.
    """
    dtype = sequence.dtype
    run = cell_adapters.prepare(
        cell, ops.transpose(sequence, (1, 0, 2)), dtype, training
    )
    inputs = {"gate": ops.transpose(ops.cast(gates, dtype))[..., None]}

    def step(inputs, states, affine):
        gate = inputs["gate"]
        _, new = run.step(inputs, states, affine)
        new = tuple(gate * a + (1 - gate) * b for a, b in zip(new, states))
        return {"hidden": new[0]}, new

    values, states = scan(
        step,
        Operands({**inputs, **run.inputs}, run.weights),
        states,
        {"hidden": tf.TensorSpec((sequence.shape[0], cell.units), dtype)},
        ScanOptions(recompute_gradient=training, jit_compile=jit_compile),
    )
    hidden = focused = mask = indices = None
    if return_sequences or return_focused:
        hidden = ops.transpose(values["hidden"], (1, 0, 2))
    if return_focused:
        keep = gates > 0.5
        indices, mask = compaction.compact(keep, compaction.capacity(keep))
        focused = compaction.gather(hidden, keep, indices)
        focused = tf.where(mask[..., None], focused, 0)
    return UpperOutputs(
        hidden if return_sequences else None, states, focused, mask, indices
    )


def run_open(
    cell,
    sequence: Any,
    keep: Any,
    states: tuple,
    training: bool,
    return_sequences: bool = False,
    return_state: bool = False,
    return_focused: bool = False,
) -> UpperOutputs:
    """Runs the upper cell over the open steps of each row alone.

    Rows with fewer open steps than others run on, over steps that nothing
    reads. Compiled with XLA, arrays have room for all steps to be open, and
    the loops, backward too, end after those that are.

    Args:
        cell: A built `keras.layers.LSTMCell`.
        sequence: States of the lower network, `(batch, time, features)`.
        keep: Boolean tensor `(batch, time)`, True at open gates.
        states: Initial h and c, `(batch, units)` each.
        training: Whether to use the recomputing gradient.
        return_sequences: Whether to bring the states back to every step.
        return_state: Whether to return c; else the final state is h alone.
        return_focused: Whether to return the states at open gates.

    Returns:
        `UpperOutputs`.
    """
    length = compaction.capacity(keep)
    indices, mask = compaction.compact(keep, length)
    compacted = compaction.gather(sequence, keep, indices)
    compacted = ops.transpose(compacted, (1, 0, 2))
    prepare = _late if in_xla() else _projected
    step, operands, steps = prepare(cell, compacted, keep, training)

    names = ("hidden", "carry") if return_state else ("hidden",)

    def keep_states(inputs, states, affine):
        _, states = step(inputs, states, affine)
        return dict(zip(names, states)), states

    spec = tf.TensorSpec((sequence.shape[0], cell.units), sequence.dtype)
    values, _ = scan(
        keep_states,
        operands,
        states,
        dict.fromkeys(names, spec),
        ScanOptions(recompute_gradient=training, steps=steps),
    )
    values = [ops.transpose(values[name], (1, 0, 2)) for name in names]
    finals = tuple(
        compaction.final(initial, value, keep)
        for initial, value in zip(states, values)
    )
    expanded = focused = None
    if return_sequences:
        expanded = compaction.expand(states[0], values[0], keep)
    if return_focused:
        focused = tf.where(mask[..., None], values[0], 0)
    return UpperOutputs(expanded, finals, focused, mask, indices)


def _projected(cell, sequence, keep, training):
    """A step whose products with the inputs are computed beforehand."""
    run = cell_adapters.prepare(cell, sequence, sequence.dtype, training)
    return run.step, Operands(run.inputs, run.weights), None


def _late(cell, sequence, keep, training):
    """A step whose products with the inputs are computed within it.

    Products beforehand would be over as many steps as there is room for.
    """
    kernel, recurrent_kernel, bias = (
        ops.cast(variable, sequence.dtype)
        for variable in (cell.kernel, cell.recurrent_kernel, cell.bias)
    )

    def step(inputs, states, affine):
        (projected,) = affine("inputs", inputs["sequence"])

        def both(name, hidden):
            (product,) = affine(name, hidden)
            return tf.split(projected + product, 4, axis=-1)

        return cell_steps.lstm_step(
            states, both, cell.activation, cell.recurrent_activation
        )

    operands = Operands(
        {"sequence": sequence},
        {"inputs": kernel, "cell": recurrent_kernel},
        {"inputs": bias},
    )
    return step, operands, compaction.longest(keep)
