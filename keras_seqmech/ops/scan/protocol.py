"""What a recurrent step and the time loop exchange.

Most of a recurrent step is products `z_t + s_t W`, where `z_t` comes from the
input alone and was computed for all steps at once, or is a bias. A step asks
for such a product by name, `affine(name, s_t)`, and the loop supplies `z_t`
and `W`. This is what lets the recomputing gradient take the weight gradients
out of the loop.
"""

from collections.abc import Callable
from typing import Any
from typing import NamedTuple
from typing import Protocol
from typing import TypeAlias

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

        Args:
            name: A key of `Operands.weights`.
            operand: Tensor `(batch, operand width)`, a state or what the step
                computed from one. The product with a vector is elementwise.

        Returns:
            Tensors `(batch, width)` that together make up
            `inputs[name][t] + operand @ weights[name]`, or
            `biases[name] + operand @ weights[name]`, or the product alone
            where neither is given. As many as `inputs[name]` has parts, else
            one.
        """


class Step(Protocol):
    """One time step of a recurrent mechanism, without side effects.

    It treats all rows the same way and each by itself: in a packed loop it gets
    the rows that have the step, in another number and order than the batch.
    """

    def __call__(
        self, inputs: Named, states: States, affine: Affine
    ) -> tuple[Named, States]:
        """Moves on by one step.

        Args:
            inputs: This step's `Operands.constants`, and `Operands.inputs`
                other than the parts of products.
            states: The states before the step.
            affine: Supplies products.

        Returns:
            Outputs by name, with the shapes and dtypes given to `scan`, and
            the states after the step.
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
            around it is not. Without effect in eager execution.
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


class Kept(NamedTuple):
    """What the recomputing gradient keeps of the forward loop, time first.

    Attributes:
        states: The states before each step.
        products: The parts of each product within it.
    """

    states: States
    products: Parts


class Loop(Protocol):
    """Runs a body at each step: `PaddedLoop`, `PackedLoop`."""

    def run(
        self,
        body: Body,
        inputs: Any,
        states: States,
        specs: Any,
        reverse: bool = False,
    ) -> tuple[Any, States]:
        """Runs `body(inputs_t, states) -> (values, states)` over all steps.

        Args:
            body: The function.
            inputs: Nest of the tensors of all steps.
            states: The states of the first call.
            specs: Nest of the shapes and dtypes of the values of a step.
            reverse: Whether to begin with the last step.

        Returns:
            The values of all steps, in the order of time, and the states
            after the last call.
        """

    def spec(self, tensor: Tensor) -> Any:
        """Shape and dtype of one step of a tensor of all steps."""
