"""A sequence in one vector: reductions over time that skip masked steps.

All take `(batch, time, features)` and a boolean mask `(batch, time)`, True
where a step is real, of any pattern; None stands for all True. What stands at
masked steps reaches neither value nor gradient, and a row without a real step
gives zeros.
"""

from typing import Any

from keras import ops

from keras_seqmech.ops import masking
from keras_seqmech.ops.relaxation import score_dtype


def mean(sequences: Any, mask: Any | None = None) -> Any:
    r"""Mean of the real steps, $\sum_t v_t h_t / \sum_t v_t$, v the mask.

    Summed in float32 or wider, the division first: half precision neither
    overflows nor loses count over long sequences.
    """
    return weighted_sum(uniform_weights(sequences, mask), sequences, mask)


def uniform_weights(sequences: Any, mask: Any | None = None) -> Any:
    """Weights `(batch, time)`, equal over real steps, that sum to 1."""
    dtype = score_dtype(sequences.dtype)
    real = ops.cast(masking.real_steps(sequences, mask), dtype)
    return real / ops.maximum(ops.sum(real, axis=1, keepdims=True), 1)


def weighted_sum(weights: Any, sequences: Any, mask: Any | None = None) -> Any:
    r"""$\sum_t \alpha_t h_t$, with weights 0 at masked steps.

    Args:
        weights: Tensor `(batch, time)`, float32 or wider.
        sequences: Tensor `(batch, time, features)`.
        mask: Boolean tensor `(batch, time)` or None.

    Returns:
        Tensor `(batch, features)` of the dtype of `sequences`.
    """
    values = masking.zero_masked(sequences, mask)
    pooled = ops.einsum("bt,btd->bd", weights, ops.cast(values, weights.dtype))
    return ops.cast(pooled, sequences.dtype)


def maximum(sequences: Any, mask: Any | None = None) -> Any:
    r"""Largest value of each feature over the real steps.

    Where several steps share the largest value, its gradient is divided
    between them.
    """
    if mask is None:
        return ops.max(sequences, axis=1)
    real = ops.expand_dims(ops.cast(mask, "bool"), axis=-1)
    lowest = ops.full_like(sequences, float("-inf"))
    largest = ops.max(ops.where(real, sequences, lowest), axis=1)
    return ops.where(ops.any(real, axis=1), largest, ops.zeros_like(largest))


def first(sequences: Any, mask: Any | None = None) -> Any:
    """The first real step of each row."""
    return _step(sequences, mask, first_index(sequences, mask))


def last(sequences: Any, mask: Any | None = None) -> Any:
    """The last real step of each row."""
    return _step(sequences, mask, last_index(sequences, mask))


def first_index(sequences: Any, mask: Any | None = None) -> Any:
    """Position `(batch,)` of each row's first real step, 0 without one."""
    real = ops.cast(masking.real_steps(sequences, mask), "int32")
    return ops.argmax(real, axis=1)


def last_index(sequences: Any, mask: Any | None = None) -> Any:
    """Position `(batch,)` of each row's last real step, 0 without one."""
    real = ops.cast(masking.real_steps(sequences, mask), "int32")
    return ops.argmax(real * ops.arange(ops.shape(sequences)[1]), axis=1)


def _step(sequences, mask, index):
    index = ops.reshape(index, (-1, 1, 1))
    step = ops.squeeze(ops.take_along_axis(sequences, index, axis=1), axis=1)
    if mask is None:
        return step
    has_real = ops.any(ops.cast(mask, "bool"), axis=1, keepdims=True)
    return ops.where(has_real, step, ops.zeros_like(step))
