"""Gates against their formulas, TFP and frequencies."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_seqmech.core.decisions import choices
from keras_seqmech.core.decisions.choices import ESTIMATORS
from tests import references

LOGITS = np.array([-90.0, -6.0, -1.5, -0.2, 0.0, 0.3, 2.0, 7.0, 90.0])


@pytest.mark.parametrize("size", [90.0, 1e4, 1e30])
def test_huge_logits_stay_finite(size):
    logits = tf.constant([size, -size], "float32")
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(logits)
        likely = choices.gate_log_probability(logits, tf.constant([1.0, 0.0]))
        unlikely = choices.gate_log_probability(logits, tf.constant([0.0, 1.0]))
        entropy = choices.gate_entropy(logits)
        soft = choices.draw_gates(
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
    drawn = choices.draw_gates(
        logits, 0.7, estimator, keras.random.SeedGenerator(3)
    )
    opened = np.mean(drawn.numpy() > 0.5, axis=0)
    p = 1 / (1 + np.exp(-LOGITS))
    error = np.sqrt(p * (1 - p) / count)
    assert (np.abs(opened - p) <= 4.5 * error + 1e-12).all()


def test_straight_through_is_hard_with_the_soft_gradient():
    logits = tf.constant(LOGITS)

    def draw(estimator):
        return choices.draw_gates(
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


def dyadic(generator, shape):
    """Probabilities that the running sum adds up as they are."""
    scale = generator.choice([1.0, 0.1, 0.01], (shape[0], 1))
    steps = np.round(generator.uniform(size=shape) * scale * 2**24)
    return (steps / 2**24).astype("float32")


ALIKE = [[0.25] * 400, [0.5] * 400, [1 / 128] * 400, [0.0, 1.0] * 200]


def test_a_running_sum_is_the_exact_one():
    """Halves, too, and in chunks, in graphs and where XLA reorders sums."""
    generator = np.random.default_rng(2)
    p = np.concatenate([dyadic(generator, (12, 400)), ALIKE]).astype("float32")
    gates, total = choices.running_sum(tf.constant(p))
    expected = np.stack([references.running_sum_gates(row) for row in p])
    np.testing.assert_array_equal(gates, expected)
    sums = np.cumsum(p.astype("float64"), axis=1)
    np.testing.assert_array_equal(
        np.cumsum(gates, axis=1), np.floor(sums + 0.5)
    )
    np.testing.assert_array_equal(
        total[:, 0].numpy() / choices.PARTS, sums[:, -1]
    )
    for jit_compile in (False, True):
        run = tf.function(choices.running_sum, jit_compile=jit_compile)
        before, parts = tf.zeros((len(p), 1), "int64"), []
        for part in np.split(p, [1, 2, 100, 377], axis=1):
            opened, before = run(tf.constant(part), before)
            parts.append(opened)
        np.testing.assert_array_equal(np.concatenate(parts, axis=1), expected)
        np.testing.assert_array_equal(before, total)


def test_a_running_sum_of_many_steps_does_not_drift():
    """Roundings of 1 / 2**31 each, far beyond what float32 sums hold."""
    count = 2_000_000
    p = tf.fill((1, count), tf.constant(0.3, "float32"))
    gates, _ = choices.running_sum(p)
    exact = float(np.float32(0.3)) * count
    assert abs(np.sum(gates) - exact) <= 0.5 + count / 2**31
