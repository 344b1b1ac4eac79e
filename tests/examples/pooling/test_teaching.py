"""Directed gradients against closed forms and finite differences."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from examples.pooling import classifiers
from examples.pooling import teaching
from keras_seqmech import LastPooling
from tests import references

IDS = np.array([[5, 3, 7, 2, 6], [4, 6, 3, 0, 0], [2, 0, 0, 0, 0]])
LABELS = np.array([1, 0, 1])
MASK = IDS != 0


def network():
    matrix = np.random.default_rng(0).normal(size=(9, 2))
    lstm = keras.layers.LSTM(2, return_sequences=True, name="rnn")
    model = classifiers.connect(lstm, LastPooling(name="pooling"), matrix)
    random = np.random.default_rng(1)
    for variable in model.trainable_variables[1:]:
        variable.assign(random.normal(size=variable.shape, scale=0.8))
    return model


def loss_of(network, weight):
    """A function: the loss put together from first derivatives."""
    embedding, rnn, pooling, classifier = (
        network.get_layer(name)
        for name in ("embedding", "rnn", "pooling", "classifier")
    )

    @tf.function
    def first_derivatives():
        x = embedding(IDS)
        with tf.GradientTape() as tape:
            tape.watch(x)
            p = classifier(pooling(rnn(x, mask=MASK), mask=MASK))
            losses = -tf.math.log(tf.gather(p, LABELS, batch_dims=1))
        return losses, tf.norm(tape.gradient(losses, x), axis=-1)

    def loss():
        losses, norms = (part.numpy() for part in first_derivatives())
        divergences = references.gradient_divergence(norms, MASK)
        return losses.mean() + weight * divergences.mean()

    return loss


@pytest.mark.long
def test_whole_gradient_against_finite_differences():
    keras.config.set_dtype_policy("float64")
    model = teaching.GradientDirectedModel(network(), 0.7)
    model.compile(
        keras.optimizers.SGD(1.0),
        keras.losses.SparseCategoricalCrossentropy(dtype="float64"),
        run_eagerly=True,
    )
    expected, variables = [], model.trainable_variables
    loss = loss_of(model.network, 0.7)
    whole = loss()
    for variable in variables:
        value, slopes = variable.numpy(), np.zeros(variable.shape)
        for index in np.ndindex(value.shape):
            for sign in (1, -1):
                moved = value.copy()
                moved[index] += sign * 1e-3
                variable.assign(moved)
                slopes[index] += sign * loss() / 2e-3
        variable.assign(value)
        expected.append(slopes)
    before = [variable.numpy() for variable in variables]
    history = model.fit(IDS, LABELS, verbose=0).history
    # The classifier's float32 rounds losses to about 1e-7.
    assert history["loss"][0] == pytest.approx(whole, rel=1e-5)
    for variable, value, slopes in zip(variables, before, expected):
        found = value - variable.numpy()
        np.testing.assert_allclose(found, slopes, atol=1e-3)
    assert max(np.abs(slopes).max() for slopes in expected) > 0.1


def test_divergence_of_vanishing_and_missing_gradients():
    slopes = np.ones((4, 3, 2), "float32")
    slopes[0] *= np.array([[1e-30], [1e-32], [1e-25]])
    slopes[1, :, 0] = 0
    slopes[2] = 0
    mask = np.array([[1, 1, 1], [1, 1, 0], [1, 1, 1], [1, 0, 0]], bool)
    slopes = tf.constant(slopes)
    with tf.GradientTape() as tape:
        tape.watch(slopes)
        found = teaching.gradient_divergence(slopes, mask)
    norms = np.linalg.norm(slopes.numpy().astype("float64"), axis=-1)
    expected = references.gradient_divergence(norms, mask)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert np.isfinite(tape.gradient(found, slopes)).all()
