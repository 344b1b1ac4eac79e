"""Discrete choices against TensorFlow Probability and closed forms."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_probability import distributions as tfd

from keras_seqmech.core.decisions import choices

LOGITS = np.array([[0.3, -1.2, 0.9, 0.0], [2.0, 2.0, -3.0, 1.0]], "float32")


def test_noise_drawn_beforehand_gives_samples_like_those_of_tfp():
    """First and second moments of 100,000 samples each; five errors."""
    count, temperature = 100_000, 0.7
    distribution = tfd.RelaxedOneHotCategorical(temperature, logits=LOGITS)
    theirs = distribution.sample(count, seed=tf.constant([3, 5])).numpy()
    generator = keras.random.SeedGenerator(4)
    noise = choices.gumbel_noise((count, *LOGITS.shape), generator)
    ours = choices.tempered_softmax(LOGITS + noise, temperature).numpy()
    for power in (1, 2):
        a, b = ours**power, theirs**power
        error = np.sqrt((a.var(axis=0) + b.var(axis=0)) / count)
        assert np.all(np.abs(a.mean(axis=0) - b.mean(axis=0)) < 5 * error)


@pytest.mark.parametrize("temperature", [1e-38, 0.3, 1e30])
def test_straight_through_is_exactly_one_hot_with_the_soft_gradient(
    temperature,
):
    logits = tf.constant(np.random.default_rng(0).normal(size=(1000, 4)) * 9)
    scale = tf.constant([1.0, -2.0, 3.0, 0.5], "float64")
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(logits)
        soft = choices.tempered_softmax(logits, temperature)
        hard = choices.sizes_of_scores(logits, temperature, "straight_through")
        assert choices.tempered_softmax(logits[:0], 0.5).shape == (0, 4)
        losses = [tf.reduce_sum(scale * x) for x in (soft, hard)]
    assert set(np.unique(hard)) == {0.0, 1.0}
    assert np.array_equal(np.argmax(hard, -1), np.argmax(logits, -1))
    expected, actual = (tape.gradient(loss, logits) for loss in losses)
    np.testing.assert_array_equal(actual, expected)


def test_entropy_and_log_probability_of_extreme_logits():
    logits = np.array([[0.0] * 4, [1e30, 0, 0, 0], [-1e30, 0, 0, 0]], "float32")
    expected = [np.log(4), 0, np.log(3)]
    np.testing.assert_allclose(
        choices.size_entropy(logits), expected, atol=1e-6
    )
    chosen = choices.hard_one_hot(logits)
    actual = choices.size_log_probability(logits, chosen)
    np.testing.assert_allclose(actual, [-np.log(4), 0, -np.log(3)], atol=1e-6)
