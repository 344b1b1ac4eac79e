"""Two LSTMs as a focused encoder, and back."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from keras_seqmech import DecisionPenalties
from keras_seqmech.migration import focused_encoder_from_keras

FEATURES, CONTEXT, LOWER, UPPER, TIME = 3, 2, 5, 4, 7
MASK = np.arange(TIME) < [[TIME], [4], [1], [0]]


def sequences():
    return np.random.default_rng(0).normal(size=(4, TIME, FEATURES))


def context():
    return 10 * np.random.default_rng(1).normal(size=(4, CONTEXT))


def lstms(**upper):
    pair = (
        layers.LSTM(LOWER, return_sequences=True),
        layers.LSTM(UPPER, **upper),
    )
    generator = np.random.default_rng(2)
    for layer, features in zip(pair, (FEATURES, LOWER)):
        layer.build((None, None, features))
        for weight in layer.weights:
            weight.assign(generator.normal(size=weight.shape))
    return pair


def assert_same(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "sequence, mask, estimator",
    [(True, MASK, "relaxed"), (False, None, "reinforce")],
)
def test_open_gates_give_the_stacked_answers(sequence, mask, estimator):
    lower, upper = lstms(return_sequences=sequence, return_state=True)
    encoder = focused_encoder_from_keras(
        lower, upper, CONTEXT, estimator=estimator
    )
    x = sequences()
    found, *_, h, c = encoder(x, context(), sequence_mask=mask)
    expected, *states = upper(lower(x, mask=mask), mask=mask)
    assert_same(found, expected)
    assert_same([h, c], states)


def test_gates_learn_from_there():
    """The penalty on open gates closes some, and all weights are trained."""
    lower, upper = lstms()
    encoder = focused_encoder_from_keras(
        lower,
        upper,
        CONTEXT,
        penalties=DecisionPenalties(reading=1.0),
        return_gates=True,
    )
    before = encoder.gate.get_weights()
    _, gates = encoder(sequences(), context())
    np.testing.assert_array_equal(gates["gates"], 1.0)
    optimizer = keras.optimizers.Adam(0.2)
    for _ in range(4):
        with tf.GradientTape() as tape:
            state, _ = encoder(sequences(), context(), training=True)
            loss = tf.reduce_mean(state**2) + sum(encoder.losses)
        weights = encoder.trainable_variables
        optimizer.apply(tape.gradient(loss, weights), weights)
    _, later = encoder(sequences(), context())
    share = [np.mean(x["probabilities"]) for x in (gates, later)]
    assert share[0] == pytest.approx(0.95) and share[1] < 0.9
    changed = [
        np.abs(now - then).max() > 0
        for now, then in zip(encoder.gate.get_weights(), before)
    ]
    assert sum(changed) >= 4  # kernel, bias, output kernel and bias


@pytest.mark.parametrize(
    "lower, upper, options, message",
    [
        ({"return_sequences": False}, {}, {}, "`lower` must return sequences"),
        ({"go_backwards": True}, {}, {}, "with go_backwards=False"),
        ({}, {"dropout": 0.5}, {}, "dropout=0, .*Received: dropout=0.5"),
        ({}, {"activation": "relu"}, {}, "`upper` .*activation='tanh'"),
        ({}, {"kernel_regularizer": "l2"}, {}, "kernel_regularizer=None"),
        ({}, {"units": UPPER, "dtype": "float64"}, {}, "in its dtype"),
        ({}, {}, {"units": 3}, r"Arguments \['units'\]"),
        ({}, {}, {"context_size": 0}, "context_size=0"),
        ({}, {}, {"initial_openness": 0.5}, "initial_openness=0.5"),
    ],
)
def test_refuses(lower, upper, options, message):
    first = layers.LSTM(**{"units": 5, "return_sequences": True, **lower})
    second = layers.LSTM(**{"units": UPPER, **upper})
    first.build((None, None, FEATURES))
    second.build((None, None, 5))
    with pytest.raises(ValueError, match=message):
        focused_encoder_from_keras(
            first, second, **{"context_size": CONTEXT, **options}
        )


def test_refuses_layers_that_do_not_fit():
    lower, upper = lstms()
    with pytest.raises(ValueError, match="Argument `upper` must read"):
        focused_encoder_from_keras(lower, lower, CONTEXT)
    with pytest.raises(ValueError, match="must be a built `keras.layers.LSTM`"):
        focused_encoder_from_keras(layers.LSTM(3), upper, CONTEXT)
