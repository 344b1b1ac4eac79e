r"""Attention over the steps of one sequence.

A query q of `(features,)` or `(batch, features)` scores each step; scores
become weights, $\alpha_t = \exp(s_t) / \sum_j \exp(s_j)$ over real steps, and
the weights sum up the steps. One query a row: time and memory grow with T, not
with its square.

Sequences are `(batch, time, features)`, masks boolean `(batch, time)` or None;
scores and weights are `(batch, time)`, float32 or wider.
"""

from keras import ops

from keras_seqmech.core.numerics import finite
from keras_seqmech.core.numerics import score_dtype
from keras_seqmech.typing import Tensor

# Larger scores count as this one and take no gradient, which could overflow.
LARGEST_SCORE = 1e15


def dot_scores(query: Tensor, sequence: Tensor) -> Tensor:
    """Scores $s_t = h_t^T q$ of finite sequences."""
    dtype = score_dtype(sequence.dtype)
    keys, query = ops.cast(sequence, dtype), ops.cast(query, dtype)
    if len(query.shape) == 1:
        return finite(ops.matmul(keys, query), LARGEST_SCORE)
    scores = ops.matmul(keys, ops.expand_dims(query, axis=-1))
    return finite(ops.squeeze(scores, axis=-1), LARGEST_SCORE)


def attention_weights(scores: Tensor, real: Tensor) -> Tensor:
    """Softmax over the real steps, 0 at others; zeros in rows without one.

    Steps are the last axis; `real` is boolean and broadcasts to the scores.
    """
    scores = ops.where(real, scores, ops.full_like(scores, -1e30))
    masses = ops.exp(scores - largest(scores, real))
    masses = ops.where(real, masses, ops.zeros_like(masses))
    # A row without a real step divides by 1; in others the sum is above 1.
    return masses / ops.maximum(ops.sum(masses, axis=-1, keepdims=True), 1)


def largest(scores: Tensor, among: Tensor) -> Tensor:
    """The largest of some scores of each row, without gradient."""
    scores = ops.where(among, scores, ops.full_like(scores, -1e30))
    found = ops.max(scores, axis=-1, keepdims=True, initial=-1e30)
    return ops.stop_gradient(found)


def weighted_sum(weights: Tensor, sequence: Tensor) -> Tensor:
    r"""$\sum_t \alpha_t h_t$, in the dtype of the weights `(batch, time)`.

    Steps must be finite also where weights are 0.
    """
    values = ops.cast(sequence, weights.dtype)
    # As a product of matrices; an einsum takes twice as long here.
    pooled = ops.matmul(ops.expand_dims(weights, axis=1), values)
    return ops.cast(ops.squeeze(pooled, axis=1), sequence.dtype)
