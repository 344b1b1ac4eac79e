r"""Gates that are open or closed, and their continuous relaxation.

A gate with logit $\ell$ is open with probability $\sigma(\ell)$. It is drawn
as $b = [\ell + g > 0]$ with logistic noise $g$; the relaxed sample at
temperature $\tau$ is the binary Concrete variable

$$\tilde b = \sigma((\ell + g) / \tau),$$

the `RelaxedBernoulli` of TensorFlow Probability with the noise drawn
beforehand. Everything here is float32 or wider.
"""

from keras import ops

from keras_seqmech.ops.decisions.estimators import estimate
from keras_seqmech.typing import Tensor


def draw(scores: Tensor, temperature: Tensor, estimator: str) -> Tensor:
    """Opens gates by noisy scores, as the estimator says.

    Args:
        scores: Logits with logistic noise, of any shape.
        temperature: Positive scalar; below 1e-6 it acts as 1e-6.
        estimator: One of `estimators.ESTIMATORS`.

    Returns:
        Tensor of the shape and dtype of `scores`, 0 or 1, or between them.
    """

    def relax() -> Tensor:
        divisor = ops.cast(ops.maximum(temperature, 1e-6), scores.dtype)
        return ops.sigmoid(scores / divisor)

    return estimate(hard(scores), relax, estimator)


def hard(scores: Tensor) -> Tensor:
    """Opens the gates whose score is above 0; passes no gradient.

    Of scores without noise these are the gates whose probability is above one
    half.
    """
    return ops.cast(scores > 0, ops.dtype(scores))


def log_probability(logits: Tensor, gates: Tensor) -> Tensor:
    """Log-probability of each of the `gates` that were drawn.

    Args:
        logits: Tensor of any shape.
        gates: Tensor of that shape, entries 0 or 1.

    Returns:
        Tensor of that shape, at most 0, with a gradient to `logits`.
    """
    signs = 2 * ops.stop_gradient(gates) - 1
    return ops.log_sigmoid(signs * logits)


def entropy(logits: Tensor) -> Tensor:
    """Entropy of each gate in nats, between 0 and log 2."""
    # With both terms positive nothing cancels, however large the logit.
    size = ops.abs(logits)
    return ops.softplus(-size) + size * ops.sigmoid(-size)
