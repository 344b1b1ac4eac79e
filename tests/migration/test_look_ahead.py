"""A LookAhead in front of a trained layer: the same answers, and a gradient."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_seqmech.migration import look_ahead_from_keras

X = np.random.default_rng(0).normal(size=(3, 7, 4)).astype("float32")
MASK = np.arange(7) < np.array([[7], [4], [1]])


@pytest.mark.parametrize(
    "kind, max_size, options",
    [
        ("LSTM", 1, {}),
        ("LSTM", 5, {"stateful": True}),
        ("GRU", 5, {"dtype": "float64"}),
        ("SimpleRNN", 5, {"use_bias": False}),
    ],
)
def test_the_answers_of_the_layer(kind, max_size, options):
    layer = getattr(keras.layers, kind)(
        6, return_sequences=True, name="own", **options
    )
    expected = layer(X, mask=MASK)
    before = layer.get_weights()
    look, reader = look_ahead_from_keras(layer, max_size, return_field=True)
    read, _ = look(X, mask=MASK)
    assert look.dtype_policy == layer.dtype_policy
    found = reader(read, mask=MASK)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert type(reader) is type(layer) and reader.name == "own"
    for own, given in zip(layer.get_weights(), before):
        np.testing.assert_array_equal(own, given)


def test_what_is_read_ahead_has_a_gradient_at_once():
    layer = keras.layers.LSTM(6)
    layer(X)
    look, reader = look_ahead_from_keras(layer, 3)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(reader(look(X, context=X)) ** 2)
    gradient = tape.gradient(loss, reader.cell.kernel.value)
    assert np.abs(gradient[X.shape[-1] :]).sum(axis=1).min() > 0


@pytest.mark.parametrize(
    "layer",
    [
        keras.layers.LSTM(3),
        keras.layers.Dense(3),
        keras.layers.RNN(keras.layers.LSTMCell(3)),
        keras.layers.GRU(3, go_backwards=True),
    ],
    ids=["not built", "dense", "cells", "backwards"],
)
def test_other_layers_are_refused(layer):
    if type(layer) is not keras.layers.LSTM:
        layer(X)
    with pytest.raises(ValueError, match="must be a built `keras.layers.LSTM`"):
        look_ahead_from_keras(layer, 3)
