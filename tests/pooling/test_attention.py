"""Scores of keys: their scale, keys of zero length, huge ones."""

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_seqmech.pooling import attention


def draw(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def test_scale_of_keys_does_not_matter():
    query, sequences = draw(2, 3), draw(2, 4, 3)
    expected = attention.normalized_scores(query, ops.array(sequences))
    scales = np.array([1e-15, 1e-3, 1e3, 1e15])[:, None]
    scores = attention.normalized_scores(query, ops.array(sequences * scales))
    np.testing.assert_allclose(scores, expected, rtol=1e-12)
    single = ops.cast(sequences * scales, "float32")
    scores = attention.normalized_scores(ops.cast(query, "float32"), single)
    np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-6)


def test_zero_key_scores_zero_and_takes_no_gradient():
    keys = tf.constant([[[0.0, 0.0], [3.0, 4.0]]])
    query = tf.constant([[5.0, 10.0]])
    with tf.GradientTape() as tape:
        tape.watch([keys, query])
        scores = attention.normalized_scores(query, keys)
    np.testing.assert_allclose(scores, [[0, 11]], rtol=1e-6)
    of_keys, of_query = tape.gradient(scores, [keys, query])
    # d s / d h = (q - s h / |h|) / |h|
    np.testing.assert_allclose(of_keys, [[[0, 0], [-0.32, 0.24]]], atol=1e-6)
    np.testing.assert_allclose(of_query, [[0.6, 0.8]], rtol=1e-6)


def test_huge_ratios_stay_finite():
    scores = ops.array([[1e15, -1e15]], "float32")
    ratio = attention.attention_ratio(scores, ops.array([1]))
    assert np.isfinite(ratio).all()
    assert ratio[0] > 1e20


@pytest.mark.parametrize("size", [1e18, 1e19, 1e38, 3e38])
def test_gradients_at_huge_keys_are_finite(size):
    """Squares beyond float32, of keys, of the query, and of both."""
    huge, small = [size, -size, 0.0], [1.0, 2.0, 3.0]
    keys = tf.constant([[huge, small, [size, 0, size], [0.0, 0, 0]]])
    for query in (small, huge):
        query = tf.constant([query])
        with tf.GradientTape() as tape:
            tape.watch([keys, query])
            scores = attention.normalized_scores(query, keys)
            loss = 5 * tf.reduce_sum(scores)
        of_keys, of_query = tape.gradient(loss, [keys, query])
        assert np.isfinite(scores).all()
        assert np.isfinite(of_keys).all()
        assert np.isfinite(of_query).all()
        # Keys too long for their square take none.
        assert not of_keys[0, 0].numpy().any() or size == 1e18
        assert not of_keys[0, 3].numpy().any()
