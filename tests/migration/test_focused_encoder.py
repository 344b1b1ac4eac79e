"""Two LSTMs as a focused encoder, and back."""

import numpy as np
import pytest
from keras import layers

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
