"""How unequally gradients reach the positions of a sequence.

Source: "Analyzing the Learnability and Representability of Recurrent
Architectures", section 2.2.7.
"""

from keras import ops

from keras_seqmech.core import masks
from keras_seqmech.core.numerics import score_dtype
from keras_seqmech.typing import Tensor


def gradient_divergence(
    gradients: Tensor, mask: Tensor | None = None
) -> Tensor:
    r"""How far the gradients' norms are from equal, $KL(p \,\|\, u)$.

    $p_t = \lVert g_t \rVert / \sum_s \lVert g_s \rVert$ and $u$ uniform over
    the n real positions. Between 0 (all norms equal) and log n (one position
    has the whole gradient); 0 in rows without a gradient or a real position,
    NaN in rows where a gradient is not finite. The scale of a row does not
    matter.

    Args:
        gradients: Tensor `(batch, time, features)`.
        mask: Boolean tensor `(batch, time)`, True where a position is real.

    Returns:
        Tensor `(batch,)`, float32 or wider; where it is finite, so is its own
        gradient.

    Example:

    >>> import numpy as np
    >>> g = np.array([[[3.0, 4.0], [0.0, 5.0]], [[1.0, 0.0], [0.0, 0.0]]])
    >>> gradient_divergence(g).numpy().round(4)
    array([0.    , 0.6931])
    """
    gradients = ops.convert_to_tensor(gradients)
    gradients = ops.cast(gradients, score_dtype(gradients.dtype))
    gradients = masks.zero_masked(gradients, mask)
    largest = ops.max(ops.abs(gradients), axis=(1, 2), keepdims=True)
    # Squares neither overflow nor vanish; the scale cancels in p.
    scaled = gradients / ops.stop_gradient(_or_one(largest))
    squares = ops.sum(ops.square(scaled), axis=-1)
    norms = ops.where(squares > 0, ops.sqrt(_or_one(squares)), 0)
    p = norms / _or_one(ops.sum(norms, axis=1, keepdims=True))
    real = ops.cast(masks.real_steps(gradients, mask), p.dtype)
    count = ops.sum(real, axis=1, keepdims=True)
    divergence = ops.sum(p * ops.log(_or_one(p * count)), axis=1)
    finite = ops.all(ops.isfinite(gradients), axis=(1, 2))
    return ops.where(finite, divergence, float("nan"))


def _or_one(x: Tensor) -> Tensor:
    """1 in place of 0: nothing divides by 0, nor does a gradient."""
    return ops.where(x > 0, x, ops.ones_like(x))
