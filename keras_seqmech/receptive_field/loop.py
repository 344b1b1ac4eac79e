"""The fast loop behind `ReceptiveFieldRNN`.

What a field reads depends on the state only through its size. So what `hoist`
computes (see `keras_seqmech.receptive_field.field`), and the products of the
cell with its inputs, are computed for all steps at once, in few large products;
the loop runs `field_step` and the rest of the cell.

Under a mask, if the loop can run packed, all of this is computed at real steps
only, and masked steps are inserted again after it.
"""

from typing import Any
from typing import NamedTuple

import tensorflow as tf
from keras import ops

from keras_seqmech.core import cells
from keras_seqmech.core.kept_steps import Packing
from keras_seqmech.core.scan.loop import scan
from keras_seqmech.core.scan.packed_loop import can_pack as scan_can_pack
from keras_seqmech.core.scan.protocol import Constant
from keras_seqmech.core.scan.protocol import Named
from keras_seqmech.core.scan.protocol import ScanOptions
from keras_seqmech.core.scan.protocol import States
from keras_seqmech.core.scan.protocol import Step
from keras_seqmech.receptive_field.cell import RFCell
from keras_seqmech.receptive_field.field import field_step
from keras_seqmech.receptive_field.field import forget
from keras_seqmech.receptive_field.field import hoist
from keras_seqmech.receptive_field.windows import FieldInputs
from keras_seqmech.receptive_field.windows import PackedFieldInputs
from keras_seqmech.typing import Tensor


class RunOptions(NamedTuple):
    """How a layer runs its loop.

    Attributes:
        training: Whether sizes are drawn and dropout is active.
        return_sequences: Whether to return every step, or the last only.
        return_choices: Whether to keep `selection` and `logits`.
        zero_output_for_mask: Whether masked steps return zeros; else they
            repeat the output before.
        jit_compile: Whether to compile the loop of a training step with XLA,
            where it has the recomputing gradient.
    """

    training: bool = False
    return_sequences: bool = False
    return_choices: bool = False
    zero_output_for_mask: bool = False
    jit_compile: bool = False

    def scan(self, cell: RFCell) -> ScanOptions:
        """How `scan` runs the loop of a cell."""
        recompute = self.training and cells.projects_before_loop(
            cell.cell, self.training
        )
        return ScanOptions(recompute, recompute and self.jit_compile)


class FieldRun(NamedTuple):
    """What the loop returns.

    Attributes:
        outputs: `(batch, time, units)`, or the last, `(batch, units)`.
        states: Flat tuple of final states.
        selection: Selected sizes `(steps, S)`, the steps those of the
            `FieldInputs`; None unless asked for, and where S is 1.
        logits: Size logits, in the same layout.
    """

    outputs: Tensor
    states: States
    selection: Tensor | None = None
    logits: Tensor | None = None


def can_pack(cell: RFCell, mask: Tensor | None, options: RunOptions) -> bool:
    """Whether the loop under a mask can run packed where this is called.

    A cell that is called step by step may hold tensors of the whole batch,
    such as dropout masks.
    """
    return (
        mask is not None
        and cells.projects_before_loop(cell.cell, options.training)
        and scan_can_pack(options.scan(cell))
    )


def run(
    cell: RFCell,
    field_inputs: FieldInputs,
    states: States,
    options: RunOptions,
    log_weight: Tensor | None = None,
) -> FieldRun:
    """Runs a built `RFCell` over whole sequences, packed only if `can_pack`.

    The initial states `(batch, size)` are flat; `log_weight` `(batch,)` is
    the weight of what is read, as decisions see it.
    """
    sizes = cells.flat_state_sizes(cell.cell)
    states = tuple(
        tf.ensure_shape(state, (None, size))
        for state, size in zip(states, sizes)
    )
    with cells.fresh_dropout(cell.cell):
        step, operands, specs = _prepare(
            cell, field_inputs, options, log_weight
        )
        how = options.scan(cell)
        if isinstance(field_inputs, PackedFieldInputs):
            packing = field_inputs.packing
            values, states = scan(
                step, operands, states, specs, how, packing=packing
            )
            outputs = _unpacked(values.pop("output"), packing, options)
            return FieldRun(outputs, states, **values)
        mask = field_inputs.mask
        if mask is not None:
            step = _masked_step(step, options.zero_output_for_mask)
            operands = operands, Constant(mask[..., None])
            shape = (field_inputs.padded_shape[1], cell.output_size)
            states = (tf.zeros(shape, cell.compute_dtype), *states)
        values, states = scan(step, operands, states, specs, how)
        outputs = values.pop("output")
        if options.return_sequences:
            outputs = ops.transpose(outputs, (1, 0, 2))
        else:
            outputs = outputs[-1]
        states = states if mask is None else states[1:]
        return FieldRun(outputs, states, **values)


def _prepare(
    cell: RFCell,
    field_inputs: FieldInputs,
    options: RunOptions,
    log_weight: Tensor | None,
) -> tuple[Step, Any, dict[str, tf.TensorSpec]]:
    """Computes what is hoisted out of the loop, and makes the step.

    Returns:
        The step at a real time step, its operands, and the shapes and dtypes
        of its outputs.
    """
    steps, dtype = field_inputs.steps, cell.compute_dtype
    if options.training:
        _, batch_size = field_inputs.padded_shape
        features = steps.shape[-1]
        cells.draw_dropout(cell.cell, batch_size, features, dtype)
    wrapped = cells.prepare(cell.cell, steps, dtype, options.training)
    field = cell.field(options.training)
    shape = (*field_inputs.padded_shape, cell.max_size)
    noise = cell.sample_noise(shape, options.training)
    if log_weight is not None:
        by_step = tf.broadcast_to(log_weight, field_inputs.padded_shape)
        log_weight = field_inputs.take(by_step[..., None])
    hoisted = hoist(
        field,
        steps,
        field_inputs.ahead(field.offsets(steps)),
        field_inputs.validity,
        None if noise is None else field_inputs.take(noise),
        log_weight,
    )
    specs = {"output": field_inputs.spec(cell.output_size, dtype)}
    if options.return_choices and cell.max_size > 1:
        choice = field_inputs.spec(cell.max_size, cell.score_dtype)
        specs |= {"selection": choice, "logits": choice}

    def step(operands: tuple, states: States) -> tuple[Named, States]:
        of_field, of_cell = operands
        chosen = field_step(field, of_field, states[0])
        states = tuple(forget(chosen.gate, states, cell.gated_state))
        output, states = wrapped.step(of_cell, states)
        values = {"output": output, **chosen._asdict()}
        return {name: values[name] for name in specs}, states

    return step, (hoisted, wrapped.operands), specs


def _unpacked(output: Tensor, packing: Packing, options: RunOptions) -> Tensor:
    """The outputs of real steps, with the masked ones inserted again."""
    if options.zero_output_for_mask:
        outputs = packing.scatter(output)
        return outputs if options.return_sequences else outputs[:, -1]
    before_first = tf.zeros(
        (tf.shape(packing.keep)[0], output.shape[-1]), output.dtype
    )
    if options.return_sequences:
        return packing.hold(output, before_first)
    return packing.final(output, before_first)


def _masked_step(step: Step, zero_output: bool) -> Step:
    """A step that does not change the states of masked rows.

    Their output is zeros, or else the one before, the first of the states.
    """

    def masked_step(operands: tuple, states: States) -> tuple[Named, States]:
        operands, mask = operands
        before, *held = states
        values, new = step(operands, tuple(held))
        new = tuple(tf.where(mask, a, b) for a, b in zip(new, held))
        otherwise = tf.zeros_like(before) if zero_output else before
        output = tf.where(mask, values["output"], otherwise)
        return {**values, "output": output}, (output, *new)

    return masked_step
