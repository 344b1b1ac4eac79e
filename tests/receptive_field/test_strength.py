"""Gates that start open, by `forget_strength`."""

import keras
import numpy as np
import pytest

from keras_seqmech import ReceptiveFieldRNN
from tests.tolerances import assert_close

FEATURES, UNITS, TIME = 3, 4, 6
CELLS = {
    "lstm": keras.layers.LSTMCell,
    "gru": keras.layers.GRUCell,
    "simple": keras.layers.SimpleRNNCell,
}


def sequences():
    return np.random.default_rng(0).normal(size=(8, TIME, FEATURES))


def strengths(layer):
    return layer.cell.forget_strength.numpy()


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("size_from", ["input", "field"])
def test_at_strength_zero_the_layer_is_the_cell(cell, training, size_from):
    inner = CELLS[cell](UNITS, dtype="float64")
    layer = ReceptiveFieldRNN(
        inner,
        3,
        gated="all",
        size_from=size_from,
        forget_strength=0,
        return_sequences=True,
        dtype="float64",
    )
    found = layer(sequences(), training=training)
    plain = keras.layers.RNN(inner, return_sequences=True, dtype="float64")
    assert_close(found, plain(sequences()), 20 * TIME)


@pytest.mark.parametrize("max_size", [1, 3])
def test_at_strength_one_the_gate_is_that_of_the_paper(max_size):
    layers = [
        ReceptiveFieldRNN(
            keras.layers.LSTMCell(UNITS, name="inner"),
            max_size,
            forget_strength=strength,
        )
        for strength in (None, 1)
    ]
    for layer in layers:
        layer.build((None, None, FEATURES))
    plain, full = layers
    full.cell.forget_strength.assign(0 * full.cell.forget_strength)
    differs = full(sequences())
    full.cell.forget_strength.assign(0 * full.cell.forget_strength + 1)
    own = {w.path.split("/", 1)[1]: w for w in full.weights}
    for weight in plain.weights:
        own[weight.path.split("/", 1)[1]].assign(weight)
    assert_close(full(sequences()), plain(sequences()), 40 * TIME)
    assert np.abs(differs - plain(sequences())).max() > 1e-3


def test_it_is_learned_and_stays_a_share():
    layer = ReceptiveFieldRNN(
        keras.layers.LSTMCell(UNITS), 3, forget_strength=0
    )
    model = keras.Sequential([layer, keras.layers.Dense(1)])
    x = sequences()
    model(x)
    before = {w.path: w.numpy() for w in layer.trainable_weights}
    model.compile("adam", "mse", run_eagerly=True)
    model.optimizer.learning_rate = 0.2
    model.fit(x, 5 * x[:, -1, :1], epochs=5, verbose=0)
    assert strengths(layer).min() == 0 < strengths(layer).max()
    assert strengths(layer).max() <= 1
    for weight in layer.trainable_weights:
        assert np.abs(weight.numpy() - before[weight.path]).max() > 0, weight
