"""The two loops behind `FocusedHierarchicalEncoder`.

The lower network reads every step. The upper one has two implementations with
the same results: `run_open` runs over the steps whose gates are open alone,
and repeats the states at the others; `run_every` computes a candidate at every
step and blends it in by the gate, as soft gates and the gradients of closed
gates need it.

All take a built `LSTMCell`, a finite sequence `(batch, time, features)`, which
for the upper network holds the lower states, and the initial h and c, `(batch,
units)` each. They return the states h after every step, `(batch, time, units)`,
and the final h and c.
"""

from typing import Any
from typing import NamedTuple

import keras
import tensorflow as tf
from keras import ops

from keras_seqmech._keras_compat import in_xla
from keras_seqmech.core import cells
from keras_seqmech.core.kept_steps import compact
from keras_seqmech.core.kept_steps import longest
from keras_seqmech.core.kept_steps import pack
from keras_seqmech.core.scan.loop import scan
from keras_seqmech.core.scan.packed_loop import can_pack
from keras_seqmech.core.scan.protocol import Constant
from keras_seqmech.core.scan.protocol import Named
from keras_seqmech.core.scan.protocol import Product
from keras_seqmech.core.scan.protocol import ScanOptions
from keras_seqmech.core.scan.protocol import States
from keras_seqmech.typing import Tensor


class LoopOptions(NamedTuple):
    """How the loops run.

    Attributes:
        training: Whether to use the recomputing gradient.
        jit_compile: Whether to compile the loops over all steps with XLA where
            the code around them is not.
        packed: Whether loops of rows that differ, by masks or hard gates, run
            packed where they can.
    """

    training: bool = False
    jit_compile: bool = False
    packed: bool = True

    @property
    def scan(self) -> ScanOptions:
        """Options of `scan` for a loop over all steps."""
        return ScanOptions(
            recompute_gradient=self.training, jit_compile=self.jit_compile
        )


def run_lower(
    cell: keras.layers.LSTMCell,
    sequence: Tensor,
    states: States,
    mask: Tensor | None,
    options: LoopOptions,
) -> tuple[Tensor, States]:
    """Runs the lower cell over all steps; masked ones keep the states."""
    if mask is not None and options.packed and can_pack(options.scan):
        return _run_packed(cell, sequence, mask, states, options.scan)
    return run_every(cell, sequence, mask, states, options)


def run_every(
    cell: keras.layers.LSTMCell,
    sequence: Tensor,
    gates: Tensor | None,
    states: States,
    options: LoopOptions,
) -> tuple[Tensor, States]:
    """Runs a cell at every step: state = b * new + (1 - b) * old.

    The gates b, `(batch, time)`, are boolean, or from 0 to 1, where all get a
    gradient, closed ones too; 1 if None.
    """
    dtype = sequence.dtype
    by_step = ops.transpose(sequence, (1, 0, 2))
    run = cells.prepare(cell, by_step, dtype, options.training)
    gate = blend = None
    if gates is not None:
        by_step = ops.transpose(gates)[..., None]
        if gates.dtype == tf.bool:
            gate, blend = Constant(by_step), tf.where
        else:
            gate, blend = ops.cast(by_step, dtype), _blend

    def step(operands: tuple, states: States) -> tuple[Named, States]:
        of_cell, gate = operands
        _, new = run.step(of_cell, states)
        if blend is not None:
            new = tuple(blend(gate, a, b) for a, b in zip(new, states))
        return {"hidden": new[0]}, new

    values, states = scan(
        step,
        (run.operands, gate),
        states,
        {"hidden": tf.TensorSpec((sequence.shape[0], cell.units), dtype)},
        options.scan,
    )
    return ops.transpose(values["hidden"], (1, 0, 2)), states


def _blend(gate: Tensor, new: Tensor, old: Tensor) -> Tensor:
    return gate * new + (1 - gate) * old


def run_open(
    cell: keras.layers.LSTMCell,
    sequence: Tensor,
    gates: Tensor,
    states: States,
    options: LoopOptions,
) -> tuple[Tensor, States]:
    """Runs the upper cell over the open steps of each row alone.

    The loop is packed, so that a row is done after its own open steps. Compiled
    with XLA it cannot be: there rows wait for the one with most open steps,
    arrays have room for all steps, and the loops, backward too, end after the
    open steps of that row. The loop is not compiled on its own, as the number
    of open steps differs from batch to batch.

    Gates are open above one half, and get no gradient.
    """
    packed = options.packed and can_pack()
    run = _run_packed if packed else _run_compacted
    loop = ScanOptions(recompute_gradient=options.training)
    return run(cell, sequence, gates > 0.5, states, loop)


def _run_packed(
    cell: keras.layers.LSTMCell,
    sequence: Tensor,
    keep: Tensor,
    states: States,
    options: ScanOptions,
) -> tuple[Tensor, States]:
    """Runs a cell over kept steps alone; the others repeat the states."""
    packing = pack(keep)
    run = cells.prepare(
        cell,
        packing.gather(sequence),
        sequence.dtype,
        options.recompute_gradient,
    )

    def step(operands: Any, states: States) -> tuple[Named, States]:
        _, states = run.step(operands, states)
        return {"hidden": states[0]}, states

    initial = tuple(tf.ensure_shape(x, (None, cell.units)) for x in states)
    values, finals = scan(
        step,
        run.operands,
        initial,
        {"hidden": tf.TensorSpec((None, cell.units), sequence.dtype)},
        options,
        packing=packing,
    )
    return packing.hold(values["hidden"], states[0]), finals


def _run_compacted(
    cell: keras.layers.LSTMCell,
    sequence: Tensor,
    keep: Tensor,
    states: States,
    options: ScanOptions,
) -> tuple[Tensor, States]:
    """As `_run_packed`, with padding after each row's kept steps."""
    kept = compact(keep)
    by_step = ops.transpose(kept.gather(sequence), (1, 0, 2))
    if in_xla():
        run = _project_in_loop(cell, by_step)
        options = options._replace(steps=longest(keep))
    else:
        run = cells.prepare(
            cell, by_step, sequence.dtype, options.recompute_gradient
        )

    def step(operands: Any, states: States) -> tuple[Named, States]:
        _, states = run.step(operands, states)
        return {"hidden": states[0], "carry": states[1]}, states

    spec = tf.TensorSpec((sequence.shape[0], cell.units), sequence.dtype)
    # Rows with fewer kept steps go on past their last.
    values, _ = scan(
        step, run.operands, states, {"hidden": spec, "carry": spec}, options
    )
    hidden = ops.transpose(values["hidden"], (1, 0, 2))
    carry = ops.transpose(values["carry"], (1, 0, 2))
    finals = kept.final(hidden, states[0]), kept.final(carry, states[1])
    return kept.hold(hidden, states[0]), finals


def _project_in_loop(
    cell: keras.layers.LSTMCell, sequence: Tensor
) -> cells.CellRun:
    """A cell whose step computes the products with its inputs itself.

    Compiled with XLA, arrays have room for all steps: products before the loop
    would be computed for all of them.
    """
    kernel, recurrent_kernel, bias = (
        ops.cast(variable, sequence.dtype)
        for variable in (cell.kernel, cell.recurrent_kernel, cell.bias)
    )

    def step(operands: tuple, states: States) -> tuple[Tensor, States]:
        inputs, project, multiply = operands
        (projected,) = project(inputs)

        def both(hidden: Tensor) -> list[Tensor]:
            (product,) = multiply(hidden)
            return tf.split(projected + product, 4, axis=-1)

        return cells.lstm_step(cell, both, states)

    products = Product(kernel, bias=bias), Product(recurrent_kernel)
    return cells.CellRun((sequence, *products), step)
