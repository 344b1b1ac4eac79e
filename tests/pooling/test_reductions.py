"""The gradient of the maximum where steps are equal."""

import numpy as np
import tensorflow as tf

from keras_seqmech.pooling import reductions


def test_ties_of_the_maximum_share_its_gradient():
    sequences = tf.constant([[[2.0], [1.0], [2.0], [2.0]]])
    mask = tf.constant([[True, True, True, False]])
    with tf.GradientTape() as tape:
        tape.watch(sequences)
        pooled = reductions.maximum(sequences, mask)
    gradient = tape.gradient(pooled, sequences)
    np.testing.assert_allclose(gradient[0, :, 0], [0.5, 0, 0.5, 0])
