"""The one time loop of the package.

A recurrent mechanism is a `step` that maps the inputs of one time step and the
states before it to outputs and the states after it. `scan` runs it over the
leading axis of its inputs.

Most of a recurrent step is products `z_t + s_t W`, where `z_t` comes from the
input alone and was computed for all steps at once, or is a bias. A step asks
for such a product by name, `affine(name, s_t)`, and the loop supplies `z_t`
and `W`. This is what lets `lean_gradient` take the weight gradients out of the
loop.
"""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from keras_seqmech.ops.compilation import compiled

Step = Callable[[dict, tuple, Callable], tuple[dict, tuple]]

_SECOND_ORDER = (
    "The lean gradient of this time loop has no gradient of its own. Run the "
    "layer with training=False, where TensorFlow's own gradient is used, to "
    "differentiate twice."
)


def scan(
    step: Step,
    inputs: dict[str, Any],
    states: tuple,
    output_specs: dict[str, tf.TensorSpec],
    weights: dict[str, tf.Tensor] | None = None,
    biases: dict[str, tf.Tensor] | None = None,
    constants: dict[str, tf.Tensor] | None = None,
    steps: tf.Tensor | None = None,
    lean_gradient: bool = False,
    unroll: bool = False,
    jit_compile: bool = False,
) -> tuple[dict[str, tf.Tensor], tuple]:
    """Runs `step` over the leading axis of `inputs`.

    Args:
        step: Function `step(inputs_t, states, affine) -> (outputs, states)`.
            `inputs_t` has the keys of `constants`, and those of `inputs` that
            are not in `weights`.
            `affine(name, s)` is a list of tensors that make up
            `inputs[name][t] + s @ weights[name]`, or `biases[name] + s @
            weights[name]`; each name is used once a step. `outputs` has the
            keys of `output_specs`. A step without side effects is assumed.
        inputs: Tensors `(time, ...)` by name. Where the name is also in
            `weights` the value is a list of `(time, batch, width)` tensors
            whose widths add up to that of the weight (separate gates
            vectorise better than slices of one tensor).
        states: Flat tuple of tensors, the states before the first step.
        output_specs: What `step` puts out, by name: shape and dtype of one
            step.
        weights: Matrices `(operand width, width)` by name.
        biases: Vectors `(width,)` by name, for the products without inputs.
        constants: Tensors `(time, ...)` by name that need no gradient, such
            as masks and noise.
        steps: Scalar int32 tensor, at most `time`: how many steps to run; all
            if None. For code compiled with XLA, whose sizes are static but
            whose loops, backward too, may end early. Outputs of the steps
            left out are zeros. Elsewhere give shorter inputs.
        lean_gradient: Whether to use a backward loop that keeps only the
            states and products of each step, recomputes the rest, and
            multiplies out the weight gradients after the loop, one large
            product each. Same values, same gradients; `step` may then use no
            trainable variable other than through `weights` and `biases`, and
            a gradient of the gradient is refused (LookupError).
        unroll: Whether to write the steps out instead of looping. Needs a
            static number of steps.
        jit_compile: Whether to compile the loop with XLA where the code
            around it is not. Without effect in eager execution.

    Returns:
        Outputs by name, `(time, ...)`, and the states after the last step.
    """
    parameters = {"weights": weights or {}, "biases": biases or {}}
    arguments = (inputs, states, parameters, constants or {})
    outputs = {name: None for name in output_specs}

    def run(*flat):
        arguments_here = keras.tree.pack_sequence_as(arguments, flat)
        if lean_gradient:
            return _lean(step, output_specs, steps, unroll, *arguments_here)
        values, final_states = _forward(
            step, output_specs, steps, unroll, *arguments_here
        )
        return keras.tree.flatten((values["outputs"], final_states))

    run = compiled(run, jit_compile)
    result = run(*keras.tree.flatten(arguments))
    return keras.tree.pack_sequence_as((outputs, states), result)


def _lean(
    step, output_specs, steps, unroll, inputs, states, parameters, constants
):
    arguments = (inputs, states, parameters)

    @tf.custom_gradient
    def run(*flat):
        inputs, states, parameters = keras.tree.pack_sequence_as(
            arguments, flat
        )
        values, final_states = _forward(
            step,
            output_specs,
            steps,
            unroll,
            inputs,
            states,
            parameters,
            constants,
            keep=True,
        )
        result = (values["outputs"], final_states)

        def gradient(*flat_gradients):
            gradients = keras.tree.pack_sequence_as(result, flat_gradients)
            return _backward(
                step,
                steps,
                unroll,
                inputs,
                parameters,
                constants,
                values,
                gradients,
            )

        return keras.tree.flatten(result), gradient

    return run(*keras.tree.flatten(arguments))


def _forward(
    step,
    output_specs,
    steps,
    unroll,
    inputs,
    states,
    parameters,
    constants,
    keep=False,
):
    weights, biases = parameters["weights"], parameters["biases"]
    plain, offsets = _divide(inputs, weights)

    def body(current, states):
        products = {}

        def affine(name, operand):
            product = tf.matmul(operand, weights[name])
            if name in biases:
                products[name] = [product + biases[name]]
            else:
                parts = current["offsets"][name]
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
        specs["products"] = _product_specs(offsets, parameters)
    scanned = {"inputs": plain, "offsets": offsets, "constants": constants}
    return _loop(body, scanned, states, specs, steps, unroll)


def _backward(
    step, steps, unroll, inputs, parameters, constants, values, gradients
):
    output_gradients, state_gradients = gradients
    weights = parameters["weights"]
    plain, offsets = _divide(inputs, weights)

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
        input_gradients, product_gradients, state_gradients = tape.gradient(
            targets,
            sources,
            output_gradients=(current["output_gradients"], state_gradients),
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )
        gradients = {
            "inputs": input_gradients,
            "products": product_gradients,
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
        "inputs": keras.tree.map_structure(_step_spec, plain),
        "products": _product_specs(offsets, parameters),
        "operands": {
            name: tf.TensorSpec((None, weight.shape[0]), weight.dtype)
            for name, weight in weights.items()
        },
    }
    gradients, initial_state_gradients = _loop(
        body, scanned, state_gradients, specs, steps, unroll, reverse=True
    )
    products = gradients["products"]
    parameter_gradients = {
        "weights": {
            name: tf.concat(
                [
                    tf.tensordot(operand, part, [[0, 1], [0, 1]])
                    for part in products[name]
                ],
                axis=-1,
            )
            for name, operand in gradients["operands"].items()
        },
        "biases": {
            name: tf.reduce_sum(products[name][0], axis=[0, 1])
            for name in parameters["biases"]
        },
    }
    offset_gradients = {name: products[name] for name in offsets}
    flat_gradients = keras.tree.flatten(
        (
            {**gradients["inputs"], **offset_gradients},
            initial_state_gradients,
            parameter_gradients,
        )
    )
    # Differentiated again, the kept products would count twice.
    return [
        tf.raw_ops.PreventGradient(input=gradient, message=_SECOND_ORDER)
        for gradient in flat_gradients
    ]


def _divide(inputs, weights):
    """Inputs as the step sees them, and those that are parts of products."""
    plain = {k: v for k, v in inputs.items() if k not in weights}
    return plain, {k: v for k, v in inputs.items() if k in weights}


def _product_specs(offsets, parameters):
    specs = keras.tree.map_structure(_step_spec, offsets)
    for name, bias in parameters["biases"].items():
        specs[name] = [tf.TensorSpec((None, bias.shape[0]), bias.dtype)]
    return specs


def _loop(body, inputs, states, specs, steps, unroll, reverse=False):
    """Runs `body(inputs_t, states)`, stacks the values it returns."""
    first = keras.tree.flatten(inputs)[0]
    size = first.shape[0] if first.shape[0] is not None else tf.shape(first)[0]
    steps = size if steps is None else steps
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
        return tf.TensorArray(spec.dtype, size, element_shape=spec.shape)

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
        maximum_iterations=size,
    )
    stacked = [buffer.stack() for buffer in buffers]
    return keras.tree.pack_sequence_as(specs, stacked), states


def _spec(tensor):
    return tf.TensorSpec(tensor.shape, tensor.dtype)


def _step_spec(tensor):
    return tf.TensorSpec(tensor.shape[1:], tensor.dtype)
