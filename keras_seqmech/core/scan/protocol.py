"""What a recurrent step and the time loop exchange.

Most of a recurrent step is products `z_t + s_t W`, where `z_t` comes from the
input alone and was computed for all steps at once, or is a bias. A step asks
for such a product by name, `affine(name, s_t)`, and the loop supplies `z_t`
and `W`. The name is that of the weight in the `Operands`, made beside the step.
This is what lets the recomputing gradient take the weight gradients out of the
loop.
"""

import contextlib
import contextvars
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple
from typing import Protocol
from typing import TypeAlias

import tensorflow as tf

from keras_seqmech.typing import Tensor

Named: TypeAlias = dict[str, Tensor]
Parts: TypeAlias = dict[str, list[Tensor]]
States: TypeAlias = tuple[Tensor, ...]
# What a loop calls at each step: a function of inputs and states.
Body: TypeAlias = Callable[[Any, States], tuple[Any, States]]


class Affine(Protocol):
    """Supplies the products of one time step."""

    def __call__(self, name: str, operand: Tensor) -> list[Tensor]:
        """The product of a name; each name is used once a step.

        The operand `(batch, operand width)` is a state or what the step
        computed from one. The product with a vector is elementwise.

        Returns:
            Tensors `(batch, width)`, as many as `inputs[name]` has parts, else
            one. Together they make up `operand @ weights[name]`, added to
            `inputs[name][t]` or `biases[name]` where one is given.
        """


class Step(Protocol):
    """One time step of a recurrent mechanism, without side effects.

    It treats all rows the same way and each by itself: in a packed loop it gets
    the rows that have the step, in another number and order than the batch.
    """

    def __call__(
        self, inputs: Named, states: States, affine: Affine
    ) -> tuple[Named, States]:
        """Moves on by one step, from the states before to those after.

        The inputs are this step's `Operands.constants`, and `Operands.inputs`
        other than the parts of products. Outputs are by name, with the shapes
        and dtypes given to `scan`.
        """


class Operands(NamedTuple):
    """The tensors that a step works with, by name.

    For a packed loop, `(total, ...)` stands for `(time, batch, ...)`.

    Attributes:
        inputs: Tensors `(time, ...)`. Where the name is also in `weights`, a
            list of `(time, batch, width)` tensors whose widths add up to that
            of the weight (separate gates vectorise better than slices of one
            tensor).
        weights: Matrices `(operand width, width)`, or vectors `(width,)` in
            place of diagonal ones.
        biases: Vectors `(width,)`, for products without inputs.
        constants: Tensors `(time, ...)` that need no gradient, such as masks
            and noise.
    """

    inputs: dict[str, Tensor | list[Tensor]]
    weights: Named = {}
    biases: Named = {}
    constants: Named = {}

    def joined(self, other: "Operands") -> "Operands":
        """These operands and those of another part of the same step."""
        return Operands(*({**a, **b} for a, b in zip(self, other)))

    def divided(self) -> tuple[Named, Parts]:
        """Inputs that the step sees, and inputs that are parts of products."""
        seen = {k: v for k, v in self.inputs.items() if k not in self.weights}
        parts = {k: v for k, v in self.inputs.items() if k in self.weights}
        return seen, parts


class ScanOptions(NamedTuple):
    """How `scan` runs; no option changes an answer.

    Attributes:
        recompute_gradient: Whether to use a backward loop that keeps only the
            states and products of each step, recomputes the rest, and
            multiplies out the weight gradients after the loop, one large
            product each. The step may then use no trainable variable other
            than through `Operands`, and a gradient of the gradient is refused
            (LookupError), except within `differentiable_twice`.
        jit_compile: Whether to compile the loop with XLA where the code
            around it is not; it then has the recomputing gradient. Without
            effect in eager execution.
        unroll: Whether to write the steps out instead of looping. Needs a
            static number of steps.
        steps: Scalar int32 tensor, at most `time`: how many steps to run; all
            if None. It is meant for code compiled with XLA, whose sizes are
            static but whose loops, backward too, may end early; elsewhere give
            shorter inputs. Outputs of the steps left out are zeros.
    """

    recompute_gradient: bool = False
    jit_compile: bool = False
    unroll: bool = False
    steps: Tensor | None = None


# Entries of a weight from which on each part is multiplied alone.
LARGE = 2**16


class PartedWeight:
    """A weight that a step multiplies by, in parts, such as those of gates.

    To multiply once and split the result is fast where the weight is small.
    Where it is large, a product for each part is faster: it saves a copy, and
    the products run in parallel.

    Args:
        weight: Matrix `(operand width, width)`, or a vector for a diagonal one.
        widths: Widths of the parts, which add up to `width`.
    """

    def __init__(self, weight: Tensor, widths: Sequence[int]):
        self._widths = list(widths)
        self._kernels = [weight]
        if len(widths) > 1 and weight.shape.num_elements() >= LARGE:
            self._kernels = tf.split(weight, self._widths, axis=-1)

    def multiply(self, operand: Tensor) -> list[Tensor]:
        """The parts `(batch, part width)` of `operand @ weight`."""
        products = [_product(operand, kernel) for kernel in self._kernels]
        if len(products) < len(self._widths):
            return tf.split(products[0], self._widths, axis=-1)
        return products

    def multiply_transposed(self, parts: Sequence[Tensor]) -> Tensor:
        """`parts @ transpose(weight)`, as gradients go back to the operand."""
        if len(self._kernels) < len(parts):
            parts = [tf.concat(parts, axis=-1)]
        return tf.add_n(
            [
                _product(part, kernel, transpose=True)
                for part, kernel in zip(parts, self._kernels)
            ]
        )


def _product(
    operand: Tensor, kernel: Tensor, transpose: bool = False
) -> Tensor:
    if kernel.shape.rank == 1:
        return operand * kernel
    return tf.matmul(operand, kernel, transpose_b=transpose)


def parted(operands: Operands) -> dict[str, PartedWeight]:
    """The weights of a step by name, in the parts of their inputs."""
    _, parts = operands.divided()
    return {
        name: PartedWeight(
            weight, [part.shape[-1] for part in parts.get(name, [weight])]
        )
        for name, weight in operands.weights.items()
    }


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
    """Whether what is called now is compiled where `jit_compile` asks for it.

    Eager code is not.
    """
    eager = tf.executing_eagerly()
    return jit_compile and not (eager or _WITHOUT_XLA.get())


_TWICE = contextvars.ContextVar("differentiable_twice", default=False)


@contextlib.contextmanager
def differentiable_twice() -> Iterator[None]:
    """Within it, loops that are run or traced have a second derivative.

    Cost: a loop keeps all that its steps compute, in place of states and
    products alone, and runs its padded steps.
    """
    token = _TWICE.set(True)
    try:
        yield
    finally:
        _TWICE.reset(token)


def is_differentiable_twice() -> bool:
    """Whether this runs within `differentiable_twice`."""
    return _TWICE.get()
