"""The one time loop of the package.

A recurrent mechanism is a `step` that maps the inputs of one time step and the
states before it to outputs and the states after it. `scan` runs it over the
leading axis of its inputs.

Most of a recurrent step is products `z_t + s_t W`, where `z_t` comes from the
input alone and was computed for all steps at once. A step asks for such a
product by name, `affine(name, s_t)`, and the loop supplies `z_t` and `W`. This
is what lets `lean_gradient` take the weight gradients out of the loop.
"""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

Step = Callable[[dict, tuple, Callable], tuple[dict, tuple]]


def scan(
    step: Step,
    inputs: dict[str, Any],
    states: tuple,
    output_specs: dict[str, tf.TensorSpec],
    weights: dict[str, tf.Tensor] | None = None,
    constants: dict[str, tf.Tensor] | None = None,
    lean_gradient: bool = False,
    unroll: bool = False,
) -> tuple[dict[str, tf.Tensor], tuple]:
    """Runs `step` over the leading axis of `inputs`.

    Args:
        step: Function `step(inputs_t, states, affine) -> (outputs, states)`.
            `inputs_t` has the keys of `constants`, and those of `inputs` that
            are not in `weights`.
            `affine(name, s)` is `inputs[name][t] + s @ weights[name]`; each
            name may be used once a step. `outputs` has the keys of
            `output_specs`. A step without side effects is assumed.
        inputs: Tensors `(time, ...)` by name. Where the name is also in
            `weights` the value is a list of `(time, batch, width)` tensors
            whose widths add up to that of the weight; `affine` then returns
            such a list (separate gates vectorise better than slices of one
            tensor).
        states: Flat tuple of tensors, the states before the first step.
        output_specs: What `step` puts out, by name: shape and dtype of one
            step.
        weights: Matrices `(operand width, width)` by name.
        constants: Tensors `(time, ...)` by name that need no gradient, such
            as masks and noise.
        lean_gradient: Whether to use a backward loop that keeps only the
            states and products of each step, recomputes the rest, and
            multiplies out the weight gradients after the loop, one large
            product each. Same values, same gradients; `step` may then use no
            trainable variable other than through `weights`.
        unroll: Whether to write the steps out instead of looping. Needs a
            static number of steps.

    Returns:
        Outputs by name, `(time, ...)`, and the states after the last step.
    """
    weights = weights or {}
    constants = constants or {}
    if not lean_gradient:
        values, states = _forward(
            step, inputs, states, output_specs, weights, constants, unroll
        )
        return values["outputs"], states

    arguments = (inputs, states, weights)

    @tf.custom_gradient
    def run(*flat):
        inputs, states, weights = keras.tree.pack_sequence_as(arguments, flat)
        values, final_states = _forward(
            step,
            inputs,
            states,
            output_specs,
            weights,
            constants,
            unroll,
            keep=True,
        )
        result = (values["outputs"], final_states)

        def gradient(*flat_gradients):
            gradients = keras.tree.pack_sequence_as(result, flat_gradients)
            return _backward(
                step, inputs, weights, constants, values, gradients, unroll
            )

        return keras.tree.flatten(result), gradient

    outputs = {name: 0 for name in output_specs}
    return keras.tree.pack_sequence_as(
        (outputs, states), run(*keras.tree.flatten(arguments))
    )


def _forward(
    step, inputs, states, output_specs, weights, constants, unroll, keep=False
):
    plain = {k: v for k, v in inputs.items() if k not in weights}
    offsets = {name: inputs[name] for name in weights}

    def body(current, states):
        products = {}

        def affine(name, operand):
            parts = current["offsets"][name]
            product = tf.matmul(operand, weights[name])
            widths = [part.shape[-1] for part in parts]
            split = tf.split(product, widths, axis=-1)
            products[name] = [z + p for z, p in zip(parts, split)]
            return products[name]

        outputs, new_states = step(
            {**current["inputs"], **current["constants"]}, states, affine
        )
        values = {"outputs": outputs}
        if keep:
            values["states"] = states
            values["products"] = products
        return values, new_states

    specs = {"outputs": output_specs}
    if keep:
        specs["states"] = keras.tree.map_structure(_spec, states)
        specs["products"] = {
            name: [_step_spec(part) for part in offsets[name]]
            for name in weights
        }
    scanned = {"inputs": plain, "offsets": offsets, "constants": constants}
    return _loop(body, scanned, states, specs, unroll)


def _backward(step, inputs, weights, constants, values, gradients, unroll):
    output_gradients, state_gradients = gradients
    plain = {k: v for k, v in inputs.items() if k not in weights}

    def body(current, state_gradients):
        operands = {}

        def affine(name, operand):
            operands[name] = operand

            @tf.custom_gradient
            def known_product(operand, *parts):
                def gradient(*upstream):
                    product_gradient = tf.concat(upstream, axis=-1)
                    transposed = tf.matmul(
                        product_gradient, weights[name], transpose_b=True
                    )
                    return transposed, *upstream

                return [tf.identity(part) for part in parts], gradient

            return known_product(operand, *current["products"][name])

        sources = (current["inputs"], current["products"], current["states"])
        with tf.GradientTape() as tape:
            tape.watch(sources)
            inputs_t = {**current["inputs"], **current["constants"]}
            targets = step(inputs_t, current["states"], affine)
        upstream = (current["output_gradients"], state_gradients)
        input_gradients, product_gradients, state_gradients = tape.gradient(
            targets,
            sources,
            output_gradients=upstream,
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )
        gradients = {
            "inputs": {**input_gradients, **product_gradients},
            "operands": operands,
        }
        return gradients, state_gradients

    scanned = {
        "inputs": plain,
        "constants": constants,
        "products": values["products"],
        "states": values["states"],
        "output_gradients": output_gradients,
    }
    specs = {
        "inputs": keras.tree.map_structure(_step_spec, inputs),
        "operands": {
            name: tf.TensorSpec((None, weight.shape[0]), weight.dtype)
            for name, weight in weights.items()
        },
    }
    gradients, initial_state_gradients = _loop(
        body, scanned, state_gradients, specs, unroll, reverse=True
    )
    weight_gradients = {
        name: tf.tensordot(
            operand, tf.concat(gradients["inputs"][name], axis=-1), [[0, 1]] * 2
        )
        for name, operand in gradients["operands"].items()
    }
    return keras.tree.flatten(
        (gradients["inputs"], initial_state_gradients, weight_gradients)
    )


def _loop(body, inputs, states, specs, unroll, reverse=False):
    """Runs `body(inputs_t, states)`, stacks the values it returns."""
    first = keras.tree.flatten(inputs)[0]
    steps = first.shape[0] if first.shape[0] is not None else tf.shape(first)[0]
    if unroll:
        order = reversed(range(steps)) if reverse else range(steps)
        rows = []
        for t in order:
            flat = [x[t] for x in keras.tree.flatten(inputs)]
            current = keras.tree.pack_sequence_as(inputs, flat)
            values, states = body(current, states)
            rows.append(values)
        rows = rows[::-1] if reverse else rows
        stacked = keras.tree.map_structure(lambda *x: tf.stack(x), *rows)
        return stacked, states

    def array(spec):
        return tf.TensorArray(spec.dtype, steps, element_shape=spec.shape)

    arrays = [
        array(_step_spec(x)).unstack(x) for x in keras.tree.flatten(inputs)
    ]
    buffers = [array(spec) for spec in keras.tree.flatten(specs)]

    def run(i, states, buffers):
        t = steps - 1 - i if reverse else i
        current = keras.tree.pack_sequence_as(
            inputs, [array.read(t) for array in arrays]
        )
        values, states = body(current, states)
        keras.tree.assert_same_structure(values, specs)
        buffers = [
            buffer.write(t, value)
            for buffer, value in zip(buffers, keras.tree.flatten(values))
        ]
        return i + 1, states, buffers

    _, states, buffers = tf.while_loop(
        lambda i, *_: i < steps,
        run,
        (tf.constant(0), states, buffers),
        maximum_iterations=steps,
    )
    stacked = [buffer.stack() for buffer in buffers]
    return keras.tree.pack_sequence_as(specs, stacked), states


def _spec(tensor):
    return tf.TensorSpec(tensor.shape, tensor.dtype)


def _step_spec(tensor):
    return tf.TensorSpec(tensor.shape[1:], tensor.dtype)
