"""Gradient profiles of a BiLSTM, against a tape around its bare cells."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from examples.pooling import classifiers
from examples.pooling import gradients

IDS = np.array([[5, 8, 1, 2, 4], [3, 2, 7, 0, 0]])
LABELS = np.array([1, 0])


def classifier(name="maxatt"):
    matrix = np.random.default_rng(0).normal(size=(9, 5)).astype("float32")
    return classifiers.bilstm_classifier(name, matrix, 3)


def bumped(lstm, x, bumps):
    """Runs a bare cell over one text, bumping its outputs."""
    turn = -1 if lstm.go_backwards else 1
    states = [tf.zeros((1, lstm.units))] * 2
    found = []
    for step, bump in zip(x[::turn], bumps[::turn]):
        hidden, (_, memory) = lstm.cell(step[None], states)
        states = [hidden + bump, memory]
        found.append(states[0])
    return tf.concat(found[::turn], axis=0)


@pytest.mark.parametrize("name", ["bilstm", "maxatt"])
def test_norms_are_those_of_an_unrolled_tape(name):
    model = classifier(name)
    rnn, pooling = model.get_layer("rnn"), model.get_layer("pooling")
    norms, mask = gradients.GradientProbe(model).norms(IDS, LABELS)
    np.testing.assert_array_equal(mask, IDS != 0)
    for row, label, found in zip(IDS, LABELS, norms.numpy()):
        x = model.get_layer("embedding")(row[row != 0])
        bumps = [[tf.Variable(tf.zeros((1, 3))) for _ in x] for _ in range(2)]
        with tf.GradientTape() as tape:
            states = [
                bumped(lstm, x, own)
                for lstm, own in zip(
                    (rnn.forward_layer, rnn.backward_layer), bumps
                )
            ]
            sentence = pooling(tf.concat(states, axis=-1)[None])
            loss = -tf.math.log(model.get_layer("classifier")(sentence))
            loss = loss[0, label]
        slopes = np.array(tape.gradient(loss, bumps))
        expected = np.sqrt(np.sum(slopes**2, axis=(0, 2, 3)))
        assert (expected > 0).all()
        # Some thirty roundings of float32.
        np.testing.assert_allclose(found[: len(x)], expected, rtol=1e-4)


def test_ratio_by_hand():
    found = gradients.vanishing_ratio(np.arange(1.0, 101.0))
    assert found == pytest.approx(np.mean(np.arange(46, 56)), abs=1e-15)
    assert gradients.vanishing_ratio(np.zeros(100)) == 1.0


@pytest.mark.long
def test_training_logs_the_ratio_and_is_the_same():
    ratio = gradients.VanishingRatio(IDS, LABELS, every=2)
    models, histories = [], []
    for callbacks in ([ratio], []):
        keras.utils.set_random_seed(1)
        models.append(classifier())
        classifiers.compile_classifier(models[-1], learning_rate=0.1)
        ids, labels = np.tile(IDS, (3, 1)), np.tile(LABELS, 3)
        fit = models[-1].fit(ids, labels, 2, 2, verbose=0, callbacks=callbacks)
        histories.append(fit.history)
    measured, plain = models
    for weight, other in zip(measured.get_weights(), plain.get_weights()):
        np.testing.assert_array_equal(weight, other)
    assert ratio.history["step"] == [0, 2, 3, 4, 6]
    values = ratio.history["vanishing_ratio"]
    assert len({*values}) == 5
    assert histories[0]["vanishing_ratio"] == [values[2], values[4]]
    profile = gradients.GradientProbe(measured).profile(IDS, LABELS)
    assert values[4] == gradients.vanishing_ratio(profile)
