"""The backward loop that keeps little.

Of each step it needs the states before it and the products within it; the
rest is computed again. Weight gradients are multiplied out after the loop, one
large product each. See `lean_gradient` in `keras_seqmech.ops.scan.loop.scan`.
"""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from keras_seqmech.ops.scan import stacked

_SECOND_ORDER = (
    "The lean gradient of this time loop has no gradient of its own. Run the "
    "layer with training=False, where TensorFlow's own gradient is used, to "
    "differentiate twice."
)


def run(
    step: Callable,
    steps: Any,
    unroll: bool,
    inputs: dict,
    parameters: dict,
    constants: dict,
    values: dict,
    gradients: tuple,
) -> list:
    """Gradients of `scan`, from the states and products that it kept.

    Args:
        step: As in `scan`, and so are `steps`, `unroll`, `inputs` and
            `constants`.
        parameters: `{"weights": ..., "biases": ...}`.
        values: `{"states": ..., "products": ...}` of every step, before it
            and within it.
        gradients: Those of the outputs and of the final states.

    Returns:
        Flat gradients of inputs, initial states and parameters.
    """
    output_gradients, state_gradients = gradients
    weights = parameters["weights"]
    plain, offsets = divide(inputs, weights)

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
        "inputs": keras.tree.map_structure(stacked.step_spec, plain),
        "products": product_specs(offsets, parameters),
        "operands": {
            name: tf.TensorSpec((None, weight.shape[0]), weight.dtype)
            for name, weight in weights.items()
        },
    }
    gradients, initial_state_gradients = stacked.run(
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


def divide(inputs: dict, weights: dict) -> tuple[dict, dict]:
    """Inputs as the step sees them, and those that are parts of products."""
    plain = {k: v for k, v in inputs.items() if k not in weights}
    return plain, {k: v for k, v in inputs.items() if k in weights}


def product_specs(offsets: dict, parameters: dict) -> dict:
    """Shapes and dtypes of the parts of one step's products, by name."""
    specs = keras.tree.map_structure(stacked.step_spec, offsets)
    for name, weight in parameters["weights"].items():
        if name not in offsets:
            specs[name] = [tf.TensorSpec((None, weight.shape[1]), weight.dtype)]
    return specs
