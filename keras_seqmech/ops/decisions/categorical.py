r"""A choice among S values, and its continuous relaxation.

A choice with logits $\log d$ is drawn as the largest of the scores
$\log d_i + g_i$, $g_i \sim \mathrm{Gumbel}(0, 1)$. The relaxed one-hot sample
is their softmax at temperature $\tau$,

$$I_i = \frac{\exp((\log d_i + g_i) / \tau)}
             {\sum_j \exp((\log d_j + g_j) / \tau)},$$

the `RelaxedOneHotCategorical` of TensorFlow Probability with the noise drawn
beforehand. Everything here is float32 or wider.
"""

import tensorflow as tf
from keras import ops

from keras_seqmech.ops.decisions.estimators import estimate
from keras_seqmech.ops.precision import LARGEST_LOGIT
from keras_seqmech.typing import Tensor


def draw(scores: Tensor, temperature: Tensor, estimator: str) -> Tensor:
    """Chooses by noisy scores, as the estimator says.

    Args:
        scores: Logits with Gumbel noise, `(..., S)`.
        temperature: Positive scalar; below 1e-6 it acts as 1e-6.
        estimator: One of `estimators.ESTIMATORS`.

    Returns:
        One-hot or relaxed one-hot tensor of the shape and dtype of `scores`.
    """
    # Hard choices are made by the scores: high temperatures make entries of
    # the soft one equal that are not equal in the scores.
    return estimate(
        hard_one_hot(scores),
        lambda: relaxed_one_hot(scores, temperature),
        estimator,
    )


def relaxed_one_hot(
    logits: Tensor, temperature: Tensor, noise: Tensor = 0
) -> Tensor:
    """Relaxed one-hot sample, $softmax((logits + noise) / temperature)$.

    Args:
        logits: Tensor `(..., S)`, normalised or not.
        temperature: Positive scalar; below 1e-6 it acts as 1e-6.
        noise: Gumbel noise of the shape of `logits`; 0 for none.

    Returns:
        Tensor `(..., S)`, positive, sums to 1 over the last axis.
    """
    scores = ops.convert_to_tensor(logits + noise)
    # The initial value is for batches of no rows.
    largest = ops.max(scores, axis=-1, keepdims=True, initial=-LARGEST_LOGIT)
    largest = ops.stop_gradient(largest)
    # Scores up to 1e30 over 1e-6 stay finite once the largest is at 0.
    temperature = ops.cast(ops.maximum(temperature, 1e-6), scores.dtype)
    return ops.softmax((scores - largest) / temperature, axis=-1)


def hard_one_hot(scores: Tensor) -> Tensor:
    """One-hot vector of the largest score; passes no gradient.

    Args:
        scores: Tensor `(..., S)`.

    Returns:
        Tensor of the shape and dtype of `scores`.
    """
    return tf.one_hot(best(scores), scores.shape[-1], dtype=scores.dtype)


def best(scores: Tensor) -> Tensor:
    """Index of the largest score, the first where several are largest.

    Args:
        scores: Tensor `(..., S)`.

    Returns:
        int32 tensor `(...)`.
    """
    # `ops.argmax` orders zeros by their sign, in seven operations more, of
    # which LiteRT lacks one.
    return tf.argmax(scores, axis=-1, output_type="int32")


def log_probability(logits: Tensor, selection: Tensor) -> Tensor:
    """Log-probability of a one-hot `selection` under softmax `logits`.

    Args:
        logits: Tensor `(..., S)`.
        selection: One-hot tensor of the same shape.

    Returns:
        Tensor `(...)`, at most 0, with a gradient to `logits`.
    """
    selection = ops.stop_gradient(selection)
    return ops.sum(ops.log_softmax(logits, axis=-1) * selection, axis=-1)


def entropy(logits: Tensor) -> Tensor:
    """Entropy of softmax `logits` over the last axis, in nats.

    Args:
        logits: Tensor `(..., S)`.

    Returns:
        Tensor `(...)`, between 0 and log S.
    """
    log_probabilities = ops.log_softmax(logits, axis=-1)
    # -inf * 0 would be NaN where a probability underflows.
    log_probabilities = ops.maximum(log_probabilities, -1e30)
    return -ops.sum(ops.exp(log_probabilities) * log_probabilities, axis=-1)
