"""Draws of decisions in training, and the estimators of their gradients.

Distributions of TensorFlow Probability draw. Loops of the package draw noise
once, before they begin, with `gumbel_noise`. Decisions that no loop makes are
drawn as the relaxed samples themselves, by `relaxed_one_hot` and
`relaxed_gates`. Logits and noise are float32 or wider.

Where a distribution is a transformed one, TensorFlow Probability keeps each
tensor that it transformed, and with it the graph of each model that is traced,
for all time. Hence `_gumbel_sampler`, and `.distribution` in `relaxed_one_hot`.

`hard` is what a draw decides, a one-hot vector or a 0 or 1; `soft` its
continuous relaxation. An estimator says which of them a layer uses:

- `"relaxed"`: soft, with its own gradient.
- `"straight_through"`: hard in value, with the gradient of soft.
- `"reinforce"`: hard, without gradient; learned by policy gradient from the
  log-probability of what was drawn.
"""

import functools
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from keras_seqmech.core import checks
from keras_seqmech.typing import Tensor

ESTIMATORS = ("relaxed", "straight_through", "reinforce")


def estimate(
    hard: Tensor, relax: Callable[[], Tensor], estimator: str
) -> Tensor:
    """The decision that the forward pass uses: hard, or what `relax` makes."""
    if estimator == "reinforce":
        return hard
    soft = relax()
    if estimator == "relaxed":
        return soft
    # The sum is exact: soft minus itself is 0 before the decision is added.
    return hard + (soft - ops.stop_gradient(soft))


# Lower temperatures act as this one, and samples stay finite.
LEAST_TEMPERATURE = 1e-6


def distributions() -> Any:
    """`tensorflow_probability.distributions`, imported where first drawn from.

    The import takes longer than that of the package, which neither inference
    nor an export should wait for.
    """
    from tensorflow_probability import distributions

    return distributions


def gumbel_noise(
    shape: Any,
    seed_generator: keras.random.SeedGenerator,
    dtype: str = "float32",
) -> Tensor:
    """Draws Gumbel(0, 1) noise of a shape of ints or scalar tensors.

    Half precision would give infinite noise now and then.
    """
    sizes = tf.stack([tf.cast(size, "int32") for size in shape])
    noise = _gumbel_sampler(dtype)(sizes, _seed(seed_generator))
    return tf.ensure_shape(noise, tf.get_static_value(sizes, partial=True))


@functools.cache
def _gumbel_sampler(dtype: str) -> Callable[[Tensor, Tensor], Tensor]:
    """Function of a shape and a seed, with one small graph for all models."""

    @tf.function(
        input_signature=[
            tf.TensorSpec([None], "int32"),
            tf.TensorSpec([2], "int32"),
        ]
    )
    def sample(shape: Tensor, seed: Tensor) -> Tensor:
        gumbel = distributions().Gumbel(tf.zeros((), dtype), 1)
        return gumbel.sample(shape, seed=seed)

    return sample


def relaxed_one_hot(
    logits: Tensor,
    temperature: Tensor,
    seed_generator: keras.random.SeedGenerator,
) -> Tensor:
    """Draws a `RelaxedOneHotCategorical`; its largest entry is the choice.

    Logits `(..., S)` are finite, normalised or not. A temperature below 1e-6
    acts as 1e-6.
    """
    temperature = ops.maximum(temperature, LEAST_TEMPERATURE)
    relaxed = distributions().RelaxedOneHotCategorical(
        ops.cast(temperature, logits.dtype), logits=logits
    )
    # Its logarithm is what TensorFlow Probability draws.
    return ops.exp(relaxed.distribution.sample(seed=_seed(seed_generator)))


def relaxed_gates(
    logits: Tensor,
    temperature: Tensor,
    seed_generator: keras.random.SeedGenerator,
) -> Tensor:
    """Draws a relaxed Bernoulli for each logit; above one half it is open.

    These are the samples of `RelaxedBernoulli`, made from its `Logistic` noise:
    its own gradient is NaN where logit over temperature is above 88. Logits
    are finite. A temperature below 1e-6 acts as 1e-6.
    """
    logistic = distributions().Logistic(ops.zeros((), logits.dtype), 1)
    noise = logistic.sample(ops.shape(logits), seed=_seed(seed_generator))
    temperature = ops.maximum(temperature, LEAST_TEMPERATURE)
    return ops.sigmoid((logits + noise) / ops.cast(temperature, logits.dtype))


def hard_gates(
    probabilities: Tensor, seed_generator: keras.random.SeedGenerator
) -> Tensor:
    """Opens gates with their probabilities, as booleans.

    Surely False at probability 0 and surely True at 1.
    """
    bernoulli = distributions().Bernoulli(probs=probabilities, dtype="bool")
    return bernoulli.sample(seed=_seed(seed_generator))


def uniform_noise(
    shape: Any,
    seed_generator: keras.random.SeedGenerator,
    dtype: str = "float32",
    least: float = 0.0,
    most: float = 1.0,
) -> Tensor:
    """Draws uniform noise from `least` up to `most`."""
    checks.check_not_recomputed()
    return keras.random.uniform(shape, least, most, dtype, seed_generator)


def _seed(seed_generator: keras.random.SeedGenerator) -> Tensor:
    checks.check_not_recomputed()
    return ops.cast(seed_generator.next(), "int32")
