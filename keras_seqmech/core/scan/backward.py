"""The gradient of `scan` that recomputes.

Of each step it needs the states before it and the products within it; the
rest is computed again. Weight gradients are multiplied out after the loop, one
large product each. See `ScanOptions.recompute_gradient`.
"""

from collections.abc import Callable
from typing import Any
from typing import NamedTuple

import keras
import tensorflow as tf

from keras_seqmech._keras_compat import custom_gradient
from keras_seqmech.core.scan.protocol import Affine
from keras_seqmech.core.scan.protocol import Kept
from keras_seqmech.core.scan.protocol import Loop
from keras_seqmech.core.scan.protocol import Named
from keras_seqmech.core.scan.protocol import Operands
from keras_seqmech.core.scan.protocol import PartedWeight
from keras_seqmech.core.scan.protocol import Parts
from keras_seqmech.core.scan.protocol import States
from keras_seqmech.core.scan.protocol import Step
from keras_seqmech.core.scan.protocol import parted
from keras_seqmech.typing import Tensor

_SECOND_ORDER = (
    "The recomputing gradient of this time loop has no gradient of its own. "
    "To differentiate twice, run the layer within "
    "keras_seqmech.core.scan.differentiable_twice(), where TensorFlow's own "
    "gradient is used."
)


class _StepGradients(NamedTuple):
    """What the backward loop returns of each step."""

    inputs: Named
    products: Parts
    operands: Named


def gradients(
    step: Step,
    operands: Operands,
    kept: Kept,
    upstream: tuple[Named, States],
    loop: Loop,
) -> list[Tensor]:
    """Gradients of what `scan` returns, from what the forward loop kept.

    Args:
        step: As in `scan`.
        operands: The tensors of the forward loop.
        kept: The states before each step, and the products within it.
        upstream: Gradients of the outputs and of the final states.
        loop: The loop that ran forward.

    Returns:
        Flat gradients of `(operands without constants, initial states)`.
    """
    seen, parts = operands.divided()
    weights = parted(operands)
    output_upstream, state_upstream = upstream

    def body(current: tuple, state_upstream: States) -> tuple[Any, States]:
        inputs, constants, kept, output_upstream = current
        multiplied: Named = {}
        sources = (inputs, kept.products, kept.states)
        with tf.GradientTape() as tape:
            tape.watch(sources)
            affine = _known_products(weights, kept, multiplied)
            results = step({**inputs, **constants}, kept.states, affine)
        *step_gradients, state_upstream = tape.gradient(
            results,
            sources,
            output_gradients=(output_upstream, state_upstream),
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )
        of_inputs, of_products = step_gradients
        values = _StepGradients(of_inputs, of_products, multiplied)
        return values, state_upstream

    specs = _StepGradients(
        keras.tree.map_structure(loop.spec, seen),
        product_specs(operands, loop),
        {
            name: tf.TensorSpec((None, weight.shape[0]), weight.dtype)
            for name, weight in operands.weights.items()
        },
    )
    by_step, initial_states = loop.run(
        body,
        (seen, operands.constants, kept, output_upstream),
        state_upstream,
        specs,
        reverse=True,
    )
    part_gradients = {name: by_step.products[name] for name in parts}
    result = Operands(
        {**by_step.inputs, **part_gradients},
        {
            name: _weight_gradient(
                operand, by_step.products[name], operands.weights[name].shape
            )
            for name, operand in by_step.operands.items()
        },
        {
            name: tf.reduce_sum(_rows(by_step.products[name][0]), axis=0)
            for name in operands.biases
        },
    )
    # Differentiated again, the kept products would count twice.
    return [
        tf.raw_ops.PreventGradient(input=gradient, message=_SECOND_ORDER)
        for gradient in keras.tree.flatten((result, initial_states))
    ]


def _known_products(
    weights: dict[str, PartedWeight], kept: Kept, multiplied: Named
) -> Affine:
    """Supplies the kept products; notes what each weight multiplied."""

    def affine(name: str, operand: Tensor) -> list[Tensor]:
        multiplied[name] = operand

        @custom_gradient
        def known_product(
            operand: Tensor, *parts: Tensor
        ) -> tuple[list[Tensor], Callable]:
            def gradient(*upstream: Tensor) -> tuple[Tensor, ...]:
                operand_gradient = weights[name].multiply_transposed(upstream)
                return operand_gradient, *upstream

            return [tf.identity(part) for part in parts], gradient

        return known_product(operand, *kept.products[name])

    return affine


def _weight_gradient(
    operand: Tensor, parts: list[Tensor], shape: tf.TensorShape
) -> Tensor:
    operand = _rows(operand)
    if shape.rank == 1:
        return tf.reduce_sum(operand * _rows(parts[0]), axis=0)
    products = [
        tf.matmul(operand, _rows(part), transpose_a=True) for part in parts
    ]
    return tf.concat(products, axis=-1)


def _rows(tensor: Tensor) -> Tensor:
    """A matrix of all rows of all steps."""
    return tf.reshape(tensor, (-1, tensor.shape[-1]))


def product_specs(
    operands: Operands, loop: Loop
) -> dict[str, list[tf.TensorSpec]]:
    """Shapes and dtypes of the parts of one step's products, by name."""
    _, parts = operands.divided()
    specs = keras.tree.map_structure(loop.spec, parts)
    for name, weight in operands.weights.items():
        if name not in parts:
            width = weight.shape[-1]
            specs[name] = [tf.TensorSpec((None, width), weight.dtype)]
    return specs
