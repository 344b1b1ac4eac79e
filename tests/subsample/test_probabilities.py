"""Emission probabilities against their definition, and what they are for."""

import keras
import numpy as np
import pytest

from keras_seqmech import EmissionProbabilities

MASK = np.array([[1, 1, 1, 1, 1], [0, 1, 1, 0, 1], [0, 0, 0, 0, 0]], "bool")


def draw(*shape):
    return np.random.default_rng(0).normal(size=shape)


def test_value():
    steps = draw(3, 5, 4)
    layer = EmissionProbabilities(0.2, scale=2.0, dtype="float64")
    emission = layer(steps, mask=MASK)
    kernel, bias = layer.get_weights()
    assert np.std(kernel) > 0.2
    bias_at_start = np.log(0.2 / 0.8) / 2
    # Keras makes constants in float32.
    np.testing.assert_allclose(bias, bias_at_start, rtol=1e-7)
    expected = 1 / (1 + np.exp(-2 * (steps @ kernel + bias))) * MASK
    np.testing.assert_allclose(emission, expected, rtol=1e-12)


@pytest.mark.parametrize("size", [0.007, 0.2])
def test_logits_spread_with_the_states(size):
    """As the docstring says: 3 c sqrt(d) times their standard deviation."""
    random = np.random.default_rng(0)
    layer = EmissionProbabilities(0.25, scale=2.0, dtype="float64")
    keras.utils.set_random_seed(0)
    p = layer(random.normal(scale=size, size=(50, 40, 64))).numpy()
    spread = np.std(np.log(p / (1 - p)))
    # A kernel of 64 entries: its norm is within 30 % of the expected one.
    np.testing.assert_allclose(spread, 3 * 2 * 8 * size, rtol=0.3)
    np.testing.assert_allclose(np.median(p), 0.25, atol=0.1)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_half_precision_keeps_probabilities_wide(policy):
    steps = draw(2, 5, 3)
    layer = EmissionProbabilities(0.3, dtype=policy)
    emission = layer(steps)
    assert emission.dtype == "float32"
    kernel, bias = layer.get_weights()
    assert kernel.dtype == bias.dtype == "float32"
    half = keras.ops.cast(keras.ops.cast(steps, layer.compute_dtype), "float32")
    expected = 1 / (1 + np.exp(-3 * (half.numpy() @ kernel + bias)))
    np.testing.assert_allclose(emission, expected, rtol=1e-5)
