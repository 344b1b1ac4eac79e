"""Gates against their formulas, TFP and frequencies."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_seqmech.core.decisions import bernoulli
from keras_seqmech.core.decisions.sampling import ESTIMATORS

LOGITS = np.array([-90.0, -6.0, -1.5, -0.2, 0.0, 0.3, 2.0, 7.0, 90.0])


def test_log_probability_and_entropy_are_those_of_a_coin():
    small = LOGITS[1:-1]
    p = 1 / (1 + np.exp(-small))
    closed = bernoulli.log_probability(small, np.zeros_like(small))
    opened = bernoulli.log_probability(small, np.ones_like(small))
    np.testing.assert_allclose(np.exp(opened), p, rtol=1e-12)
    np.testing.assert_allclose(np.exp(closed), 1 - p, rtol=1e-12)
    expected = -p * np.log(p) - (1 - p) * np.log(1 - p)
    np.testing.assert_allclose(bernoulli.entropy(small), expected, rtol=1e-10)


@pytest.mark.parametrize("size", [90.0, 1e4, 1e30])
def test_huge_logits_stay_finite(size):
    logits = tf.constant([size, -size], "float32")
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(logits)
        likely = bernoulli.log_probability(logits, tf.constant([1.0, 0.0]))
        unlikely = bernoulli.log_probability(logits, tf.constant([0.0, 1.0]))
        entropy = bernoulli.entropy(logits)
        soft = bernoulli.draw(
            logits, 1e-6, "relaxed", keras.random.SeedGenerator(3)
        )
    np.testing.assert_allclose(likely, [0, 0], atol=1e-30)
    np.testing.assert_allclose(unlikely, [-size, -size], rtol=1e-6)
    np.testing.assert_allclose(entropy, [0, 0], atol=1e-30)
    np.testing.assert_allclose(soft, [1, 0])
    for value in (likely, unlikely, entropy, soft):
        assert np.isfinite(tape.gradient(value, logits)).all()


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_frequencies_are_the_probabilities(estimator):
    """Each within 4.5 standard errors: a false alarm in 15,000 runs of 9."""
    count = 20_000
    logits = tf.tile(tf.constant(LOGITS, "float32")[None], (count, 1))
    drawn = bernoulli.draw(
        logits, 0.7, estimator, keras.random.SeedGenerator(3)
    )
    opened = np.mean(drawn.numpy() > 0.5, axis=0)
    p = 1 / (1 + np.exp(-LOGITS))
    error = np.sqrt(p * (1 - p) / count)
    assert (np.abs(opened - p) <= 4.5 * error + 1e-12).all()


def test_straight_through_is_hard_with_the_soft_gradient():
    logits = tf.constant(LOGITS)

    def draw(estimator):
        return bernoulli.draw(
            logits, 0.5, estimator, keras.random.SeedGenerator(6)
        )

    with tf.GradientTape(persistent=True) as tape:
        tape.watch(logits)
        hard, soft = draw("straight_through"), draw("relaxed")
    np.testing.assert_array_equal(hard, soft.numpy() > 0.5)
    np.testing.assert_array_equal(
        tape.gradient(hard, logits), tape.gradient(soft, logits)
    )
    assert (tape.gradient(soft, logits).numpy()[3:6] > 0).all()
