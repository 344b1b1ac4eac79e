"""Products of a step with a weight, in the parts that the step takes.

An LSTM takes the product of its state in four parts, one for each gate. To
multiply once and split the result is fast where the weight is small. Where it
is large, a product for each part is faster: it saves a copy, and the products
run in parallel.
"""

from collections.abc import Sequence

import tensorflow as tf

from keras_seqmech.ops.scan.protocol import Operands
from keras_seqmech.typing import Tensor

# Entries of a weight from which on each part is multiplied alone.
LARGE = 2**16


class PartedWeight:
    """A weight that a step multiplies by, in parts.

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
