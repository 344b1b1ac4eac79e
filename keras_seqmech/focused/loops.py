r"""The loop behind both networks of `FocusedHierarchicalEncoder`.

The lower network reads every real step. The upper one moves on by its gates,

$$s_t = b_t\, \mathrm{LSTM}(x_t, s_{t-1}) + (1 - b_t)\, s_{t-1}.$$

Hard gates run over a layout of the open steps alone: a step that is not there
keeps the states. Soft ones, and the gradients of closed gates, need a candidate
at every step.
"""

from typing import NamedTuple

import keras
import tensorflow as tf
from keras import ops

from keras_seqmech.core import cells
from keras_seqmech.core.kept_steps import Layout
from keras_seqmech.core.kept_steps import Padded
from keras_seqmech.core.kept_steps import States
from keras_seqmech.core.kept_steps import layout_of
from keras_seqmech.core.loop import Named
from keras_seqmech.core.loop import ScanOptions
from keras_seqmech.core.loop import can_pack
from keras_seqmech.core.loop import scan
from keras_seqmech.typing import Tensor


class LoopOptions(NamedTuple):
    """Options of the loops.

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


def run_lower(
    cell: keras.layers.LSTMCell,
    sequence: Tensor,
    states: States,
    mask: Tensor | None,
    options: LoopOptions,
) -> tuple[Tensor, States]:
    """Runs the lower cell over real steps; see `_run`."""
    how = ScanOptions(options.training, options.jit_compile)
    layout = layout_of(mask, options.packed and can_pack(how))
    return _run(cell, sequence, states, layout, how)


def run_every(
    cell: keras.layers.LSTMCell,
    sequence: Tensor,
    gates: Tensor,
    states: States,
    options: LoopOptions,
) -> tuple[Tensor, States]:
    """Runs the upper cell at every step, by soft gates; see `_run`.

    The gates, `(batch, time)`, are from 0 to 1. All get a gradient, closed ones
    too.
    """
    how = ScanOptions(options.training, options.jit_compile)
    return _run(cell, sequence, states, Padded(), how, gates)


def run_open(
    cell: keras.layers.LSTMCell,
    sequence: Tensor,
    gates: Tensor,
    states: States,
    options: LoopOptions,
) -> tuple[Tensor, States]:
    """Runs the upper cell over the open steps of each row alone; see `_run`.

    The loop is packed, so that a row is done after its own open steps. Compiled
    with XLA it cannot be: there rows wait for the one with most open steps,
    arrays have room for all steps, and the loops, backward too, end after the
    open steps of that row. The loop is not compiled on its own, as the number
    of open steps differs from batch to batch.

    Gates are open above one half, and get no gradient.
    """
    how = ScanOptions(options.training)
    packs = options.packed and can_pack(how)
    layout = layout_of(gates > 0.5, packs, skips=True)
    return _run(cell, sequence, states, layout, how)


def _run(
    cell: keras.layers.LSTMCell,
    sequence: Tensor,
    states: States,
    layout: Layout,
    options: ScanOptions,
    gates: Tensor | None = None,
) -> tuple[Tensor, States]:
    """Runs a cell over the steps of a layout.

    Args:
        cell: A built cell.
        sequence: Finite tensor `(batch, time, features)`; for the upper network
            the lower states.
        states: The initial h and c, `(batch, units)` each.
        layout: The steps that move the states on; the others repeat them.
        options: How to run.
        gates: Soft gates `(batch, time)` of a padded layout, or None.

    Returns:
        The states h after every step, `(batch, time, units)`, and the final h
        and c.
    """
    dtype = sequence.dtype
    steps = layout.gather(sequence)
    ends_early = isinstance(layout, Padded) and layout.steps is not None
    run = cells.prepare(
        cell, steps, dtype, options.recompute_gradient, hoists=not ends_early
    )
    gate = None
    if gates is not None:
        gate = layout.gather(ops.cast(gates, dtype)[..., None])

    def step(operands: tuple, states: States) -> tuple[Named, States]:
        of_cell, gate = operands
        _, new = run.step(of_cell, states)
        if gate is not None:
            new = tuple(gate * a + (1 - gate) * b for a, b in zip(new, states))
        return {"hidden": new[0]}, new

    values, finals = scan(
        step,
        (run.operands, gate),
        tuple(tf.ensure_shape(x, (None, cell.units)) for x in states),
        {"hidden": layout.spec(steps, cell.units, dtype)},
        options,
        layout,
    )
    return layout.hold(values["hidden"], states[0]), finals
