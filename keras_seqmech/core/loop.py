"""The time loop: `scan` runs a recurrent step over the steps of a layout.

Most of a recurrent step is products `z_t + s_t W`, where `z_t` comes from the
input alone and was computed for all steps at once, or is a bias. A mechanism
gives the loop a `Product` of `W` and `z`, and gets a function of `s_t` in its
place at each step. This is what lets the recomputing gradient take the weight
gradients out of the loop: it stores the input states and the products of each
step and computes the rest again, and multiplies weight gradients out after the
loop, one large product each.
"""

import contextlib
import contextvars
import dataclasses
import itertools
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple
from typing import TypeAlias

import keras
import tensorflow as tf

from keras_seqmech._keras_compat import custom_gradient
from keras_seqmech._keras_compat import in_xla
from keras_seqmech.core.kept_steps import Layout
from keras_seqmech.core.kept_steps import PackedLoop
from keras_seqmech.core.kept_steps import Packing
from keras_seqmech.core.kept_steps import Padded
from keras_seqmech.core.kept_steps import PaddedLoop
from keras_seqmech.core.kept_steps import States
from keras_seqmech.typing import Tensor

Named: TypeAlias = dict[str, Tensor]
# The product of an operand `(batch, operand width)`, which is a state or what
# the step computed from one, with a weight. In parts, `(batch, width)` each.
Multiply: TypeAlias = Callable[[Tensor], list[Tensor]]

# One time step of a recurrent mechanism: `(operands, states) -> (outputs by
# name, states)`, without side effects. The operands are those given to `scan`,
# as they are at this step. It treats all rows the same way and each by itself:
# in a packed loop it gets the rows that have the step, in another number and
# order than the batch.
Step: TypeAlias = Callable[[Any, States], tuple[Named, States]]


@dataclasses.dataclass(frozen=True, eq=False)
class Product:
    """A product within a step, among its operands; used once a step.

    In its place the step finds a `Multiply`, whose results together make up
    `operand @ weight`, added to the inputs of this step or to the bias.

    Attributes:
        weight: Matrix `(operand width, width)`.
        inputs: Tensors `(time, batch, width)` whose widths add up to that of
            the weight (separate gates vectorise better than slices of one
            tensor); none by default. In a packed loop `(total, width)`.
        bias: Vector `(width,)`, for a product without inputs.
    """

    weight: Tensor
    inputs: Sequence[Tensor] = ()
    bias: Tensor | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Constant:
    """An operand `(time, ...)` that needs no gradient, such as a mask or noise.

    In its place the step finds the value `(batch, ...)` of this step.
    """

    value: Tensor


class Operands(NamedTuple):
    """The tensors of a step's operands, by what becomes of them.

    For a packed loop, `(total, ...)` stands for `(time, batch, ...)`.

    Attributes:
        inputs: Tensors `(time, ...)`.
        parts: The inputs of each `Product`.
        weights: The weight of each.
        biases: The bias of each, in a list of one, or an empty list.
        constants: Tensors `(time, ...)` that need no gradient.
    """

    inputs: list[Tensor]
    parts: list[list[Tensor]]
    weights: list[Tensor]
    biases: list[list[Tensor]]
    constants: list[Tensor]

    def parted(self) -> "list[PartedWeight]":
        """The weights, in the parts of their inputs."""
        return [
            PartedWeight(weight, [x.shape[-1] for x in parts or [weight]])
            for weight, parts in zip(self.weights, self.parts)
        ]


def divide(operands: Any) -> tuple[Operands, Callable[..., Any]]:
    """Divides a nest of tensors, `Product`s, `Constant`s and Nones.

    Returns:
        The tensors in it; and a function `(inputs, products, constants) ->
        operands` that puts others in their places.
    """
    leaves = keras.tree.flatten(operands)
    kinds = [
        type(x) if isinstance(x, Product | Constant) else x is not None
        for x in leaves
    ]

    def of(kind: Any) -> list:
        return [x for x, own in zip(leaves, kinds) if own is kind]

    def joined(inputs: list, products: list, constants: list) -> Any:
        found = {
            True: iter(inputs),
            Product: iter(products),
            Constant: iter(constants),
            False: itertools.repeat(None),
        }
        values = [next(found[kind]) for kind in kinds]
        return keras.tree.pack_sequence_as(operands, values)

    return Operands(
        of(True),
        [list(x.inputs) for x in of(Product)],
        [x.weight for x in of(Product)],
        [[] if x.bias is None else [x.bias] for x in of(Product)],
        [x.value for x in of(Constant)],
    ), joined


def at_one_step(operands: Any) -> Any:
    """The operands of one step `(batch, ...)`, as a `Step` finds them."""
    divided, joined = divide(operands)

    def multiply(weight: "PartedWeight", parts: list, bias: list) -> Multiply:
        return lambda operand: weight.multiply_and_add(operand, parts, bias)

    products = [
        multiply(*x)
        for x in zip(divided.parted(), divided.parts, divided.biases)
    ]
    return joined(divided.inputs, products, divided.constants)


class ScanOptions(NamedTuple):
    """Options of `scan`; none changes an answer.

    Attributes:
        recompute_gradient: Whether to use a backward loop that keeps only the
            states and products of each step, recomputes the rest, and
            multiplies out the weight gradients after the loop, one large
            product each. The step may then use no trainable variable other
            than through `Operands`, and a gradient of the gradient is refused
            (LookupError).
        jit_compile: Whether to compile the loop with XLA where the code
            around it is not; it then has the recomputing gradient. Without
            effect in eager execution.
        packed: Whether loops of rows that differ run packed where they can.
    """

    recompute_gradient: bool = False
    jit_compile: bool = False
    packed: bool = True


# Entries of a weight from which on each part is multiplied alone.
LARGE = 2**16


class PartedWeight:
    """A weight that a step multiplies by, in parts, such as those of gates.

    To multiply once and split the result is fast where the weight is small.
    Where it is large, a product for each part is faster: it saves a copy, and
    the products run in parallel.

    Args:
        weight: Matrix `(operand width, width)`.
        widths: Widths of the parts, which add up to `width`.
    """

    def __init__(self, weight: Tensor, widths: Sequence[int]):
        self._widths = list(widths)
        self._kernels = [weight]
        if len(widths) > 1 and weight.shape.num_elements() >= LARGE:
            self._kernels = tf.split(weight, self._widths, axis=-1)

    def multiply(self, operand: Tensor) -> list[Tensor]:
        """The parts `(batch, part width)` of `operand @ weight`."""
        products = [tf.matmul(operand, kernel) for kernel in self._kernels]
        if len(products) < len(self._widths):
            return tf.split(products[0], self._widths, axis=-1)
        return products

    def multiply_and_add(
        self, operand: Tensor, inputs: list[Tensor], bias: list[Tensor]
    ) -> list[Tensor]:
        """The same, with inputs `(batch, part width)` or a bias added."""
        products = self.multiply(operand)
        if not (inputs or bias):
            return products
        return [x + product for x, product in zip(inputs or bias, products)]

    def multiply_transposed(self, parts: Sequence[Tensor]) -> Tensor:
        """`parts @ transpose(weight)`, as gradients go back to the operand."""
        if len(self._kernels) < len(parts):
            parts = [tf.concat(parts, axis=-1)]
        return tf.add_n(
            [
                tf.matmul(part, kernel, transpose_b=True)
                for part, kernel in zip(parts, self._kernels)
            ]
        )


_WITHOUT_XLA = contextvars.ContextVar("without_xla", default=False)


@contextlib.contextmanager
def without_xla() -> Iterator[None]:
    """Within it `jit_compile` of layers has no effect.

    For exports: servers may have no compiler.
    """
    token = _WITHOUT_XLA.set(True)
    try:
        yield
    finally:
        _WITHOUT_XLA.reset(token)


def compiles(jit_compile: bool) -> bool:
    """Returns whether a `jit_compile` compiles what is called now.

    Eager code is not.
    """
    eager = tf.executing_eagerly()
    return jit_compile and not (eager or _WITHOUT_XLA.get())


def can_pack(options: ScanOptions = ScanOptions()) -> bool:  # noqa: B008
    """Returns whether a loop with these options can run packed here.

    It cannot where sizes are static: in code around the loop or a loop alone
    that XLA compiles.
    """
    compiled = in_xla() or compiles(options.jit_compile)
    return options.packed and not compiled


class Kept(NamedTuple):
    """Tensors that the recomputing gradient keeps of the forward loop.

    The states before each step, and the parts of each product within it.
    """

    states: States
    products: list[list[Tensor]]


Specs: TypeAlias = dict[str, tf.TensorSpec]


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
        step: A `Step`.
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
                "`options.jit_compile`, nor in code compiled with XLA: its "
                "sizes depend on values. "
                f"Received: options={options}"
            )
    else:
        mask = layout.mask
        if mask is not None:
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
        run = _Run(step, joined, output_specs, layout.loop(differentiable))
        if not differentiable:
            return _recomputing(run, operands, states)
        (outputs, _), states = run.forward(operands, states, keep=False)
        return keras.tree.flatten((outputs, states))

    if compiles(options.jit_compile):
        # XLA compiles anew for every shape.
        run_flat = tf.function(run_flat, jit_compile=True, autograph=False)
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
    loop: PaddedLoop | PackedLoop

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
