"""Classifiers: padding plays no part, and chunks train the same network."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from examples.titles import encoding
from examples.titles import models
from examples.titles import training
from examples.titles.models import Settings
from tests import tolerances

# Up to 7 steps of up to two layers of 4 units.
CLOSE = tolerances.within("float32", operations=7 * 2 * 30)
IDS = np.array([[5, 3, 7, 2], [4, 6, 0, 0], [0, 0, 0, 0]])


def matrix():
    return np.random.default_rng(0).normal(size=(9, 3)).astype("float32")


def logits(settings, ids, like=None):
    """Of a network of ids of any length; with the weights of another."""
    network = models.build_network(settings, ids.shape[1], matrix())
    if like is not None:
        network.set_weights(like.get_weights())
    return network, network.predict(ids, verbose=0)


def test_the_truncated_answer_is_that_of_the_last_real_step():
    settings = Settings("characters", units=4, read_out="last")
    model, network = models.build_chunks(settings, 4, 2)
    by_step = model.predict(IDS, verbose=0)[:, :, 0]
    last = network.predict(IDS, verbose=0)[:, 0]
    np.testing.assert_allclose(last[:2], by_step[[0, 1], [3, 1]], **CLOSE)
    assert (by_step[IDS == 0] == 0).all()
    _, expected = logits(settings, IDS, like=network)
    np.testing.assert_allclose(last[:2], expected[:2, 0], **CLOSE)


@pytest.mark.long
def test_chunks_train_as_a_loop_by_hand():
    """No gradient goes back to the chunk before; padding is left out."""
    settings = Settings("characters", units=4, read_out="last")
    labels = np.array([1, 0, 1])
    y, weights = training.step_targets(IDS, labels)
    # Every title counts as much as any other, but one that has no step.
    np.testing.assert_allclose(weights.mean(axis=1), [1, 1, 0])
    model, network = models.build_chunks(settings, 4, 2)
    plain = keras.models.clone_model(network)
    plain.set_weights(network.get_weights())
    gru, logit = plain.get_layer("rnn_1"), plain.get_layer("logit")
    x = keras.ops.one_hot(IDS, len(encoding.CHARACTERS) + 2)
    state, sign = None, np.where(labels, 1, -1)[:, None]
    for cut in (slice(0, 2), slice(2, 4)):
        with tf.GradientTape() as tape:
            states, state = gru(
                x[:, cut], mask=IDS[:, cut] != 0, initial_state=state
            )
            losses = tf.math.softplus(-sign * logit(states)[:, :, 0])
            loss = tf.reduce_mean(losses * weights[:, cut])
        state = tf.constant(state.numpy())
        for variable, slope in zip(
            plain.trainable_variables,
            tape.gradient(loss, plain.trainable_variables),
        ):
            variable.assign_sub(0.5 * slope)
    before = network.get_weights()
    models.compile_network(model, learning_rate=1e-3)
    model.compile(keras.optimizers.SGD(0.5), model.loss)
    model.fit(IDS, y, sample_weight=weights, verbose=0)
    for start, found, expected in zip(
        before, network.get_weights(), plain.get_weights()
    ):
        assert (start != expected).any()
        np.testing.assert_allclose(found, expected, **CLOSE)
