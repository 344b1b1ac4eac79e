"""`scan`: runs a recurrent step over the leading axis of its inputs."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from keras_seqmech._keras_compat import custom_gradient
from keras_seqmech._keras_compat import in_xla
from keras_seqmech.core.scan import backward
from keras_seqmech.core.scan.packed import PackedLoop
from keras_seqmech.core.scan.packing import Packing
from keras_seqmech.core.scan.packing import can_pack
from keras_seqmech.core.scan.padded import PaddedLoop
from keras_seqmech.core.scan.protocol import Kept
from keras_seqmech.core.scan.protocol import Loop
from keras_seqmech.core.scan.protocol import Named
from keras_seqmech.core.scan.protocol import Operands
from keras_seqmech.core.scan.protocol import Parts
from keras_seqmech.core.scan.protocol import ScanOptions
from keras_seqmech.core.scan.protocol import States
from keras_seqmech.core.scan.protocol import Step
from keras_seqmech.core.scan.protocol import is_differentiable_twice
from keras_seqmech.core.scan.protocol import parted
from keras_seqmech.typing import Tensor


def compiled(function: Callable, jit_compile: bool = True) -> Callable:
    """A function of tensors, compiled where the code around it may not be.

    XLA compiles anew for every shape.

    Args:
        function: Function of tensors, variables and Nones, without side
            effects.
        jit_compile: Whether to compile; if False the function is as it was.

    Returns:
        The function; in eager execution, unchanged.
    """
    if not jit_compile or tf.executing_eagerly():
        return function
    traced = tf.function(function, jit_compile=True, autograph=False)

    def run(*arguments: Tensor | None) -> Any:
        return traced(
            *[None if x is None else tf.convert_to_tensor(x) for x in arguments]
        )

    return run


Specs = dict[str, tf.TensorSpec]


def scan(
    step: Step,
    operands: Operands,
    states: States,
    output_specs: Specs,
    options: ScanOptions = ScanOptions(),  # noqa: B008
    packing: Packing | None = None,
) -> tuple[Named, States]:
    """Runs `step` over the leading axis of its inputs.

    Args:
        step: The step; `protocol.Step` says what it gets and returns.
        operands: The tensors it works with, time first; packed if `packing`
            is given.
        states: The states before the first step, a flat tuple of tensors
            `(batch, ...)`, in packed loops of known sizes but for the batch.
        output_specs: What `step` returns by name: shape and dtype of one
            step.
        options: How to run.
        packing: From `pack`: which steps each row really does; all if None.
            At each call the step then gets only the rows that have this step,
            rows with fewer steps to come first. So tensors with a row axis
            must reach it through `operands` and `states` alone. Only where
            `can_pack` says so.

    Returns:
        Outputs by name, `(time, ...)`, or packed, `(total, ...)`; and the
        states after the last step, in packed loops of each row,
        `(batch, ...)`.
    """
    if packing is not None and not can_pack(options):
        raise ValueError(
            "Argument `packing` needs sizes that depend on values; with "
            "`options.jit_compile`, `options.unroll` or `options.steps`, and "
            "in code compiled with XLA, it must be None. "
            f"Received: options={options}"
        )
    if packing is not None and not all(
        tf.TensorShape(state.shape)[1:].is_fully_defined() for state in states
    ):
        raise ValueError(
            "Argument `states` must have known sizes but for the batch where "
            "`packing` is given. "
            f"Received: shapes={[state.shape for state in states]}"
        )
    if is_differentiable_twice():
        options = options._replace(recompute_gradient=False, jit_compile=False)
    elif options.jit_compile and not (tf.executing_eagerly() or in_xla()):
        # What TensorFlow's own gradient keeps cannot leave compiled code.
        options = options._replace(recompute_gradient=True)
    arguments = (operands, states)

    def run_flat(*flat: Tensor) -> list[Tensor]:
        operands, states = keras.tree.pack_sequence_as(arguments, flat)
        run = _recomputing if options.recompute_gradient else _plain
        loop = _loop(options, packing)
        return run(step, operands, states, output_specs, loop)

    run_flat = compiled(run_flat, options.jit_compile)
    results = run_flat(*keras.tree.flatten(arguments))
    return keras.tree.pack_sequence_as(
        (dict.fromkeys(output_specs), states), results
    )


def _loop(options: ScanOptions, packing: Packing | None) -> Loop:
    differentiable = not options.recompute_gradient
    if packing is None:
        return PaddedLoop(options, differentiable)
    return PackedLoop(packing, differentiable)


def _plain(
    step: Step,
    operands: Operands,
    states: States,
    output_specs: Specs,
    loop: Loop,
) -> list[Tensor]:
    """Outputs and final states, flat, with TensorFlow's own gradient."""
    (outputs, _), final_states = _forward(
        step, operands, states, output_specs, loop, keep=False
    )
    return keras.tree.flatten((outputs, final_states))


def _recomputing(
    step: Step,
    operands: Operands,
    states: States,
    output_specs: Specs,
    loop: Loop,
) -> list[Tensor]:
    """The same with the gradient of `backward`."""
    constants = operands.constants
    # Constants get no gradient, so they are no arguments of `run`.
    differentiable = (operands._replace(constants={}), states)

    @custom_gradient
    def run(*flat: Tensor) -> tuple[list[Tensor], Callable]:
        operands, states = keras.tree.pack_sequence_as(differentiable, flat)
        operands = operands._replace(constants=constants)
        (outputs, kept), final_states = _forward(
            step, operands, states, output_specs, loop, keep=True
        )
        results = (outputs, final_states)

        def gradient(*flat_upstream: Tensor) -> list[Tensor]:
            upstream = keras.tree.pack_sequence_as(results, flat_upstream)
            return backward.gradients(step, operands, kept, upstream, loop)

        return keras.tree.flatten(results), gradient

    return run(*keras.tree.flatten(differentiable))


def _forward(
    step: Step,
    operands: Operands,
    states: States,
    output_specs: Specs,
    loop: Loop,
    keep: bool,
) -> tuple[Any, States]:
    """Outputs and what is `Kept` of each step, and the final states."""
    seen, parts = operands.divided()
    weights = parted(operands)

    def body(current: tuple, states: States) -> tuple[Any, States]:
        inputs, constants, parts = current
        products: Parts = {}

        def affine(name: str, operand: Tensor) -> list[Tensor]:
            product = weights[name].multiply(operand)
            if name in operands.biases:
                product = [product[0] + operands.biases[name]]
            elif name in parts:
                product = [z + p for z, p in zip(parts[name], product)]
            products[name] = product
            return product

        outputs, new_states = step({**inputs, **constants}, states, affine)
        kept = Kept(states, products) if keep else ()
        return (outputs, kept), new_states

    kept_specs: Kept | tuple = ()
    if keep:
        kept_specs = Kept(
            tuple(tf.TensorSpec(x.shape, x.dtype) for x in states),
            backward.product_specs(operands, loop),
        )
    return loop.run(
        body,
        (seen, operands.constants, parts),
        states,
        (output_specs, kept_specs),
    )
