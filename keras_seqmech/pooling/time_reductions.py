"""A sequence in one vector: reductions over time that skip masked steps.

All take `(batch, time, features)` and a boolean mask `(batch, time)`, True
where a step is real, of any pattern; None means all True. They return vectors
`(batch, features)` of the same dtype. The values at masked steps reach neither
output nor gradient, and a row without a real step gives zeros.
"""

import math

from keras import ops

from keras_seqmech.core import masks
from keras_seqmech.core.attention import weighted_sum
from keras_seqmech.core.numerics import score_dtype
from keras_seqmech.typing import Tensor


def mean(sequence: Tensor, mask: Tensor | None = None) -> Tensor:
    r"""Mean of the real steps, $\sum_t v_t h_t / \sum_t v_t$, v the mask.

    The steps are divided by their number before they are summed, in float32 or
    wider, so that half precision neither overflows nor loses accuracy over
    long sequences.
    """
    dtype = score_dtype(sequence.dtype)
    real = ops.cast(masks.real_steps(sequence, mask), dtype)
    count = ops.sum(real, axis=1, keepdims=True)
    weights = real / ops.maximum(count, 1)
    return weighted_sum(weights, masks.zero_masked_forward(sequence, mask))


def maximum(sequence: Tensor, mask: Tensor | None = None) -> Tensor:
    """Largest value of each feature over the real steps.

    Where several steps share the largest value, its gradient is divided
    between them.
    """
    real = ops.shape(sequence)[1] > 0
    if mask is not None:
        mask = ops.expand_dims(ops.cast(mask, "bool"), axis=-1)
        sequence = ops.where(mask, sequence, -math.inf)
        real = ops.any(mask, axis=1)
    # Without an initial value Keras refuses empty batches.
    largest = ops.max(sequence, axis=1, initial=-math.inf)
    # Not selected: ONNX would multiply the infinity of other rows by 0.
    floor = ops.where(real, -math.inf, 0.0)
    return ops.maximum(largest, ops.cast(floor, largest.dtype))


def first_index(sequence: Tensor, mask: Tensor | None = None) -> Tensor:
    """Position `(batch,)` of each row's first real step, 0 without one."""
    real = ops.cast(masks.real_steps(sequence, mask), "int32")
    return ops.argmax(real, axis=1)


def last_index(sequence: Tensor, mask: Tensor | None = None) -> Tensor:
    """Position `(batch,)` of each row's last real step, 0 without one."""
    real = ops.cast(masks.real_steps(sequence, mask), "int32")
    steps = ops.arange(ops.shape(sequence)[1], dtype="int32")
    return ops.argmax(real * steps, axis=1)


def steps_at(
    sequence: Tensor, indices: Tensor, mask: Tensor | None = None
) -> Tensor:
    """The real steps at indices `(batch, n)`, as `(batch, n, features)`."""
    batch_size, length, features = ops.shape(sequence)
    rows = ops.arange(batch_size, dtype="int32")
    rows = ops.expand_dims(rows * length, axis=1)
    # Gathered from one long row of steps: the gradient is a plain scatter.
    flat = ops.reshape(sequence, (-1, features))
    steps = ops.take(flat, ops.cast(indices, "int32") + rows, axis=0)
    if mask is None:
        return steps
    has_real = ops.any(ops.cast(mask, "bool"), axis=1)
    return masks.zero_masked(steps, ops.expand_dims(has_real, axis=1))
