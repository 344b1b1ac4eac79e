"""Divergence of gradients against numpy, and where they vanish."""

import numpy as np
import tensorflow as tf

from keras_seqmech.training.gradient_directed import gradient_divergence
from tests import references

BATCH, TIME = 4, 5
# A gap, padding, one real position, none.
MASK = np.array(
    [[1, 0, 1, 1, 1], [1, 1, 1, 0, 0], [0, 1, 0, 0, 0], [0, 0, 0, 0, 0]], "bool"
)


def test_divergence_function_against_numpy():
    rng = np.random.default_rng(0)
    gradients = rng.normal(size=(BATCH, TIME, 3))
    gradients[0, 2] = 0
    expected = references.gradient_divergence(
        np.linalg.norm(gradients, axis=-1), MASK
    )
    assert expected[:2].min() > 0.01 and not expected[2:].any()
    with_nan = np.where(MASK[..., None], gradients, np.nan)
    found = gradient_divergence(with_nan, MASK).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)
    # Vanished and exploding gradients of any scale, row by row.
    scales = np.array([1e-33, 1e33, 1.0, 1.0]).reshape(-1, 1, 1)
    scaled = (scales * gradients).astype("float32")
    found = gradient_divergence(scaled, MASK).numpy()
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6)


def test_divergence_of_what_is_not_finite():
    gradients = np.ones((5, TIME, 2), "float32")
    gradients[0, 1, 0] = np.inf
    gradients[1, 2, 1] = np.nan
    gradients[2] = np.nan
    gradients[3, 0] = np.nan
    mask = np.ones((5, TIME), bool)
    mask[3, 0] = False
    found = gradient_divergence(gradients, mask).numpy()
    assert np.isnan(found).tolist() == [True, True, True, False, False]


def test_divergence_has_finite_gradients():
    gradients = np.zeros((3, TIME, 2), "float32")
    gradients[0, 1] = 1
    gradients[1] = 2
    x = tf.constant(gradients)
    with tf.GradientTape() as tape:
        tape.watch(x)
        total = tf.reduce_sum(gradient_divergence(x))
    np.testing.assert_allclose(total, np.log(TIME), rtol=1e-6)
    assert np.isfinite(tape.gradient(total, x)).all()
