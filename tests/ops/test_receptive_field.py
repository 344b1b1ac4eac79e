"""Weights of a field's positions, by hand."""

import numpy as np

from keras_seqmech.ops import receptive_field


def test_keep_weights_by_hand():
    selection = np.array([[0.1, 0.2, 0.3, 0.4]])
    actual = receptive_field.keep_weights(selection, np.ones((1, 4)))
    np.testing.assert_allclose(actual, [[1.0, 0.9, 0.7, 0.4]])
    actual = receptive_field.keep_weights(selection, [[1.0, 0.0, 1.0, 0.0]])
    np.testing.assert_allclose(actual, [[1.0, 0.0, 0.7, 0.0]])
    weights = receptive_field.mean_weights(actual)
    np.testing.assert_allclose(weights, [[1 / 1.7, 0.0, 0.7 / 1.7, 0.0]])
    nothing = receptive_field.mean_weights(np.zeros((1, 4)))
    np.testing.assert_array_equal(nothing, np.zeros((1, 4)))
