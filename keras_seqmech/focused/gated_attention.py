r"""Attention over the states at open gates.

Each step has a gate $b_t$, which multiplies its mass in the softmax:

$$\alpha_t = \frac{b_t \exp(s_t)}{\sum_j b_j \exp(s_j)}.$$

Closed gates take their steps out, soft ones take part as far as they are open,
and all gates learn from what is read. Everything here is float32 or wider.
"""

import math

from keras import ops

from keras_seqmech.core import masks
from keras_seqmech.core.numerics import finite_gradient
from keras_seqmech.typing import Tensor

# Gates less open than this count as closed.
LEAST_OPEN = 1e-12


def gated_weights(
    scores: Tensor, gates: Tensor, mask: Tensor | None = None
) -> Tensor:
    r"""Weights $\alpha_t$ of the steps; zeros in rows without an open gate.

    Scores are finite; all are `(batch, time)`. Gates outside of 0 to 1 count as
    the nearest. Weights are 0 at masked steps and closed gates.

    A closed gate has a gradient, by which straight-through gates learn to
    open. It is computed as if its score were at most the largest $\log b_t +
    s_t$ of the open steps, so that one large score cannot dominate.
    """
    real = masks.real_steps(scores, mask)
    scores = ops.where(real, scores, ops.zeros_like(scores))
    gates = ops.where(real, ops.cast(gates, scores.dtype), 0)
    gates = finite_gradient(ops.clip(gates, 0, 1))
    is_open = gates >= LEAST_OPEN
    logs = ops.log(ops.where(is_open, gates, ops.ones_like(gates)))
    best = _largest(scores + logs, is_open)
    any_open = ops.any(is_open, axis=1, keepdims=True)
    best = ops.where(any_open, best, _largest(scores, real))
    # Of open steps the difference is at most -log(LEAST_OPEN).
    bound = ops.where(is_open, -2 * math.log(LEAST_OPEN), 0.0)
    bound = ops.cast(bound, scores.dtype)
    masses = gates * ops.exp(ops.minimum(scores - best, bound))
    # The largest mass of an open step is 1.
    total = ops.sum(masses, axis=1, keepdims=True)
    return masses / ops.where(any_open, total, ops.ones_like(total))


def _largest(scores: Tensor, among: Tensor) -> Tensor:
    """The largest of some scores of each row, without gradient."""
    scores = ops.where(among, scores, ops.full_like(scores, -1e30))
    largest = ops.max(scores, axis=1, keepdims=True, initial=-1e30)
    return ops.stop_gradient(largest)
