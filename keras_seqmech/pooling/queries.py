"""Attention of a query that is learned, the maximum, or the last step."""

from typing import NamedTuple

from keras import ops

from keras_seqmech.core import masks
from keras_seqmech.core.attention import LARGEST_SCORE
from keras_seqmech.core.attention import attention_weights
from keras_seqmech.core.attention import dot_scores
from keras_seqmech.core.attention import weighted_sum
from keras_seqmech.core.numerics import finite
from keras_seqmech.core.numerics import score_dtype
from keras_seqmech.pooling import time_reductions
from keras_seqmech.typing import Tensor

# Squared norms that float32 holds; others would give 0/0 or inf/inf.
MIN_SQUARED_NORM, MAX_SQUARED_NORM = 1e-36, 1e36
# Larger differences of scores count as this one: their exponential is finite.
LARGEST_DIFFERENCE = 60


class Attended(NamedTuple):
    """The weighted sum of the steps, `(batch, features)`, and the weights.

    Weights are 0 at masked steps.
    """

    pooled: Tensor
    weights: Tensor


def learned_attention(
    query: Tensor, sequence: Tensor, mask: Tensor | None
) -> Attended:
    """Attention of one query `(features,)` for all rows."""
    sequence = masks.zero_masked_forward(sequence, mask)
    real = masks.real_steps(sequence, mask)
    weights = attention_weights(dot_scores(query, sequence), real)
    return Attended(weighted_sum(weights, sequence), weights)


def max_attention(sequence: Tensor, mask: Tensor | None) -> Attended:
    """Attention whose query is the maximum over time, to unit keys."""
    sequence = masks.zero_masked_forward(sequence, mask)
    query = time_reductions.maximum(sequence, mask)
    real = masks.real_steps(sequence, mask)
    weights = attention_weights(normalized_scores(query, sequence), real)
    return Attended(weighted_sum(weights, sequence), weights)


def last_attention(
    sequence: Tensor, mask: Tensor | None, rate: Tensor, noise: Tensor
) -> tuple[Attended, Tensor]:
    """Attention whose query is the last real step, to unit keys.

    Others are dropped at random: a share `rate` of them, 1 for all, by `noise`
    `(batch, time)`, uniform in [0, 1). The second result is `attention_ratio`.
    """
    sequence = masks.zero_masked_forward(sequence, mask)
    last = time_reductions.last_index(sequence, mask)
    query = time_reductions.steps_at(sequence, last[:, None])[:, 0]
    scores = normalized_scores(query, sequence)
    real = masks.real_steps(sequence, mask)
    steps = ops.arange(ops.shape(real)[1], dtype="int32")
    stays = ops.equal(steps, ops.cast(last, "int32")[:, None])
    kept = ops.logical_and(real, ops.logical_or(stays, noise >= rate))
    weights = attention_weights(scores, kept)
    pooled = weighted_sum(weights, sequence)
    return Attended(pooled, weights), attention_ratio(scores, last, kept)


def normalized_scores(query: Tensor, sequence: Tensor) -> Tensor:
    r"""Scores of unit keys, $s_t = (h_t / \lVert h_t \rVert)^T q$.

    The scale of a key does not matter, and $|s_t| \le \lVert q \rVert$. A key
    that is zero scores 0 and takes no gradient; so do keys of norm below 1e-18
    or above 1e18. A query with an entry beyond 1e15 passes no gradient
    through its scores. Other gradients are finite.
    """
    dtype = score_dtype(sequence.dtype)
    keys, query = ops.cast(sequence, dtype), ops.cast(query, dtype)
    # Not `ops.square`: where the square overflows, so does its derivative, and
    # 0 times infinity would be NaN.
    squares = ops.sum(keys * keys, axis=-1)
    has_norm = ops.logical_and(
        squares > MIN_SQUARED_NORM, squares < MAX_SQUARED_NORM
    )
    squares = ops.where(has_norm, squares, ops.ones_like(squares))
    # A query of entries up to 1 keeps the product within what float32 holds.
    scale = ops.max(ops.abs(query), axis=-1, keepdims=True, initial=1)
    scale = ops.stop_gradient(scale)
    cosines = dot_scores(query / scale, keys) / ops.sqrt(squares)
    scores = ops.where(has_norm, cosines, ops.zeros_like(cosines)) * scale
    scores = finite(scores, LARGEST_SCORE)
    return ops.where(scale <= LARGEST_SCORE, scores, ops.stop_gradient(scores))


def attention_ratio(
    scores: Tensor, index: Tensor, mask: Tensor | None = None
) -> Tensor:
    r"""Ratio of the attention to the other steps to that to one, per row.

    $$\sum_{t \ne n} \alpha_t / \alpha_n = \sum_{t \ne n} \exp(s_t - s_n)$$

    with n the `index` `(batch,)`. Computed from the scores, so that nothing is
    divided by a vanishing $\alpha_n$; differences of scores above 60 count as
    60. A row without a real step gives 0.
    """
    real = masks.real_steps(scores, mask)
    steps = ops.arange(ops.shape(scores)[1], dtype="int32")
    chosen = ops.equal(steps, ops.expand_dims(ops.cast(index, "int32"), 1))
    others = ops.logical_and(real, ops.logical_not(chosen))
    score = ops.where(chosen, scores, ops.zeros_like(scores))
    differences = scores - ops.sum(score, axis=1, keepdims=True)
    ratios = ops.exp(ops.minimum(differences, LARGEST_DIFFERENCE))
    return ops.sum(ops.where(others, ratios, ops.zeros_like(ratios)), axis=1)
