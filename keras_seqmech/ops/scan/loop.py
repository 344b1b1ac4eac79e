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

from keras_seqmech.ops.scan import backward as lean_backward
from keras_seqmech.ops.scan import stacked
from keras_seqmech.ops.scan.compilation import compiled

Step = Callable[[dict, tuple, Callable], tuple[dict, tuple]]


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
            weights[name]`, or of the product alone where neither is given;
            each name is used once a step. `outputs` has the keys of
            `output_specs`. A step without side effects is assumed.
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
            return lean_backward.run(
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
    plain, offsets = lean_backward.divide(inputs, weights)

    def body(current, states):
        products = {}

        def affine(name, operand):
            product = tf.matmul(operand, weights[name])
            if name in biases:
                products[name] = [product + biases[name]]
            elif name not in offsets:
                products[name] = [product]
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
        specs["states"] = keras.tree.map_structure(stacked.spec, states)
        specs["products"] = lean_backward.product_specs(offsets, parameters)
    scanned = {"inputs": plain, "offsets": offsets, "constants": constants}
    return stacked.run(body, scanned, states, specs, steps, unroll)
