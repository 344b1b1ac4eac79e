"""`scan`: runs a recurrent step over the leading axis of its inputs.

The recomputing gradient stores the input states and the products of each step;
the rest is computed again. Weight gradients are multiplied out after the loop,
one large product each. See `ScanOptions.recompute_gradient`.
"""

from collections.abc import Callable
from typing import Any
from typing import NamedTuple
from typing import TypeAlias

import keras
import tensorflow as tf

from keras_seqmech._keras_compat import custom_gradient
from keras_seqmech._keras_compat import in_xla
from keras_seqmech.core.kept_steps import Layout
from keras_seqmech.core.kept_steps import Packing
from keras_seqmech.core.kept_steps import Padded
from keras_seqmech.core.scan.packed_loop import PackedLoop
from keras_seqmech.core.scan.packed_loop import can_pack
from keras_seqmech.core.scan.protocol import Body
from keras_seqmech.core.scan.protocol import Constant
from keras_seqmech.core.scan.protocol import Multiply
from keras_seqmech.core.scan.protocol import Named
from keras_seqmech.core.scan.protocol import Operands
from keras_seqmech.core.scan.protocol import PartedWeight
from keras_seqmech.core.scan.protocol import ScanOptions
from keras_seqmech.core.scan.protocol import States
from keras_seqmech.core.scan.protocol import Step
from keras_seqmech.core.scan.protocol import divide
from keras_seqmech.core.xla import compiled
from keras_seqmech.core.xla import compiles
from keras_seqmech.typing import Tensor


class PaddedLoop:
    """Runs a body over the leading axis of its inputs, and stacks its values.

    Args:
        steps: How many steps to run, a scalar int32 tensor for loops whose
            sizes are static and which may end early; all if None.
        unroll: Whether to write the steps out.
        differentiable: Whether TensorFlow will differentiate the loop. If not,
            steps are read as slices, which copies nothing; the gradient of
            slices in a loop takes time and memory square in the steps. A loop
            that may end early reads arrays too: compiled with XLA, slices can
            make it several times slower.
    """

    def __init__(
        self, steps: Tensor | None, unroll: bool, differentiable: bool
    ):
        self._steps = steps
        self._unroll = unroll
        self._differentiable = differentiable

    def run(
        self,
        body: Body,
        inputs: Any,
        states: States,
        specs: Any,
        reverse: bool = False,
    ) -> tuple[Any, States]:
        """Runs `body(inputs_t, states) -> (values, states)` over all steps.

        Inputs are a nest of tensors `(time, ...)`, `specs` one of the shapes
        and dtypes of the values of a step. With `reverse` the last step is the
        first. The values `(time, ...)` are in the order of time.
        """
        first = keras.tree.flatten(inputs)[0]
        size = first.shape[0]
        if size is None:
            size = tf.shape(first)[0]
        steps = size if self._steps is None else self._steps
        if self._unroll:
            return _run_unrolled(body, inputs, states, steps, reverse)

        read = self._reader(inputs, size)
        buffers = [
            tf.TensorArray(spec.dtype, size, element_shape=spec.shape)
            for spec in keras.tree.flatten(specs)
        ]

        def advance(i: Tensor, states: States, buffers: list) -> tuple:
            t = steps - 1 - i if reverse else i
            values, states = body(read(t), states)
            keras.tree.assert_same_structure(values, specs)
            buffers = [
                buffer.write(t, value)
                for buffer, value in zip(buffers, keras.tree.flatten(values))
            ]
            return i + 1, states, buffers

        _, states, buffers = tf.while_loop(
            lambda i, *_: i < steps,
            advance,
            (tf.constant(0), states, buffers),
            maximum_iterations=size,
        )
        values = [buffer.stack() for buffer in buffers]
        return keras.tree.pack_sequence_as(specs, values), states

    def _reader(self, inputs: Any, size: int | Tensor) -> Callable[[Any], Any]:
        """A function of a step that returns its part of the inputs."""
        if not self._differentiable and self._steps is None:
            return lambda t: _at(inputs, t)
        arrays = [
            tf.TensorArray(x.dtype, size, element_shape=x.shape[1:]).unstack(x)
            for x in keras.tree.flatten(inputs)
        ]
        return lambda t: keras.tree.pack_sequence_as(
            inputs, [array.read(t) for array in arrays]
        )

    def spec(self, tensor: Tensor) -> tf.TensorSpec:
        """Shape and dtype of one step of a tensor `(time, ...)`."""
        return tf.TensorSpec(tensor.shape[1:], tensor.dtype)


def _run_unrolled(
    body: Body, inputs: Any, states: States, steps: int, reverse: bool
) -> tuple[Any, States]:
    rows: list = []
    for t in reversed(range(steps)) if reverse else range(steps):
        values, states = body(_at(inputs, t), states)
        rows.append(values)
    rows = rows[::-1] if reverse else rows
    return keras.tree.map_structure(lambda *x: tf.stack(x), *rows), states


def _at(inputs: Any, t: int | Tensor) -> Any:
    """One step of a nest of tensors `(time, ...)`."""
    # As `x[t]`, with the index computed once for all tensors.
    begin = tf.reshape(t, [1])
    end = begin + 1
    return keras.tree.map_structure(
        lambda x: tf.strided_slice(x, begin, end, [1], shrink_axis_mask=1),
        inputs,
    )


class Kept(NamedTuple):
    """Tensors that the recomputing gradient keeps of the forward loop.

    The states before each step, and the parts of each product within it.
    """

    states: States
    products: list[list[Tensor]]


Specs: TypeAlias = dict[str, tf.TensorSpec]
Loop: TypeAlias = PaddedLoop | PackedLoop


def scan(
    step: Step,
    operands: Any,
    states: States,
    output_specs: Specs,
    options: ScanOptions = ScanOptions(),  # noqa: B008
    layout: Layout = Padded(),  # noqa: B008
) -> tuple[Named, States]:
    """Runs `step` over the steps of a layout.

    Args:
        step: A `protocol.Step`.
        operands: What it works with: a nest of tensors of gathered steps, of
            `Product`s, `Constant`s and Nones.
        states: The states before the first step, a flat tuple of tensors
            `(batch, ...)`, in packed loops of known sizes but for the batch.
        output_specs: What `step` returns by name: shape and dtype of one
            step.
        options: How to run.
        layout: The steps that each row really does. If it is a `Packing`, each
            call of the step gets the active rows alone, ordered by remaining
            length, ascending. So tensors with a row axis must reach it through
            `operands` and `states` alone. Only where `can_pack` says so.

    Returns:
        Outputs by name, in the layout, undefined at steps that a row does not
        have; and the states of each row after its last step, `(batch, ...)`.
    """
    if isinstance(layout, Packing):
        if not can_pack(options):
            raise ValueError(
                "Argument `layout` must not be packed with "
                "`options.jit_compile` or `options.unroll`, nor in code "
                "compiled with XLA: its sizes depend on values. "
                f"Received: options={options}"
            )
    elif (mask := layout.mask) is not None:
        step = _holding(step)
        operands = operands, Constant(mask[..., None])
    if compiles(options.jit_compile) and not in_xla():
        # What TensorFlow's own gradient keeps cannot leave compiled code.
        options = options._replace(recompute_gradient=True)
    divided, joined = divide(operands)
    arguments = (divided, states)

    def run_flat(*flat: Tensor) -> list[Tensor]:
        operands, states = keras.tree.pack_sequence_as(arguments, flat)
        differentiable = not options.recompute_gradient
        loop: Loop
        if isinstance(layout, Packing):
            loop = PackedLoop(layout, differentiable)
        else:
            loop = PaddedLoop(layout.steps, options.unroll, differentiable)
        run = _Run(step, joined, output_specs, loop)
        if not differentiable:
            return _recomputing(run, operands, states)
        (outputs, _), states = run.forward(operands, states, keep=False)
        return keras.tree.flatten((outputs, states))

    run_flat = compiled(run_flat, options.jit_compile)
    results = run_flat(*keras.tree.flatten(arguments))
    return keras.tree.pack_sequence_as(
        (dict.fromkeys(output_specs), states), results
    )


def _holding(step: Step) -> Step:
    """A step that keeps the states of rows that do not have it."""

    def held_step(operands: tuple, states: States) -> tuple[Named, States]:
        operands, mask = operands
        values, new = step(operands, states)
        return values, tuple(tf.where(mask, *x) for x in zip(new, states))

    return held_step


def _recomputing(
    run: "_Run", operands: Operands, states: States
) -> list[Tensor]:
    """Outputs and final states, flat, with the gradient that recomputes."""
    constants = operands.constants
    # Constants get no gradient, so they are no arguments of `run_flat`.
    differentiable = (operands._replace(constants=[]), states)

    @custom_gradient
    def run_flat(*flat: Tensor) -> tuple[list[Tensor], Callable]:
        operands, states = keras.tree.pack_sequence_as(differentiable, flat)
        operands = operands._replace(constants=constants)
        (outputs, kept), final_states = run.forward(operands, states, keep=True)
        results = (outputs, final_states)

        def gradient(*flat_upstream: Tensor) -> list[Tensor]:
            upstream = keras.tree.pack_sequence_as(results, flat_upstream)
            return run.gradients(operands, kept, upstream)

        return keras.tree.flatten(results), gradient

    return run_flat(*keras.tree.flatten(differentiable))


_SECOND_ORDER = (
    "The recomputing gradient of this time loop has no gradient of its own: "
    "training steps of this layer cannot be differentiated twice."
)


class _StepGradients(NamedTuple):
    """Gradients of a step, as the backward loop returns them."""

    inputs: list[Tensor]
    products: list[list[Tensor]]
    operands: list[Tensor]


class _Run(NamedTuple):
    """A step and the loop that runs it, forward and back.

    Attributes:
        step: The step.
        joined: Function `(inputs, products, constants) -> operands` that makes
            what the step is called with.
        output_specs: Shapes and dtypes of what it returns, by name.
        loop: The loop over all steps.
    """

    step: Step
    joined: Callable[..., Any]
    output_specs: Specs
    loop: Loop

    def forward(
        self, operands: Operands, states: States, keep: bool
    ) -> tuple[Any, States]:
        """Outputs and what is `Kept` of each step, and the final states."""
        weights = operands.parted()

        def body(current: tuple, states: States) -> tuple[Any, States]:
            inputs, constants, parts = current
            products: list[list[Tensor]] = [[] for _ in weights]

            def multiply(i: int) -> Multiply:
                def product(operand: Tensor) -> list[Tensor]:
                    products[i] = weights[i].multiply_and_add(
                        operand, parts[i], operands.biases[i]
                    )
                    return products[i]

                return product

            multiplied = [multiply(i) for i in range(len(weights))]
            outputs, new_states = self.step(
                self.joined(inputs, multiplied, constants), states
            )
            kept = Kept(states, products) if keep else ()
            return (outputs, kept), new_states

        kept_specs: Kept | tuple = ()
        if keep:
            kept_specs = Kept(
                tuple(tf.TensorSpec(x.shape, x.dtype) for x in states),
                self._product_specs(operands),
            )
        return self.loop.run(
            body,
            (operands.inputs, operands.constants, operands.parts),
            states,
            (self.output_specs, kept_specs),
        )

    def gradients(
        self, operands: Operands, kept: Kept, upstream: tuple[Named, States]
    ) -> list[Tensor]:
        """Gradients of what `scan` returns, from what the forward loop kept.

        `upstream` are those of the outputs and of the final states. Returned
        are flat ones of `(operands without constants, initial states)`.
        """
        weights = operands.parted()
        output_upstream, state_upstream = upstream

        def body(current: tuple, state_upstream: States) -> tuple[Any, States]:
            inputs, constants, kept, output_upstream = current
            multiplied: list = [None] * len(weights)
            sources = (inputs, kept.products, kept.states)
            with tf.GradientTape() as tape:
                tape.watch(sources)
                products = [
                    _known_product(i, weight, parts, multiplied)
                    for i, (weight, parts) in enumerate(
                        zip(weights, kept.products)
                    )
                ]
                operands = self.joined(inputs, products, constants)
                results = self.step(operands, kept.states)
            of_inputs, of_products, state_upstream = tape.gradient(
                results,
                sources,
                output_gradients=(output_upstream, state_upstream),
                unconnected_gradients=tf.UnconnectedGradients.ZERO,
            )
            values = _StepGradients(of_inputs, of_products, multiplied)
            return values, state_upstream

        specs = _StepGradients(
            keras.tree.map_structure(self.loop.spec, operands.inputs),
            self._product_specs(operands),
            [
                tf.TensorSpec((None, weight.shape[0]), weight.dtype)
                for weight in operands.weights
            ],
        )
        by_step, initial_states = self.loop.run(
            body,
            (operands.inputs, operands.constants, kept, output_upstream),
            state_upstream,
            specs,
            reverse=True,
        )
        of_inputs, of_products, multiplied = by_step
        result = Operands(
            of_inputs,
            [
                of if parts else []
                for of, parts in zip(of_products, operands.parts)
            ],
            [
                _weight_gradient(operand, parts)
                for operand, parts in zip(multiplied, of_products)
            ],
            [
                [tf.reduce_sum(_rows(parts[0]), axis=0)] if bias else []
                for parts, bias in zip(of_products, operands.biases)
            ],
            [],
        )
        # Differentiated again, the kept products would count twice.
        return [
            tf.raw_ops.PreventGradient(input=gradient, message=_SECOND_ORDER)
            for gradient in keras.tree.flatten((result, initial_states))
        ]

    def _product_specs(self, operands: Operands) -> list[list[tf.TensorSpec]]:
        """Shapes and dtypes of the parts of one step's products."""
        return [
            keras.tree.map_structure(self.loop.spec, parts)
            or [tf.TensorSpec((None, weight.shape[-1]), weight.dtype)]
            for parts, weight in zip(operands.parts, operands.weights)
        ]


def _known_product(
    i: int, weight: PartedWeight, parts: list[Tensor], multiplied: list[Tensor]
) -> Multiply:
    """Supplies the kept product; notes what the weight multiplied."""

    def product(operand: Tensor) -> list[Tensor]:
        multiplied[i] = operand

        @custom_gradient
        def known_product(
            operand: Tensor, *parts: Tensor
        ) -> tuple[list[Tensor], Callable]:
            def gradient(*upstream: Tensor) -> tuple[Tensor, ...]:
                return weight.multiply_transposed(upstream), *upstream

            return [tf.identity(part) for part in parts], gradient

        return known_product(operand, *parts)

    return product


def _weight_gradient(operand: Tensor, parts: list[Tensor]) -> Tensor:
    operand = _rows(operand)
    products = [
        tf.matmul(operand, _rows(part), transpose_a=True) for part in parts
    ]
    return tf.concat(products, axis=-1)


def _rows(tensor: Tensor) -> Tensor:
    """A matrix of all rows of all steps."""
    return tf.reshape(tensor, (-1, tensor.shape[-1]))
