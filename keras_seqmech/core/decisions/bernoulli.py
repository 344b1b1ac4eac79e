r"""Gates that are open or closed, and their continuous relaxation.

A gate with logit $\ell$ is open with probability $\sigma(\ell)$. Its relaxed
sample at temperature $\tau$ is the binary Concrete variable

$$\tilde b = \sigma((\ell + g) / \tau),$$

$g$ logistic noise: `RelaxedBernoulli` of TensorFlow Probability. The hard one
is $b = [\tilde b > 1/2]$. Everything here is float32 or wider.
"""

import keras
from keras import ops

from keras_seqmech.core.decisions import sampling
from keras_seqmech.core.decisions.penalties import Measures
from keras_seqmech.core.decisions.sampling import estimate
from keras_seqmech.typing import Tensor


def draw(
    logits: Tensor,
    temperature: Tensor,
    estimator: str,
    seed_generator: keras.random.SeedGenerator,
) -> Tensor:
    """Opens gates of finite logits by chance, as the estimator says.

    Gates have the shape and dtype of the logits, and are 0 or 1, or relaxed
    between them. A temperature below 1e-6 acts as 1e-6.
    """
    soft = sampling.relaxed_gates(logits, temperature, seed_generator)
    hard = ops.cast(soft > 0.5, ops.dtype(soft))
    return estimate(hard, lambda: soft, estimator)


def most_likely(logits: Tensor) -> Tensor:
    """Opens the gates whose probability is above 0.5; passes no gradient."""
    return ops.cast(logits > 0, ops.dtype(logits))


def log_probability(logits: Tensor, gates: Tensor) -> Tensor:
    """Log-probability of each of the `gates`, 0 or 1, that were drawn.

    It has a gradient to the logits.
    """
    signs = 2 * ops.stop_gradient(gates) - 1
    return ops.log_sigmoid(signs * logits)


def entropy(logits: Tensor) -> Tensor:
    """Entropy of each gate in nats, between 0 and log 2."""
    # With both terms positive nothing cancels, however large the logit.
    size = ops.abs(logits)
    return ops.softplus(-size) + size * ops.sigmoid(-size)


def measure(logits: Tensor, gates: Tensor | None = None) -> Measures:
    """Measures of gates `(batch, time)`, or of their probabilities if None.

    The gate is both what is read and what has the target.
    """
    probabilities = ops.sigmoid(logits)
    gates = probabilities if gates is None else gates
    indecision = 4 * probabilities * ops.sigmoid(-logits)
    return Measures(gates, gates, entropy(logits), indecision)
