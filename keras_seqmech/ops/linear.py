"""Products of tensors with matrices."""

import tensorflow as tf

from keras_seqmech.typing import Tensor


def product(inputs: Tensor, kernel: Tensor) -> Tensor:
    """`inputs @ kernel` as one large product over all leading axes.

    Args:
        inputs: Tensor `(..., features)`.
        kernel: Matrix `(features, units)` of the same dtype.

    Returns:
        Tensor `(..., units)`.
    """
    if inputs.shape.rank == 2:
        return tf.matmul(inputs, kernel)
    return tf.tensordot(inputs, kernel, 1)


def project(
    inputs: Tensor, kernel: Tensor, bias: Tensor | None, parts: int
) -> list[Tensor]:
    """Splits `inputs @ kernel + bias` into equal parts, one product each.

    Args:
        inputs: Tensor `(..., features)`.
        kernel: Matrix `(features, parts * units)`.
        bias: Vector `(parts * units,)` or None.
        parts: Number of parts.

    Returns:
        List of `parts` tensors `(..., units)`.
    """
    kernels = tf.split(kernel, parts, axis=-1)
    products = [product(inputs, k) for k in kernels]
    if bias is None:
        return products
    return [p + b for p, b in zip(products, tf.split(bias, parts, axis=-1))]
