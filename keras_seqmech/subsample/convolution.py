r"""Convolution of numbers with vectors, by matrix products.

$$y_m = \sum_k w_{m-k} z_k$$

for rows of numbers w and of vectors z. The Toeplitz matrix of w is written out
for the product and not kept. Here and in the two adjoints

$$z_k = \sum_m w_{m-k} y_m, \qquad w_i = \sum_k z_k^T y_{i+k},$$

the gradients are the other two functions, so that gradients of any order are
right and none of them holds a matrix.
"""

from collections.abc import Callable
from collections.abc import Sequence
from typing import TypeAlias

import tensorflow as tf
from keras import ops

from keras_seqmech._keras_compat import custom_gradient
from keras_seqmech.typing import Size
from keras_seqmech.typing import Tensor

Gradients: TypeAlias = Sequence[Tensor]
# A result and its gradient, as `tf.custom_gradient` takes them.
Differentiable: TypeAlias = tuple[Tensor, Callable[[Tensor], Gradients]]

_IN_LOOP = (
    "This convolution has no second gradient, as it runs in a loop: the "
    "sequence is too long, or its length not known, to write it out."
)


def convolve(
    weights: Tensor, vectors: Tensor, size: Size, in_loop: bool = False
) -> Tensor:
    r"""$y_m = \sum_k w_{m-k} z_k$.

    Args:
        weights: Tensor `(batch, n)`.
        vectors: Tensor `(batch, k, features)`.
        size: How many results, an int or a scalar tensor; at most `n + k - 1`.
        in_loop: Whether this is part of a loop. There TensorFlow cannot
            differentiate custom gradients again, and a gradient of the
            gradient is refused (LookupError).

    Returns:
        Tensor `(batch, size, features)`.

    Example:

    >>> convolve(tf.constant([[1.0, 10.0]]), tf.ones((1, 3, 1)), 4)[0, :, 0]
    <tf.Tensor: ... numpy=array([ 1., 11., 11., 10.], dtype=float32)>
    """

    @custom_gradient
    def run(weights: Tensor, vectors: Tensor) -> Differentiable:
        matrix = toeplitz(weights, ops.shape(vectors)[1], size)

        def gradient(upstream: Tensor) -> Gradients:
            gradients = (
                inner_products(vectors, upstream, ops.shape(weights)[1]),
                correlate(weights, upstream, ops.shape(vectors)[1]),
            )
            return _once(gradients) if in_loop else gradients

        return tf.matmul(matrix, vectors, transpose_a=True), gradient

    return run(weights, vectors)


def correlate(weights: Tensor, results: Tensor, size: Size) -> Tensor:
    r"""$z_k = \sum_m w_{m-k} y_m$, for `size` of at least `m - n + 1`."""

    @custom_gradient
    def run(weights: Tensor, results: Tensor) -> Differentiable:
        matrix = toeplitz(weights, size, ops.shape(results)[1])

        def gradient(upstream: Tensor) -> Gradients:
            return (
                inner_products(upstream, results, ops.shape(weights)[1]),
                convolve(weights, upstream, ops.shape(results)[1]),
            )

        return tf.matmul(matrix, results), gradient

    return run(weights, results)


def inner_products(vectors: Tensor, results: Tensor, size: Size) -> Tensor:
    r"""$w_i = \sum_k z_k^T y_{i+k}$, for `size` of at least `m - k + 1`."""

    @custom_gradient
    def run(vectors: Tensor, results: Tensor) -> Differentiable:
        products = tf.matmul(vectors, results, transpose_b=True)

        def gradient(upstream: Tensor) -> Gradients:
            return (
                correlate(upstream, results, ops.shape(vectors)[1]),
                convolve(upstream, vectors, ops.shape(results)[1]),
            )

        return _sum_of_diagonals(products, size), gradient

    return run(vectors, results)


def toeplitz(weights: Tensor, rows: Size, width: Size) -> Tensor:
    """The matrix `(batch, rows, width)` whose entry (k, m) is $w_{m-k}$, or 0.

    The `width` is at most `n + rows - 1`, of weights `(batch, n)`.
    """
    batch, size = ops.shape(weights)
    # Skewing by reshape: the padded row is repeated with period full + 1 and
    # read with period full, which shifts row k to the right by k.
    full = size + rows - 1
    repeated = tf.tile(
        tf.pad(weights, [[0, 0], [0, rows]])[:, None], [1, rows, 1]
    )
    flat = tf.reshape(repeated, (batch, rows * (full + 1)))
    matrix = tf.reshape(flat[:, : rows * full], (batch, rows, full))
    return matrix[:, :, :width]


def _sum_of_diagonals(products: Tensor, size: Size) -> Tensor:
    """`(batch, size)`, entry i is the sum of entries (k, i + k)."""
    batch, rows, width = ops.shape(products)
    full = size + rows - 1
    products = tf.pad(products, [[0, 0], [0, 0], [0, full - width]])
    flat = tf.reshape(products, (batch, rows * full))
    flat = tf.pad(flat, [[0, 0], [0, rows]])
    shifted = tf.reshape(flat, (batch, rows, full + 1))
    return tf.reduce_sum(shifted, axis=1)[:, :size]


def _once(gradients: tuple[Tensor, Tensor]) -> Gradients:
    """Gradients that refuse to be differentiated again."""
    return [
        tf.raw_ops.PreventGradient(input=x, message=_IN_LOOP) for x in gradients
    ]
