"""What an estimator makes of a decision drawn in training.

A decision is drawn by adding noise to its logits. `hard` is what the noisy
scores decide, a one-hot vector or a 0 or 1; `soft` its continuous relaxation.

- `"relaxed"`: soft, with its own gradient.
- `"straight_through"`: hard in value, with the gradient of soft.
- `"reinforce"`: hard, without gradient; learned by policy gradient from the
  log-probability of what was drawn.
"""

from collections.abc import Callable

from keras import ops

from keras_seqmech.typing import Tensor

ESTIMATORS = ("relaxed", "straight_through", "reinforce")


def estimate(
    hard: Tensor, relax: Callable[[], Tensor], estimator: str
) -> Tensor:
    """The decision that the forward pass uses.

    Args:
        hard: The hard decision, without gradient.
        relax: Function that makes the soft one, of the same shape and dtype.
        estimator: One of `ESTIMATORS`.

    Returns:
        Tensor of the shape of `hard`.
    """
    if estimator == "reinforce":
        return hard
    soft = relax()
    if estimator == "relaxed":
        return soft
    # The sum is exact: soft minus itself is 0 before the decision is added.
    return hard + (soft - ops.stop_gradient(soft))
