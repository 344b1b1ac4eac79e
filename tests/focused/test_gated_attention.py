"""Weights of gated steps against the definition, at its limits, by slopes."""

import numpy as np
import pytest
import tensorflow as tf

from keras_seqmech.focused.attention import gated_weights
from tests.finite_differences import gradient_and_difference

MASK = np.array([[1, 1, 1, 1], [1, 0, 1, 1], [1, 1, 1, 1]], "bool")


def draw(seed=0, scale=1.0):
    return scale * np.random.default_rng(seed).normal(size=(3, 4))


def test_gradients_are_those_of_finite_differences():
    upstream, scores = draw(2), draw(3)
    gates = np.array([[0.25, 1, 0.5, 0.75]] * 3) * 0.9
    for function, x in (
        (lambda x: gated_weights(x, gates, MASK) * upstream, scores),
        (lambda x: gated_weights(scores, x, MASK) * upstream, gates),
    ):
        exact, numeric = gradient_and_difference(function, x)
        assert abs(exact) > 1e-3
        np.testing.assert_allclose(exact, numeric, rtol=1e-6)


def test_closed_gates_learn_to_open():
    """As slopes at 0, where their scores are below the best one's."""
    scores = tf.constant([[1.0, 0.5, -2.0]], "float64")
    gates = tf.constant([[1.0, 0.0, 0.0]], "float64")
    values = tf.constant([3.0, 5.0, 7.0], "float64")

    def read(gates):
        return tf.reduce_sum(gated_weights(scores, gates) * values)

    with tf.GradientTape() as tape:
        tape.watch(gates)
        value = read(gates)
    gradient = tape.gradient(value, gates).numpy()[0]
    for i in (1, 2):
        opened = gates + 1e-7 * tf.one_hot([i], 3, dtype="float64")
        slope = (read(opened) - value) / 1e-7
        np.testing.assert_allclose(gradient[i], slope, rtol=1e-5)
    # A sole open step has all the weight, however open it is.
    np.testing.assert_allclose(gradient[0], 0, atol=1e-12)


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("scale", [1e3, 1e15])
def test_extreme_scores_and_gates_are_finite(scale, jit_compile):
    scores = tf.constant(draw(4, scale), "float32")
    gates = tf.constant([[0, 1e-30, 1e-9, 0.5], [0, 0, 0, 1], [0, 0, 0, 1e-20]])

    @tf.function(jit_compile=jit_compile)
    def run(scores, gates):
        with tf.GradientTape() as tape:
            tape.watch([scores, gates])
            weights = gated_weights(scores, gates)
            loss = tf.reduce_sum(weights * draw(5).astype("float32"))
        return weights, tape.gradient(loss, [scores, gates])

    weights, gradients = run(scores, gates)
    np.testing.assert_allclose(tf.reduce_sum(weights, axis=1)[:2], 1, rtol=1e-5)
    for x in (weights, *gradients):
        assert np.isfinite(x).all()


def test_closed_gates_of_a_closed_row_learn_by_their_scores():
    scores = tf.constant([[1.0, 0.5, -2.0]], "float64")
    gates = tf.zeros((1, 3), "float64")
    with tf.GradientTape() as tape:
        tape.watch(gates)
        weights = gated_weights(scores, gates)
    expected = np.exp(scores - 1.0)
    np.testing.assert_allclose(tape.gradient(weights, gates), expected)
