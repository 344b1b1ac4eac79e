"""Number formats, finite ranges, and products of tensors with weights."""

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from keras_seqmech._keras_compat import custom_gradient
from keras_seqmech.typing import Tensor

# Larger logits are clipped to this, so that their differences stay finite.
LARGEST_LOGIT = 1e30


def score_dtype(dtype: str) -> str:
    """The dtype of probabilities beside data of `dtype`: at least float32."""
    is_double = keras.backend.standardize_dtype(dtype) == "float64"
    return "float64" if is_double else "float32"


def finite(values: Tensor, largest: float = LARGEST_LOGIT) -> Tensor:
    """Values from `-largest` to `largest`, 0 in place of NaN.

    Sums of products beyond the range of the dtype are infinite, or NaN where
    infinities cancel. Such values pass no gradient.
    """
    values = ops.where(ops.isnan(values), ops.zeros_like(values), values)
    return ops.clip(values, -largest, largest)


def finite_gradient(values: Tensor, largest: float = LARGEST_LOGIT) -> Tensor:
    """The values; their gradient is clipped as by `finite`."""

    @custom_gradient
    def same(values: Tensor) -> Any:
        def gradient(upstream: Tensor) -> Tensor:
            return finite(upstream, largest)

        return 1 * values, gradient

    return same(values)


def product(inputs: Tensor, kernel: Tensor) -> Tensor:
    """`inputs @ kernel` as one large product over all leading axes."""
    if inputs.shape.rank == 2:
        return tf.matmul(inputs, kernel)
    return tf.tensordot(inputs, kernel, 1)


def project(
    inputs: Tensor, kernel: Tensor, bias: Tensor | None, parts: int
) -> list[Tensor]:
    """Splits `inputs @ kernel + bias` into equal parts, one product each."""
    kernels = tf.split(kernel, parts, axis=-1)
    products = [product(inputs, k) for k in kernels]
    if bias is None:
        return products
    return [p + b for p, b in zip(products, tf.split(bias, parts, axis=-1))]
