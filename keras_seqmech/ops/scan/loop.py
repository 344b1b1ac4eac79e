"""`scan`: runs a recurrent step over the leading axis of its inputs."""

import keras
import tensorflow as tf

from keras_seqmech.ops.scan import backward
from keras_seqmech.ops.scan import stacked
from keras_seqmech.ops.scan.compilation import compiled
from keras_seqmech.ops.scan.protocol import Kept
from keras_seqmech.ops.scan.protocol import Named
from keras_seqmech.ops.scan.protocol import Operands
from keras_seqmech.ops.scan.protocol import ScanOptions
from keras_seqmech.ops.scan.protocol import States
from keras_seqmech.ops.scan.protocol import Step
from keras_seqmech.typing import Tensor

Specs = dict[str, tf.TensorSpec]


def scan(
    step: Step,
    operands: Operands,
    states: States,
    output_specs: Specs,
    options: ScanOptions = ScanOptions(),  # noqa: B008
) -> tuple[Named, States]:
    """Runs `step` over the leading axis of its inputs.

    Args:
        step: The step; `protocol.Step` says what it gets and returns.
        operands: The tensors it works with, time first.
        states: The states before the first step, a flat tuple.
        output_specs: What `step` returns by name: shape and dtype of one
            step.
        options: How to run.

    Returns:
        Outputs by name, `(time, ...)`, and the states after the last step.
    """
    run = _recomputing if options.recompute_gradient else _plain
    arguments = (operands, states)

    def run_flat(*flat):
        operands, states = keras.tree.pack_sequence_as(arguments, flat)
        return run(step, operands, states, output_specs, options)

    run_flat = compiled(run_flat, options.jit_compile)
    results = run_flat(*keras.tree.flatten(arguments))
    return keras.tree.pack_sequence_as(
        (dict.fromkeys(output_specs), states), results
    )


def _plain(step, operands, states, output_specs, options) -> list[Tensor]:
    """Outputs and final states, flat, with TensorFlow's own gradient."""
    (outputs, _), final_states = _forward(
        step, operands, states, output_specs, options, keep=False
    )
    return keras.tree.flatten((outputs, final_states))


def _recomputing(step, operands, states, output_specs, options) -> list[Tensor]:
    """The same with the gradient of `backward`."""
    constants = operands.constants
    # Constants get no gradient, so they are no arguments of `run`.
    differentiable = (operands._replace(constants={}), states)

    @tf.custom_gradient
    def run(*flat):
        operands, states = keras.tree.pack_sequence_as(differentiable, flat)
        operands = operands._replace(constants=constants)
        (outputs, kept), final_states = _forward(
            step, operands, states, output_specs, options, keep=True
        )
        results = (outputs, final_states)

        def gradient(*flat_upstream):
            upstream = keras.tree.pack_sequence_as(results, flat_upstream)
            return backward.gradients(step, operands, kept, upstream, options)

        return keras.tree.flatten(results), gradient

    return run(*keras.tree.flatten(differentiable))


def _forward(step, operands, states, output_specs, options, keep):
    """Outputs and what is `Kept` of each step, and the final states."""
    seen, parts = operands.divided()

    def body(current, states):
        inputs, constants, parts = current
        products = {}

        def affine(name, operand):
            product = tf.matmul(operand, operands.weights[name])
            if name in operands.biases:
                products[name] = [product + operands.biases[name]]
            elif name not in parts:
                products[name] = [product]
            else:
                widths = [part.shape[-1] for part in parts[name]]
                split = tf.split(product, widths, axis=-1)
                products[name] = [z + p for z, p in zip(parts[name], split)]
            return products[name]

        outputs, new_states = step({**inputs, **constants}, states, affine)
        kept = Kept(states, products) if keep else ()
        return (outputs, kept), new_states

    kept_specs: Kept | tuple = ()
    if keep:
        kept_specs = Kept(
            keras.tree.map_structure(stacked.spec, states),
            backward.product_specs(operands),
        )
    return stacked.run_stacked(
        body,
        (seen, operands.constants, parts),
        states,
        (output_specs, kept_specs),
        options,
    )
