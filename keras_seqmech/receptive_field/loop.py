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

import tensorflow as tf
from keras import ops

from keras_seqmech.core import cells
from keras_seqmech.core import numerics
from keras_seqmech.core.decisions import categorical
from keras_seqmech.core.scan.loop import scan
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
from keras_seqmech.receptive_field.windows import PaddedFieldInputs
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
        logits: Size logits, likewise.
    """

    outputs: Tensor
    states: States
    selection: Tensor | None = None
    logits: Tensor | None = None


class FieldLoop(NamedTuple):
    """A loop that is ready to run.

    Attributes:
        step: The step at a real time step.
        operands: The operands of the step.
        specs: Shapes and dtypes of its outputs, by name.
        options: How to run.
    """

    step: Step
    operands: Operands
    specs: dict[str, tf.TensorSpec]
    options: ScanOptions


class FieldPart(NamedTuple):
    """The field's part of a step.

    Attributes:
        operands: The operands of this part.
        gate: Function `(inputs_t, hidden, affine) -> (gate, choices)`.
        choices: Shapes and dtypes of one step's choices, by name.
    """

    operands: Operands
    gate: Callable[[Named, Tensor, Affine], tuple[Tensor, Named]]
    choices: dict[str, tf.TensorSpec] = {}


class Reader(NamedTuple):
    """The part of a step that reads a field of the selected size.

    Attributes:
        operands: The operands of this part.
        read: Function `(inputs_t, selection, affine) -> summary`.
        states: $m_1..m_S$ of all steps, if they are computed before the loop.
    """

    operands: Operands
    read: Callable[[Named, Tensor, Affine], Tensor]
    states: list[Tensor] = []


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
    field_inputs: PaddedFieldInputs | PackedFieldInputs,
    states: States,
    options: RunOptions,
) -> FieldRun:
    """Runs an `RFCell` over whole sequences.

    Args:
        cell: A built `RFCell`.
        field_inputs: What its fields can read; packed only if `can_pack`.
        states: Initial states, flat, `(batch, size)` each.
        options: How to run.

    Returns:
        A `FieldRun`.
    """
    sizes = cells.flat_state_sizes(cell.cell)
    states = tuple(
        tf.ensure_shape(state, (None, size))
        for state, size in zip(states, sizes)
    )
    with cells.fresh_dropout(cell.cell):
        loop = _prepare(cell, field_inputs, options)
        if isinstance(field_inputs, PackedFieldInputs):
            return _run_packed(loop, field_inputs, states, options)
        return _run_padded(loop, field_inputs, states, options)


def _prepare(
    cell: RFCell, field_inputs: FieldInputs, options: RunOptions
) -> FieldLoop:
    """Computes what is hoisted out of the loop, and makes the step."""
    current, dtype = field_inputs.current, cell.compute_dtype
    if options.training:
        _, batch_size = field_inputs.padded_shape
        features = current.shape[-1]
        cells.draw_dropout(cell.cell, batch_size, features, dtype)
    inner = cells.prepare(cell.cell, current, dtype, options.training)
    field = _field_part(cell, field_inputs, options.training)
    choices = field.choices if options.return_choices else {}
    return FieldLoop(
        _gated_step(field, inner, cell.gated_states, choices),
        field.operands.joined(inner.operands),
        {"output": field_inputs.spec(cell.output_size, dtype), **choices},
        options.scan(cell),
    )


def _run_packed(
    loop: FieldLoop,
    field_inputs: PackedFieldInputs,
    states: States,
    options: RunOptions,
) -> FieldRun:
    """Runs over the real steps, then inserts the masked ones again."""
    packing = field_inputs.packing
    step, operands, specs, scan_options = loop
    values, states = scan(
        step, operands, states, specs, scan_options, packing=packing
    )
    output = values.pop("output")
    if options.zero_output_for_mask:
        outputs = packing.scatter(output)
        outputs = outputs if options.return_sequences else outputs[:, -1]
    else:
        bring_back = packing.hold if options.return_sequences else packing.final
        width = output.shape[-1]
        before_first = tf.zeros(
            (field_inputs.padded_shape[1], width), output.dtype
        )
        outputs = bring_back(output, before_first)
    return FieldRun(outputs, states, **values)


def _run_padded(
    loop: FieldLoop,
    field_inputs: PaddedFieldInputs,
    states: States,
    options: RunOptions,
) -> FieldRun:
    """Runs over all steps; masked ones do not change the states."""
    step, operands, specs, scan_options = loop
    repeats = False
    if field_inputs.mask is not None:
        repeats = not options.zero_output_for_mask
        step = _masked_step(step, repeats)
        mask = {"mask": field_inputs.mask[..., None]}
        operands = operands.joined(Operands({}, constants=mask))
    if repeats:
        width, dtype = specs["output"].shape[-1], specs["output"].dtype
        before_first = tf.zeros((field_inputs.padded_shape[1], width), dtype)
        states = (before_first, *states)
    values, states = scan(step, operands, states, specs, scan_options)
    states = states[1:] if repeats else states
    outputs = values.pop("output")
    if options.return_sequences:
        outputs = ops.transpose(outputs, (1, 0, 2))
    else:
        outputs = outputs[-1]
    return FieldRun(outputs, states, **values)


def _gated_step(
    field: FieldPart,
    inner: cells.CellRun,
    gated: tuple[int, ...],
    choices: dict[str, tf.TensorSpec],
) -> Step:
    """One time step: choose a field, read it, gate, move the cell on."""

    def step(
        inputs: Named, states: States, affine: Affine
    ) -> tuple[Named, States]:
        gate, chosen = field.gate(inputs, states[0], affine)
        states = tuple(forget(gate, states, gated))
        output, states = inner.step(inputs, states, affine)
        kept = {name: chosen[name] for name in choices}
        return {"output": output, **kept}, states

    return step


def _masked_step(step: Step, repeats: bool) -> Step:
    """A step that does not change the states of masked rows.

    Their output is zeros, or with `repeats` the one before, which is then the
    first of the states.
    """

    def masked_step(
        inputs: Named, states: States, affine: Affine
    ) -> tuple[Named, States]:
        mask = inputs["mask"]
        if repeats:
            otherwise, *held = states
        else:
            held = list(states)
        values, new_states = step(inputs, tuple(held), affine)
        new_states = tuple(
            tf.where(mask, new, old) for new, old in zip(new_states, held)
        )
        output = values["output"]
        if not repeats:
            otherwise = tf.zeros_like(output)
        output = tf.where(mask, output, otherwise)
        if repeats:
            new_states = (output, *new_states)
        return {**values, "output": output}, new_states

    return masked_step


def _field_part(
    cell: RFCell, field_inputs: FieldInputs, training: bool
) -> FieldPart:
    """The field's products with the inputs, and its part of a step."""
    equations = cell.equations(training)
    views = field_inputs.ahead(equations.offsets(field_inputs.steps))
    if cell.max_size == 1:
        return _field_of_one(equations, views[0])
    make = _soft_reader if equations.reads_softly else _whole_reader
    reader = make(equations, views, field_inputs.validity)

    weights = equations.weights
    strength = weights.forget_strength
    noise = cell.sample_noise(
        (*field_inputs.padded_shape, cell.max_size), training
    )
    operands = Operands(
        {"size": [equations.size_scores(field_inputs.current, reader.states)]},
        {
            "size": weights.size_recurrent_kernel,
            "forget": weights.forget_kernel,
            **({} if strength is None else {"strength": strength}),
        },
        {"forget": weights.forget_bias},
        _constants(
            equations.position_mask(field_inputs.validity),
            None if noise is None else field_inputs.take(noise),
        ),
    )

    def gate(
        inputs: Named, hidden: Tensor, affine: Affine
    ) -> tuple[Tensor, Named]:
        (scores,) = affine("size", ops.cast(hidden, cell.score_dtype))
        mask = None
        if "log_mask" in inputs:
            mask = categorical.ValueMask(
                inputs["log_mask"], inputs["is_choice"]
            )
        logits = equations.size_logits(scores, mask)
        selection = equations.select(logits, inputs.get("noise"))
        summary = reader.read(inputs, selection, affine)
        (pre_activation,) = affine("forget", summary)
        choices = {"selection": selection, "logits": logits}
        if strength is None:
            return ops.sigmoid(pre_activation), choices
        (forgotten,) = affine("strength", ops.sigmoid(-pre_activation))
        return 1 - forgotten, choices

    spec = field_inputs.spec(cell.max_size, cell.score_dtype)
    return FieldPart(
        operands.joined(reader.operands),
        gate,
        {"selection": spec, "logits": spec},
    )


def _constants(
    mask: categorical.ValueMask | None, noise: Tensor | None
) -> Named:
    """The operands of choosing a size that need no gradient."""
    constants = {} if mask is None else dict(mask._asdict())
    if noise is not None:
        constants["noise"] = noise
    return constants


def _field_of_one(equations: FieldEquations, offsets: Tensor) -> FieldPart:
    """Fields of the current step alone: gates are computed before the loop."""
    gates = equations.gate(equations.options.activation(offsets))

    def gate(
        inputs: Named, hidden: Tensor, affine: Affine
    ) -> tuple[Tensor, Named]:
        return inputs["gate"], {}

    return FieldPart(Operands({"gate": gates}), gate)


def _soft_reader(
    equations: FieldEquations, offsets: list[Tensor], validity: Tensor
) -> Reader:
    """Reads under a soft mask, which depends on the state, in the loop."""
    activation = equations.options.activation
    kernel = equations.weights.recurrent_kernel
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
        inputs[f"field_{i}"] = [offsets[i]]
        weights[f"field_{i}"] = kernel
    score_dtype = equations.weights.size_kernel.dtype
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
            (pre_activation,) = affine(f"field_{i}", state)
            return activation(pre_activation)

        return soft_summary(
            inputs["first"], candidate, keep, equations.options.summary
        )

    return Reader(Operands(inputs, weights, constants=constants), read)


def _whole_reader(
    equations: FieldEquations, offsets: list[Tensor], validity: Tensor
) -> Reader:
    """Reads fields of all sizes before the loop, which only selects."""
    states = equations.states(offsets, validity)
    summaries = equations.summaries(states, validity)

    def read(inputs: Named, selection: Tensor, affine: Affine) -> Tensor:
        return equations.selected(selection, inputs["summaries"])

    return Reader(Operands({"summaries": summaries}), read, states)
