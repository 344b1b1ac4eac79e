"""The fast loop behind `ReceptiveFieldRNN`.

What a field reads depends on the state only through its size. So what `hoist`
computes (see `keras_seqmech.receptive_field.field`), and the products of the
cell with its inputs, are computed for all steps at once, in few large products;
the loop runs `field_step` and the rest of the cell.

Under a mask, if the loop can run packed, all of this is computed at real steps
only, and masked steps are inserted again after it.
"""

from typing import NamedTuple

import tensorflow as tf
from keras import ops

from keras_seqmech.core import cells
from keras_seqmech.core.kept_steps import Layout
from keras_seqmech.core.kept_steps import States
from keras_seqmech.core.kept_steps import layout_of
from keras_seqmech.core.loop import Named
from keras_seqmech.core.loop import ScanOptions
from keras_seqmech.core.loop import can_pack
from keras_seqmech.core.loop import scan
from keras_seqmech.receptive_field.ahead import views_of
from keras_seqmech.receptive_field.ahead import within
from keras_seqmech.receptive_field.cell import RFCell
from keras_seqmech.receptive_field.field import field_step
from keras_seqmech.receptive_field.field import forget
from keras_seqmech.receptive_field.field import hoist
from keras_seqmech.typing import Tensor


class RunOptions(NamedTuple):
    """Options of a layer's loop.

    Attributes:
        training: Whether sizes are drawn and dropout is active.
        return_choices: Whether to keep `selection` and `logits`.
        packed: Whether the loop under a mask runs packed where it can.
        jit_compile: Whether to compile the loop of a training step with XLA,
            where it has the recomputing gradient.
    """

    training: bool = False
    return_choices: bool = False
    packed: bool = True
    jit_compile: bool = False


class Request(NamedTuple):
    """What a call may choose, beside its sequence.

    Attributes:
        log_weight: Tensor `(batch,)`: the weight of what is read, as decisions
            see it; or None.
        limit: Int tensor `(batch, 1 or time)`: the most further steps that a
            step reads; or None.
    """

    log_weight: Tensor | None = None
    limit: Tensor | None = None


class FieldRun(NamedTuple):
    """Results of the loop, in a layout.

    Attributes:
        layout: The real steps.
        outputs: The cell's outputs.
        states: Flat tuple of final states `(batch, size)`.
        validity: Whether each position of a field exists and is real, `(...,
            S)`.
        allowed: Whether it is within the limit, too.
        selection: Selected sizes `(..., S)`; None unless asked for, and where
            S is 1.
        logits: Size logits, likewise.
    """

    layout: Layout
    outputs: Tensor
    states: States
    validity: Tensor
    allowed: Tensor
    selection: Tensor | None = None
    logits: Tensor | None = None


def run(
    cell: RFCell,
    sequence: Tensor,
    mask: Tensor | None,
    states: States,
    options: RunOptions,
    request: Request,
) -> FieldRun:
    """Runs a built `RFCell` over the real steps of `(batch, time, features)`.

    The initial states `(batch, size)` are flat.
    """
    hoists = cells.projects_before_loop(cell.cell, options.training)
    recomputes = options.training and hoists
    how = ScanOptions(recomputes, recomputes and options.jit_compile)
    # A cell that is called step by step may hold tensors of the whole batch,
    # such as dropout masks.
    packs = options.packed and hoists and can_pack(how)
    if mask is not None:
        # Static sizes of the steps hold for the mask too.
        mask = tf.ensure_shape(mask, sequence.shape[:2])
    layout = layout_of(mask, packs)
    steps = layout.gather(sequence)
    views = views_of(layout, steps, cell.max_size)
    dtype = cell.compute_dtype
    states = tuple(
        tf.ensure_shape(state, (None, size))
        for state, size in zip(states, cells.flat_state_sizes(cell.cell))
    )
    specs = {"output": layout.spec(steps, cell.output_size, dtype)}
    if options.return_choices and cell.max_size > 1:
        choice = layout.spec(steps, cell.max_size, cell.score_dtype)
        specs |= {"selection": choice, "logits": choice}
    field = cell.field(options.training)

    def step(operands: tuple, states: States) -> tuple[Named, States]:
        of_field, of_cell = operands
        chosen = field_step(field, of_field, states[0])
        states = tuple(forget(chosen.gate, states, cell.gated_state))
        output, states = wrapped.step(of_cell, states)
        values = {"output": output, **chosen._asdict()}
        return {name: values[name] for name in specs}, states

    batch_size, length, features = ops.shape(sequence)
    with cells.fresh_dropout(cell.cell):
        if options.training:
            cells.draw_dropout(cell.cell, batch_size, features, dtype)
        wrapped = cells.prepare(cell.cell, steps, dtype, options.training)
        # Noise is drawn time first, whatever the layout.
        shape = (length, batch_size, cell.max_size)
        noise = cell.sample_noise(shape, options.training)
        if noise is not None:
            noise = layout.gather(ops.swapaxes(noise, 0, 1))

        def of_steps(values: Tensor, width: int) -> Tensor:
            """Values `(batch, 1 or time, width)` in the layout."""
            shape = (batch_size, length, width)
            return layout.gather(tf.broadcast_to(values, shape))

        log_weight, allowed = request.log_weight, views.validity
        if log_weight is not None:
            log_weight = of_steps(log_weight[:, None, None], 1)
        if request.limit is not None:
            is_within = within(request.limit, cell.max_size)
            allowed &= of_steps(is_within, cell.max_size)
        hoisted = hoist(
            field,
            steps,
            views.of(field.offsets(steps)),
            allowed,
            noise,
            log_weight,
        )
        operands = hoisted, wrapped.operands
        values, states = scan(step, operands, states, specs, how, layout)
    outputs = values.pop("output")
    return FieldRun(layout, outputs, states, views.validity, allowed, **values)
