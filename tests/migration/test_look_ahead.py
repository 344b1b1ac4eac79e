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


def adapted():
    scaled = keras.layers.Normalization()
    scaled.adapt(5 + 3 * X)
    return scaled


def test_layers_called_again_keep_what_they_were_adapted_to(tmp_path):
    inputs = keras.Input((None, 4))
    scaled, lstm = adapted(), keras.layers.LSTM(6)
    model = keras.Model(inputs, lstm(scaled(inputs)))
    look, reader = look_ahead_from_keras(lstm, 3)
    ahead = keras.Model(inputs, reader(look(scaled(inputs))))
    ahead.save(tmp_path / "ahead.keras")
    expected = model(X)
    assert np.abs(expected - lstm(X)).max() > 0.1
    for one in (ahead, keras.saving.load_model(tmp_path / "ahead.keras")):
        np.testing.assert_allclose(one(X), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("activation", ["activation", "recurrent_activation"])
def test_activations_that_are_layers_are_refused(activation):
    """The weights of this one alone would leave it unadapted."""
    scaled = keras.layers.Normalization()
    scaled.adapt(5 + 3 * np.random.default_rng(1).normal(size=(9, 6)))
    layer = keras.layers.LSTM(6, **{activation: scaled})
    layer(X)
    with pytest.raises(ValueError, match="functions as act.*<Normalization"):
        look_ahead_from_keras(layer, 3)


@pytest.mark.parametrize("part", ["layer", "cell"])
def test_what_is_frozen_stays_frozen(part):
    layer = keras.layers.GRU(6)
    layer(X)
    (layer if part == "layer" else layer.cell).trainable = False
    _, reader = look_ahead_from_keras(layer, 3)
    assert len(reader.weights) == 3 and not reader.trainable_weights


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
