"""What decisions cost, by hand."""

import numpy as np
import tensorflow as tf

from keras_seqmech.ops.decisions import costs


def test_excess_counts_real_steps():
    drawn = tf.constant([[1.0, 1, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]])
    mask = tf.constant([[True] * 4, [True, True, False, False], [False] * 4])
    np.testing.assert_allclose(costs.excess(drawn, mask, 0.25), [3, 1.5, 0])
    np.testing.assert_allclose(costs.excess(drawn, None, 0.25), [3, 1, 0])
