"""The fast loop behind `ReceptiveFieldRNN`.

What a field reads depends on the state only through its size. So all products
with the inputs are hoisted out of the loop, and with them:

- where fields are read softly (eq. 6): the first two inner states, which no
  mask touches, and their products; from the third on the inner network stays
  in the loop;
- elsewhere: the whole inner network. What a field of each size reads is
  computed for all steps at once, S large products, and so are the inner
  states' parts of stop logits; the loop only selects.

Under a mask, if the loop can run packed, all of this is computed at real steps
only, and masked steps are inserted again after it.
"""

from collections.abc import Callable
from typing import NamedTuple
from typing import TypeAlias

import tensorflow as tf
from keras import ops

from keras_seqmech.core import cells
from keras_seqmech.core import numerics
from keras_seqmech.core.decisions.categorical import ValueMask
from keras_seqmech.core.scan.loop import scan
from keras_seqmech.core.scan.packing import Packing
from keras_seqmech.core.scan.packing import can_pack as scan_can_pack
from keras_seqmech.core.scan.protocol import Affine
from keras_seqmech.core.scan.protocol import Named
from keras_seqmech.core.scan.protocol import Operands
from keras_seqmech.core.scan.protocol import ScanOptions
from keras_seqmech.core.scan.protocol import States
from keras_seqmech.core.scan.protocol import Step
from keras_seqmech.receptive_field.cell import RFCell
from keras_seqmech.receptive_field.equations import FieldEquations
from keras_seqmech.receptive_field.equations import forget
from keras_seqmech.receptive_field.equations import keep_weights
from keras_seqmech.receptive_field.equations import soft_summary
from keras_seqmech.receptive_field.windows import FieldInputs
from keras_seqmech.receptive_field.windows import PackedFieldInputs
from keras_seqmech.receptive_field.windows import Sequences
from keras_seqmech.typing import Tensor


class RunOptions(NamedTuple):
    """How a layer runs its loop.

    Attributes:
        training: Whether sizes are drawn and dropout is active.
        return_sequences: Whether to return every step, or the last only.
        return_choices: Whether to keep `selection` and `logits`.
        zero_output_for_mask: Whether masked steps return zeros; else they
            repeat the output before.
        unroll: Whether to write the steps out.
        jit_compile: Whether to compile the loop of a training step with XLA,
            where it has the recomputing gradient.
    """

    training: bool = False
    return_sequences: bool = False
    return_choices: bool = False
    zero_output_for_mask: bool = False
    unroll: bool = False
    jit_compile: bool = False

    def scan(self, cell: RFCell) -> ScanOptions:
        """How `scan` runs the loop of a cell."""
        recompute = self.training and cells.projects_before_loop(
            cell.cell, self.training
        )
        return ScanOptions(
            recompute, recompute and self.jit_compile, self.unroll
        )


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


# `(inputs_t, hidden, affine)` to the gate and the choices, by name; and
# `(inputs_t, selection, affine)` to what a field of the selected size reads.
GateStep: TypeAlias = Callable[[Named, Tensor, Affine], tuple[Tensor, Named]]
Read: TypeAlias = Callable[[Named, Tensor, Affine], Tensor]


def can_pack(cell: RFCell, sequences: Sequences, options: RunOptions) -> bool:
    """Whether the loop over sequences can run packed where this is called.

    A cell that is called step by step may hold tensors of the whole batch,
    such as dropout masks.
    """
    return (
        sequences.mask is not None
        and cells.projects_before_loop(cell.cell, options.training)
        and scan_can_pack(options.scan(cell))
    )


def run(
    cell: RFCell,
    field_inputs: FieldInputs,
    states: States,
    options: RunOptions,
) -> FieldRun:
    """Runs a built `RFCell` over whole sequences, packed only if `can_pack`.

    The initial states `(batch, size)` are flat.
    """
    sizes = cells.flat_state_sizes(cell.cell)
    states = tuple(
        tf.ensure_shape(state, (None, size))
        for state, size in zip(states, sizes)
    )
    with cells.fresh_dropout(cell.cell):
        step, operands, specs = _prepare(cell, field_inputs, options)
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
            constants = {"mask": mask[..., None]}
            operands = operands.joined(Operands({}, constants=constants))
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
    cell: RFCell, field_inputs: FieldInputs, options: RunOptions
) -> tuple[Step, Operands, dict[str, tf.TensorSpec]]:
    """Computes what is hoisted out of the loop, and makes the step.

    Returns:
        The step at a real time step, its operands, and the shapes and dtypes
        of its outputs.
    """
    current, dtype = field_inputs.current, cell.compute_dtype
    if options.training:
        _, batch_size = field_inputs.padded_shape
        features = current.shape[-1]
        cells.draw_dropout(cell.cell, batch_size, features, dtype)
    wrapped = cells.prepare(cell.cell, current, dtype, options.training)
    operands, gate_step = _prepare_gate(cell, field_inputs, options.training)
    specs = {"output": field_inputs.spec(cell.output_size, dtype)}
    if options.return_choices and cell.max_size > 1:
        choice = field_inputs.spec(cell.max_size, cell.score_dtype)
        specs |= {"selection": choice, "logits": choice}

    def step(
        inputs: Named, states: States, affine: Affine
    ) -> tuple[Named, States]:
        gate, choices = gate_step(inputs, states[0], affine)
        states = tuple(forget(gate, states, cell.gated_states))
        output, states = wrapped.step(inputs, states, affine)
        values = {"output": output, **choices}
        return {name: values[name] for name in specs}, states

    return step, operands.joined(wrapped.operands), specs


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

    def masked_step(
        inputs: Named, states: States, affine: Affine
    ) -> tuple[Named, States]:
        mask = inputs["mask"]
        before, *held = states
        values, new = step(inputs, tuple(held), affine)
        new = tuple(tf.where(mask, a, b) for a, b in zip(new, held))
        otherwise = tf.zeros_like(before) if zero_output else before
        output = tf.where(mask, values["output"], otherwise)
        return {**values, "output": output}, (output, *new)

    return masked_step


def _prepare_gate(
    cell: RFCell, field_inputs: FieldInputs, training: bool
) -> tuple[Operands, GateStep]:
    """The field's products with the inputs, and its part of a step."""
    equations = cell.equations(training)
    validity = field_inputs.validity
    views = field_inputs.ahead(equations.offsets(field_inputs.steps))
    if cell.max_size == 1:
        # Fields of the current step alone: gates are computed before the loop.
        gates = Operands({"gate": equations.gate(cell.activation(views[0]))})
        return gates, lambda inputs, *_: (inputs["gate"], {})
    states: list[Tensor] = []
    if equations.reads_softly:
        reader_operands, read = _soft_reader(equations, views, validity)
    else:
        states = equations.states(views, validity)
        summaries = equations.summaries(states, validity)
        reader_operands = Operands({"summaries": summaries})

        def read(inputs: Named, selection: Tensor, affine: Affine) -> Tensor:
            return equations.selected(selection, inputs["summaries"])

    strength = equations.forget_strength
    weights = {
        "size_recurrent_kernel": equations.size_recurrent_kernel,
        "forget_kernel": equations.forget_kernel,
    }
    if strength is not None:
        weights["forget_strength"] = strength
    mask = equations.position_mask(validity)
    constants = {} if mask is None else mask._asdict()
    noise = cell.sample_noise(
        (*field_inputs.padded_shape, cell.max_size), training
    )
    if noise is not None:
        constants["noise"] = field_inputs.take(noise)
    size_scores = equations.size_scores(field_inputs.current, states)
    operands = Operands(
        inputs={"size_recurrent_kernel": [size_scores]},
        weights=weights,
        biases={"forget_kernel": equations.forget_bias},
        constants=constants,
    )

    def gate_step(
        inputs: Named, hidden: Tensor, affine: Affine
    ) -> tuple[Tensor, Named]:
        (scores,) = affine(
            "size_recurrent_kernel", ops.cast(hidden, cell.score_dtype)
        )
        exist = None
        if mask is not None:
            exist = ValueMask(inputs["log_mask"], inputs["is_choice"])
        logits = equations.size_logits(scores, exist)
        selection = equations.select(logits, inputs.get("noise"))
        (pre_activation,) = affine(
            "forget_kernel", read(inputs, selection, affine)
        )
        choices = {"selection": selection, "logits": logits}
        if strength is None:
            return ops.sigmoid(pre_activation), choices
        (forgotten,) = affine("forget_strength", ops.sigmoid(-pre_activation))
        return 1 - forgotten, choices

    return operands.joined(reader_operands), gate_step


def _soft_reader(
    equations: FieldEquations, offsets: list[Tensor], validity: Tensor
) -> tuple[Operands, Read]:
    """Reads under a soft mask, which depends on the state, in the loop."""
    activation = equations.cell.activation
    kernel = equations.recurrent_kernel
    first = activation(offsets[0])
    first_product = numerics.product(first, kernel)
    second = activation(offsets[1] + first_product)
    inputs = {"first": first, "second": second}
    weights = {}
    if len(offsets) > 2:
        # m_2 lies between m_1 and c_2, and so does its product with U_m.
        inputs["third_offset"] = offsets[2] + first_product
        inputs["third_slope"] = numerics.product(second, kernel) - first_product
    for i in range(3, len(offsets)):
        inputs[f"field_recurrent_kernel_{i}"] = [offsets[i]]
        weights[f"field_recurrent_kernel_{i}"] = kernel
    score_dtype = equations.size_kernel.dtype
    constants = {"validity": ops.cast(validity, score_dtype)}

    def read(inputs: Named, selection: Tensor, affine: Affine) -> Tensor:
        validity = inputs["validity"]
        keep = keep_weights(selection, validity)

        def candidate(i: int, state: Tensor) -> Tensor:
            if i == 1:
                return inputs["second"]
            if i == 2:
                slope = ops.cast(keep[:, 1:2], state.dtype)
                return activation(
                    inputs["third_offset"] + slope * inputs["third_slope"]
                )
            (pre_activation,) = affine(f"field_recurrent_kernel_{i}", state)
            return activation(pre_activation)

        return soft_summary(
            inputs["first"], candidate, keep, equations.cell.summary
        )

    return Operands(inputs, weights, constants=constants), read
