"""The interface of a recurrent step and the time loop.

Most of a recurrent step is products `z_t + s_t W`, where `z_t` comes from the
input alone and was computed for all steps at once, or is a bias. A mechanism
gives the loop a `Product` of `W` and `z`, and gets a function of `s_t` in its
place at each step. This is what lets the recomputing gradient take the weight
gradients out of the loop.
"""

import dataclasses
import itertools
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple
from typing import TypeAlias

import keras
import tensorflow as tf

from keras_seqmech.typing import Tensor

Named: TypeAlias = dict[str, Tensor]
States: TypeAlias = tuple[Tensor, ...]
# What a loop calls at each step: a function of inputs and states.
Body: TypeAlias = Callable[[Any, States], tuple[Any, States]]
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
        unroll: Whether to write the steps out instead of looping. Needs a
            static number of steps.
    """

    recompute_gradient: bool = False
    jit_compile: bool = False
    unroll: bool = False


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
