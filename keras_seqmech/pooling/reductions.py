"""Poolings by reductions over time that skip masked steps.

The functions take `(batch, time, features)` and a boolean mask `(batch, time)`,
True where a step is real, of any pattern; None means all True. They return
vectors `(batch, features)` of the same dtype. The values at masked steps reach
neither output nor gradient, and a row without a real step gives zeros.
"""

import math
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_seqmech.core import checks
from keras_seqmech.core import masks
from keras_seqmech.core.attention import weighted_sum
from keras_seqmech.core.layers import SequenceLayer
from keras_seqmech.core.layers import output_specs
from keras_seqmech.core.numerics import score_dtype
from keras_seqmech.typing import Tensor

PARTS = ("last", "max", "mean")


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


def last(sequence: Tensor, mask: Tensor | None) -> Tensor:
    """The last real step of each row."""
    indices = last_index(sequence, mask)[:, None]
    return steps_at(sequence, indices, mask)[:, 0]


class Pooling(SequenceLayer):
    """Base of the layers that take `(batch, time, features)` to a vector.

    A subclass computes it in `pool(sequence, mask)`.
    """

    def build(self, input_shape: Sequence[int | None]) -> None:
        self.check_shape(input_shape)

    def call(self, sequence: Tensor, mask: Tensor | None = None) -> Any:
        sequence, mask = self.prepare(sequence, mask)
        return self.pool(ops.cast(sequence, self.compute_dtype), mask)

    def pool(self, sequence: Tensor, mask: Tensor | None) -> Any:
        raise NotImplementedError

    def compute_output_spec(
        self, sequence: Tensor, mask: Tensor | None = None, **keywords: Any
    ) -> Any:
        checks.check_mask("mask", mask, sequence.shape)
        shapes = self.compute_output_shape(sequence.shape)
        return output_specs(shapes, self.compute_dtype)

    def compute_output_shape(self, input_shape: Sequence[int | None]) -> Any:
        self.check_shape(input_shape)
        return (input_shape[0], input_shape[-1])


@keras.saving.register_keras_serializable(package="keras_seqmech")
class MeanPooling(Pooling):
    r"""Mean over the real steps of a sequence.

    $$y = \frac{\sum_t v_t h_t}{\sum_t v_t}$$

    with v 1 at real steps. `keras.layers.GlobalAveragePooling1D` with a sum in
    float32 under half precision, and zeros where it gives NaN: in rows without
    a real step.

    Args:
        **kwargs: Base layer keyword arguments, such as `name` and `dtype`.

    Call arguments:
        sequence: Tensor `(batch, time, features)`.
        mask: Boolean tensor `(batch, time)`, True where a step is real, of any
            pattern; all steps if None.

    Output shape:
        `(batch, features)`.

    Masking: the values at masked steps reach neither output nor gradient; a row
    without a real step gives zeros.

    Cost: one pass over the sequences.

    Example:

    >>> import numpy as np
    >>> h = np.array([[[1.0, 0.0], [0.0, 2.0], [9.0, 9.0]]])
    >>> MeanPooling()(h, mask=np.array([[True, True, False]])).numpy()
    array([[0.5, 1. ]], dtype=float32)

    Source: "Analyzing the Learnability and Representability of Recurrent
    Architectures", section 1.3.1.
    """

    def pool(self, sequence: Tensor, mask: Tensor | None) -> Tensor:
        return mean(sequence, mask)


@keras.saving.register_keras_serializable(package="keras_seqmech")
class MaxPooling(Pooling):
    r"""Largest value of each feature over the real steps of a sequence.

    $$y^i = \max_{t : v_t = 1} h_t^i$$

    with v 1 at real steps. `keras.layers.GlobalMaxPooling1D` takes no mask and
    lets padding win wherever the real values are negative.

    Args:
        **kwargs: Base layer keyword arguments, such as `name` and `dtype`.

    Call arguments:
        sequence: Tensor `(batch, time, features)`.
        mask: Boolean tensor `(batch, time)`, True where a step is real, of any
            pattern; all steps if None.

    Output shape:
        `(batch, features)`.

    Masking: the values at masked steps reach neither output nor gradient; a row
    without a real step gives zeros. Steps that share the largest value share
    its gradient.

    Cost: a few passes over the sequences.

    Example:

    >>> import numpy as np
    >>> h = np.array([[[-1.0, -3.0], [-2.0, -2.0], [0.0, 0.0]]])
    >>> MaxPooling()(h, mask=np.array([[True, True, False]])).numpy()
    array([[-1., -2.]], dtype=float32)

    Source: "Analyzing the Learnability and Representability of Recurrent
    Architectures", section 1.3.1.
    """

    def pool(self, sequence: Tensor, mask: Tensor | None) -> Tensor:
        return maximum(sequence, mask)


@keras.saving.register_keras_serializable(package="keras_seqmech")
class LastPooling(Pooling):
    r"""The last real step of a sequence.

    $$y = h_n, \qquad \text{or}\quad
      y = [\overrightarrow{h}_n; \overleftarrow{h}_1]
      \quad\text{if bidirectional}$$

    with n the last real step and 1 the first. The second is what a
    `keras.layers.Bidirectional` that concatenates its directions has read by
    the end: its forward half at the last step, its backward half at the first.

    Args:
        bidirectional: Whether the first half of the features was read forwards
            and the second half backwards.
        **kwargs: Base layer keyword arguments, such as `name` and `dtype`.

    Call arguments:
        sequence: Tensor `(batch, time, features)`.
        mask: Boolean tensor `(batch, time)`, True where a step is real, of any
            pattern; all steps if None.

    Output shape:
        `(batch, features)`.

    Raises:
        ValueError: If bidirectional and the number of features is odd.

    Masking: the values at masked steps reach neither output nor gradient; a row
    without a real step gives zeros.

    Cost: it reads a step of each row.

    Example:

    >>> import numpy as np
    >>> h = np.array([[[1.0, 5.0], [2.0, 6.0], [3.0, 7.0]]])
    >>> mask = np.array([[True, True, False]])
    >>> LastPooling()(h, mask=mask).numpy()
    array([[2., 6.]], dtype=float32)
    >>> LastPooling(bidirectional=True)(h, mask=mask).numpy()
    array([[2., 5.]], dtype=float32)

    Source: "Analyzing the Learnability and Representability of Recurrent
    Architectures", section 1.3.1; the bidirectional case also "RNNs for
    arXiv/viXra title classification".
    """

    def __init__(self, bidirectional: bool = False, **kwargs: Any):
        super().__init__(**kwargs)
        self.bidirectional = checks.check_bool("bidirectional", bidirectional)

    def check_shape(self, shape: Sequence[int | None]) -> None:
        super().check_shape(shape)
        shape = tuple(shape)
        if self.bidirectional and (shape[-1] or 0) % 2:
            raise ValueError(
                "Argument `bidirectional` needs an even number of features, "
                "half of them from each direction. "
                f"Received: sequence.shape={shape}"
            )

    def pool(self, sequence: Tensor, mask: Tensor | None) -> Tensor:
        if not self.bidirectional:
            return last(sequence, mask)
        indices = [last_index(sequence, mask), first_index(sequence, mask)]
        ends = steps_at(sequence, ops.stack(indices, axis=1), mask)
        half = sequence.shape[-1] // 2
        return ops.concatenate([ends[:, 0, :half], ends[:, 1, half:]], axis=-1)

    def get_config(self) -> dict:
        return {**super().get_config(), "bidirectional": self.bidirectional}


@keras.saving.register_keras_serializable(package="keras_seqmech")
class ConcatPooling(Pooling):
    r"""Several poolings side by side: the last step, the maximum, the mean.

    $$y = [h_n;\; \max_t h_t;\; \tfrac{1}{n} \sum_t h_t]$$

    over real steps.

    Args:
        parts: What to concatenate and in which order, some of `"last"`,
            `"max"` and `"mean"`.
        **kwargs: Base layer keyword arguments, such as `name` and `dtype`.

    Call arguments:
        sequence: Tensor `(batch, time, features)`.
        mask: Boolean tensor `(batch, time)`, True where a step is real, of any
            pattern; all steps if None.

    Output shape:
        `(batch, features * len(parts))`.

    Raises:
        ValueError: If `parts` is empty, or a part is unknown or given twice.

    Masking: the values at masked steps reach neither output nor gradient; a row
    without a real step gives zeros.

    Cost: that of its parts.

    Example:

    >>> import numpy as np
    >>> h = np.array([[[4.0], [0.0], [2.0]]])
    >>> ConcatPooling()(h).numpy()
    array([[2., 4., 2.]], dtype=float32)

    Source: "RNNs for arXiv/viXra title classification", after ULMFiT.
    """

    def __init__(self, parts: Sequence[str] = PARTS, **kwargs: Any):
        if (
            not isinstance(parts, (list, tuple))
            or not parts
            or not all(part in PARTS for part in parts)
            or len(set(parts)) < len(parts)
        ):
            raise ValueError(
                f"Argument `parts` must hold some of {PARTS}, each once. "
                f"Received: parts={parts!r}"
            )
        super().__init__(**kwargs)
        self.parts = tuple(parts)

    def pool(self, sequence: Tensor, mask: Tensor | None) -> Tensor:
        pools = {
            "last": lambda: last(sequence, mask),
            "max": lambda: maximum(sequence, mask),
            "mean": lambda: mean(sequence, mask),
        }
        return ops.concatenate([pools[part]() for part in self.parts], axis=-1)

    def compute_output_shape(self, input_shape: Sequence[int | None]) -> Any:
        batch_size, features = super().compute_output_shape(input_shape)
        return (batch_size, features * len(self.parts))

    def get_config(self) -> dict:
        return {**super().get_config(), "parts": list(self.parts)}
