"""Number formats and ranges in which decisions and scores are computed."""

import keras
from keras import ops

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

    Args:
        values: Float tensor.
        largest: Positive float.

    Returns:
        Tensor of the same shape and dtype.
    """
    values = ops.where(ops.isnan(values), ops.zeros_like(values), values)
    return ops.clip(values, -largest, largest)
