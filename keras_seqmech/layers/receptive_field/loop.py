"""The fast loop behind `ReceptiveFieldRNN`.

What a field reads depends on the state only through its size. So all products
with the inputs leave the loop, and with them:

- soft sizes: the first two inner states, which no mask touches, and their
  products; from the third on the inner network stays in the loop;
- drawn sizes: the whole inner network. What a field of each size reads is
  computed for all steps at once, S large products, and the loop only selects.
"""

from collections.abc import Callable
from typing import Any
from typing import NamedTuple

import tensorflow as tf
from keras import ops

from keras_seqmech.layers import cell_adapters
from keras_seqmech.ops import masking
from keras_seqmech.ops import receptive_field
from keras_seqmech.ops import windows
from keras_seqmech.ops.scan import Operands
from keras_seqmech.ops.scan import ScanOptions
from keras_seqmech.ops.scan import scan


class FieldRun(NamedTuple):
    """The field's part of the loop.

    Attributes:
        inputs: Tensors by name to scan over, `(time, ...)`.
        weights: Matrices of the products inside the loop, by name.
        biases: Vectors of those products that have no input part, by name.
        constants: Scanned tensors that need no gradient, by name.
        gate: Function `(inputs_t, hidden, affine) -> (gate, decisions)`.
        specs: What `decisions` hold.
    """

    inputs: dict[str, Any]
    weights: dict[str, Any]
    biases: dict[str, Any]
    constants: dict[str, Any]
    gate: Callable
    specs: dict[str, tf.TensorSpec]


class FieldOutputs(NamedTuple):
    """What the loop leaves behind, time first.

    Attributes:
        outputs: `(time, batch, units)`.
        states: Flat tuple of final states.
        validity: Boolean `(time, batch or 1, S)`.
        selection: Chosen sizes `(time, batch, S)`; None unless asked for, and
            where S is 1.
        logits: Size logits, likewise.
    """

    outputs: Any
    states: tuple
    validity: Any
    selection: Any
    logits: Any


def run(
    cell,
    sequences: Any,
    states: list,
    mask: Any | None,
    lookahead: Any | None,
    lookahead_mask: Any | None,
    training: bool,
    unroll: bool,
    zero_output_for_mask: bool,
    return_decisions: bool,
    jit_compile: bool,
) -> FieldOutputs:
    """Runs an `RFCell` over whole sequences.

    Args:
        cell: A built `RFCell`.
        sequences: Tensor `(batch, time, features)`, in reading order.
        states: Flat list of initial states, `(batch, size)` each.
        mask: Boolean tensor `(batch, time)` or None.
        lookahead: Tensor `(batch, steps, features)` or None: what comes after
            the end, for fields to read.
        lookahead_mask: Boolean tensor `(batch, steps)` or None.
        training: Whether sizes are drawn and dropout is active.
        unroll: Whether to unroll the loop.
        zero_output_for_mask: Whether masked steps put out zeros; else they
            repeat the output before.
        return_decisions: Whether to keep `selection` and `logits`.
        jit_compile: Whether to compile the loop of a training step with XLA,
            where it has the recomputing gradient.

    Returns:
        A `FieldOutputs`.
    """
    dtype = cell.compute_dtype
    batch_size, length, features = ops.shape(sequences)
    ahead, validity = _extend(
        sequences, mask, lookahead, lookahead_mask, cell.max_size
    )
    current = ahead[:length]
    field = _prepare_field(cell, ahead, current, validity, training)
    with cell_adapters.fresh_dropout(cell.cell):
        if training:
            cell_adapters.draw_dropout(cell.cell, batch_size, features, dtype)
        inner = cell_adapters.prepare(cell.cell, current, dtype, training)

        def step(inputs, states, affine):
            hidden, *rest = states
            gate, decisions = field.gate(inputs, hidden, affine)
            output, states = inner.step(inputs, (gate * hidden, *rest), affine)
            kept = decisions if return_decisions else {}
            return {"output": output, **kept}, states

        width = cell_adapters.output_size(cell.cell)
        specs = {"output": tf.TensorSpec((sequences.shape[0], width), dtype)}
        if return_decisions:
            specs.update(field.specs)
        constants = dict(field.constants)
        states = tuple(states)
        if mask is not None:
            constants["mask"] = ops.transpose(mask)[..., None]
            step = _hold_masked(step, zero_output_for_mask)
            if not zero_output_for_mask:
                states = (ops.zeros((batch_size, width), dtype), *states)
        recompute = training and inner.known
        values, states = scan(
            step,
            Operands(
                {**field.inputs, **inner.inputs},
                {**field.weights, **inner.weights},
                field.biases,
                constants,
            ),
            states,
            specs,
            ScanOptions(recompute, recompute and jit_compile, unroll),
        )
    if mask is not None and not zero_output_for_mask:
        states = states[1:]
    return FieldOutputs(
        values["output"],
        states,
        validity,
        values.get("selection"),
        values.get("logits"),
    )


def _extend(sequences, mask, lookahead, lookahead_mask, max_size):
    """What fields can read, time first, and which positions are real."""
    length = ops.shape(sequences)[1]
    sequences = masking.zero_masked(sequences, mask)
    # Without masks all rows are alike, and one row of validity serves all.
    rows = (
        1
        if mask is None and lookahead_mask is None
        else ops.shape(sequences)[0]
    )
    real = ops.ones((rows, length), "bool") if mask is None else mask
    if lookahead is not None:
        if lookahead_mask is None:
            steps = ops.shape(lookahead)[1]
            lookahead_real = ops.ones((rows, steps), "bool")
        else:
            lookahead_real = lookahead_mask
            real = ops.broadcast_to(real, (rows, length))
        sequences = ops.concatenate(
            [sequences, masking.zero_masked(lookahead, lookahead_mask)], axis=1
        )
        real = ops.concatenate([real, lookahead_real], axis=1)
    views = windows.look_ahead(ops.transpose(real), max_size, length, axis=0)
    return ops.transpose(sequences, (1, 0, 2)), ops.stack(views, axis=-1)


def _prepare_field(cell, ahead, current, validity, training):
    length = ops.shape(current)[0]
    offsets = tf.tensordot(ahead, ops.cast(cell.field_kernel, ahead.dtype), 1)
    offsets = offsets + ops.cast(cell.field_bias, ahead.dtype)
    forget_kernel = ops.cast(cell.forget_kernel, ahead.dtype)
    forget_bias = ops.cast(cell.forget_bias, ahead.dtype)
    if cell.max_size == 1:
        summary = cell.activation(offsets[:length])
        gates = ops.sigmoid(
            tf.tensordot(summary, forget_kernel, 1) + forget_bias
        )

        def read_one(inputs, hidden, affine):
            return inputs["gate"], {}

        return FieldRun({"gate": gates}, {}, {}, {}, read_one, {})

    offsets = windows.look_ahead(offsets, cell.max_size, length, axis=0)
    reader = _soft_reader if cell.draws_soft(training) else _drawn_reader
    inputs, weights, constants, read = reader(cell, offsets, validity, training)

    scores = cell.score_dtype
    inputs["size"] = [
        tf.tensordot(
            ops.cast(current, scores), ops.cast(cell.size_kernel, scores), 1
        )
    ]
    weights["size"] = ops.cast(cell.size_recurrent_kernel, scores)
    batch_size = ops.shape(current)[1]
    weights["forget"] = forget_kernel
    shape = (length, batch_size, cell.max_size)
    noise = cell.sample_noise(shape, training)
    if noise is not None:
        constants["noise"] = noise

    def gate(inputs, hidden, affine):
        (logits,) = affine("size", ops.cast(hidden, scores))
        selection = cell.choose(logits, inputs.get("noise"), training)
        (pre_activation,) = affine("forget", read(inputs, selection, affine))
        decisions = {"selection": selection, "logits": logits}
        return ops.sigmoid(pre_activation), decisions

    spec = tf.TensorSpec((current.shape[1], cell.max_size), scores)
    specs = {"selection": spec, "logits": spec}
    biases = {"forget": forget_bias}
    return FieldRun(inputs, weights, biases, constants, gate, specs)


def _soft_reader(cell, offsets, validity, training):
    kernel = ops.cast(cell.field_recurrent_kernel, offsets[0].dtype)
    first = cell.activation(offsets[0])
    first_product = tf.tensordot(first, kernel, 1)
    second = cell.activation(offsets[1] + first_product)
    inputs = {"first": first, "second": second}
    weights = {}
    if cell.max_size > 2:
        # m_2 lies between m_1 and c_2, and so does its product with U_m.
        inputs["third_offset"] = offsets[2] + first_product
        inputs["third_slope"] = tf.tensordot(second, kernel, 1) - first_product
    for i in range(3, cell.max_size):
        inputs[f"field_{i}"] = [offsets[i]]
        weights[f"field_{i}"] = kernel
    constants = {"validity": ops.cast(validity, cell.score_dtype)}

    def read(inputs, selection, affine):
        keep = receptive_field.keep_weights(selection, inputs["validity"])

        def candidate(i, state):
            if i == 1:
                return inputs["second"]
            if i == 2:
                slope = ops.cast(keep[:, 1:2], state.dtype)
                return cell.activation(
                    inputs["third_offset"] + slope * inputs["third_slope"]
                )
            (pre_activation,) = affine(f"field_{i}", state)
            return cell.activation(pre_activation)

        return receptive_field.soft_summary(
            inputs["first"], candidate, keep, cell.summary
        )

    return inputs, weights, constants, read


def _drawn_reader(cell, offsets, validity, training):
    summaries = receptive_field.run_summaries(
        offsets,
        ops.cast(cell.field_recurrent_kernel, offsets[0].dtype),
        validity,
        cell.activation,
        cell.summary,
    )

    def read(inputs, selection, affine):
        return cell.pick(selection, inputs["summaries"], training)

    return {"summaries": summaries}, {}, {}, read


def _hold_masked(step, zero_output):
    """Makes a step leave the states of masked rows alone."""

    def masked_step(inputs, states, affine):
        mask = inputs["mask"]
        previous = None
        if not zero_output:
            previous, *states = states
        outputs, new_states = step(inputs, tuple(states), affine)
        new_states = tuple(
            tf.where(mask, new, old) for new, old in zip(new_states, states)
        )
        output = outputs["output"]
        if zero_output:
            output = tf.where(mask, output, tf.zeros_like(output))
        else:
            output = tf.where(mask, output, previous)
            new_states = (output, *new_states)
        return {**outputs, "output": output}, new_states

    return masked_step
