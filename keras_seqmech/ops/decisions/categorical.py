r"""Discrete choices and their continuous relaxation.

A choice among S values with logits $\log d$ is drawn as the largest of
$\log d_i + g_i$, $g_i \sim \mathrm{Gumbel}(0, 1)$. The relaxed one-hot sample
is their softmax at temperature $\tau$,

$$I_i = \frac{\exp((\log d_i + g_i) / \tau)}
             {\sum_j \exp((\log d_j + g_j) / \tau)},$$

the `RelaxedOneHotCategorical` of TensorFlow Probability with the noise drawn
beforehand. Everything here is float32 or wider.
"""

from typing import Any

from keras import ops


def score_dtype(dtype: str) -> str:
    """The dtype of probabilities beside data of `dtype`: at least float32."""
    return "float64" if dtype == "float64" else "float32"


def gumbel_noise(
    shape: Any, seed_generator: Any, dtype: str = "float32"
) -> Any:
    """Draws Gumbel(0, 1) noise with TensorFlow Probability.

    Args:
        shape: Shape of the noise, of ints or scalar tensors.
        seed_generator: A `keras.random.SeedGenerator`.
        dtype: `"float32"` or `"float64"`; half precision would give infinite
            noise now and then.

    Returns:
        Tensor of `shape`.
    """
    # Imported here: it takes seconds, and inference never needs it.
    import tensorflow_probability as tfp

    seed = ops.cast(seed_generator.next(), "int32")
    location = ops.zeros((), dtype=dtype)
    return tfp.distributions.Gumbel(location, 1).sample(shape, seed=seed)


def logistic_noise(
    shape: Any, seed_generator: Any, dtype: str = "float32"
) -> Any:
    """Draws Logistic(0, 1) noise: the difference of two Gumbel draws.

    What decides between two values; see `gumbel_noise` for the arguments.
    """
    first, second = ops.unstack(
        gumbel_noise((2, *shape), seed_generator, dtype)
    )
    return first - second


def bound(logits: Any) -> Any:
    """Keeps logits finite, so that no difference of infinities arises.

    Args:
        logits: Tensor `(..., S)`, float32 or wider.

    Returns:
        Tensor of the same shape, entries between -1e30 and 1e30.
    """
    return ops.clip(logits, -1e30, 1e30)


def relaxed_one_hot(logits: Any, temperature: Any, noise: Any = 0) -> Any:
    """Relaxed one-hot sample, $softmax((logits + noise) / temperature)$.

    Args:
        logits: Tensor `(..., S)`, normalised or not.
        temperature: Positive scalar; below 1e-6 it acts as 1e-6.
        noise: Gumbel noise of the shape of `logits`; 0 for none.

    Returns:
        Tensor `(..., S)`, positive, sums to 1 over the last axis.
    """
    scores = ops.convert_to_tensor(logits + noise)
    largest = ops.stop_gradient(ops.max(scores, axis=-1, keepdims=True))
    # Scores up to 1e30 over 1e-6 stay finite once the largest is at 0.
    temperature = ops.cast(ops.maximum(temperature, 1e-6), scores.dtype)
    return ops.softmax((scores - largest) / temperature, axis=-1)


def hard_one_hot(scores: Any) -> Any:
    """One-hot vector of the largest score; passes no gradient.

    Args:
        scores: Tensor `(..., S)`.

    Returns:
        Tensor of the shape and dtype of `scores`.
    """
    largest = ops.argmax(scores, axis=-1)
    return ops.one_hot(largest, scores.shape[-1], dtype=scores.dtype)


def straight_through(soft: Any, scores: Any) -> Any:
    """One-hot vector of the largest score, with the gradient of `soft`.

    Args:
        soft: Relaxed one-hot sample `(..., S)`.
        scores: What it was made from, logits with noise, `(..., S)`. High
            temperatures make entries of `soft` equal that are not in `scores`.

    Returns:
        Tensor of the shape of `soft`, entries exactly 0 or 1.
    """
    # The sum is exact: soft minus itself is 0 before the one-hot is added.
    return hard_one_hot(scores) + (soft - ops.stop_gradient(soft))


def log_probability(logits: Any, selection: Any) -> Any:
    """Log-probability of a one-hot `selection` under softmax `logits`.

    Args:
        logits: Tensor `(..., S)`.
        selection: One-hot tensor of the same shape.

    Returns:
        Tensor `(...)`, at most 0, with a gradient to `logits`.
    """
    selection = ops.stop_gradient(selection)
    return ops.sum(ops.log_softmax(logits, axis=-1) * selection, axis=-1)


def entropy(logits: Any) -> Any:
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
