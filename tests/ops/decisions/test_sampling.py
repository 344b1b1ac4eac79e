"""Noise is that of TensorFlow Probability, and lets go of graphs."""

import gc
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from keras_seqmech.ops.decisions import sampling


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gumbel_noise_is_drawn_as_tfp_draws_it(dtype):
    generator = keras.random.SeedGenerator(5)
    seed = keras.ops.cast(keras.random.SeedGenerator(5).next(), "int32")
    noise = sampling.gumbel_noise((1000, 3), generator, dtype)
    expected = tfp.distributions.Gumbel(tf.zeros((), dtype), 1).sample(
        (1000, 3), seed=seed
    )
    assert noise.dtype == dtype
    np.testing.assert_array_equal(noise, expected)


def test_graphs_that_draw_are_freed():
    generator = keras.random.SeedGenerator(5)
    draw = tf.function(lambda: sampling.logistic_noise((2, 3), generator))
    draw()
    graph = weakref.ref(draw.get_concrete_function().graph)
    assert graph() is not None
    del draw
    gc.collect()
    assert graph() is None
