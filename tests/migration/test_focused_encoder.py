"""Two LSTMs as a focused encoder, and back."""

import keras
import numpy as np
import pytest
from keras import layers

from keras_seqmech import DecisionPenalties
from keras_seqmech import FocusedHierarchicalEncoder
from keras_seqmech.migration import focused_encoder_from_keras
from keras_seqmech.migration import focused_encoder_to_keras

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
    [
        (True, MASK, "relaxed"),
        (False, MASK, "reinforce"),
        (False, None, "relaxed"),
    ],
)
def test_open_gates_give_the_stacked_answers(sequence, mask, estimator):
    lower, upper = lstms(return_sequences=sequence)
    encoder = focused_encoder_from_keras(
        lower, upper, CONTEXT, estimator=estimator
    )
    x = sequences()
    found = encoder(x, context(), sequence_mask=mask)
    expected = upper(lower(x, mask=mask), mask=mask)
    assert_same(found, expected)


def test_states_come_along():
    lower, upper = lstms(return_state=True)
    encoder = focused_encoder_from_keras(lower, upper, CONTEXT)
    *_, h, c = encoder(sequences(), context())
    _, *expected = upper(lower(sequences()))
    assert_same([h, c], expected)


@pytest.mark.long
@pytest.mark.parametrize("sequence", [True, False])
def test_back_to_plain_layers(sequence, tmp_path):
    """An encoder that has learned, from a file."""
    x, q = keras.Input((TIME, FEATURES)), keras.Input((CONTEXT,))
    encoder = FocusedHierarchicalEncoder(
        UPPER, LOWER, return_sequences=sequence, name="encoder"
    )
    model = keras.Model([x, q], encoder(x, q))
    model.compile("adam", "mse")
    targets = np.ones((4, *model.output.shape[1:]))
    model.fit([sequences(), context()], targets, epochs=2, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    lower, upper = focused_encoder_to_keras(loaded.get_layer("encoder"))
    assert type(lower) is type(upper) is layers.LSTM
    assert lower.use_cudnn == upper.use_cudnn == "auto"
    again = focused_encoder_from_keras(lower, upper, CONTEXT)
    expected = upper(lower(sequences(), mask=MASK), mask=MASK)
    assert_same(again(sequences(), context(), sequence_mask=MASK), expected)
    # What they share with the encoder: all but the gate.
    gate = loaded.get_layer("encoder").gate
    gate.output_kernel.assign(0 * gate.output_kernel)
    gate.output_bias.assign(1.0)
    loaded_encoder = loaded.get_layer("encoder")
    opened = loaded_encoder(sequences(), context(), sequence_mask=MASK)
    assert_same(opened, expected)


@pytest.mark.long
def test_gates_learn_from_there():
    """Only steps after the context's sign matter; others come to be closed."""
    lower, upper = lstms()
    encoder = focused_encoder_from_keras(
        lower,
        upper,
        CONTEXT,
        penalties=DecisionPenalties(reading=1.0),
        return_gates=True,
    )
    before = encoder.gate.get_weights()
    x, q = keras.Input((TIME, FEATURES)), keras.Input((CONTEXT,))
    state, gates = encoder(x, q)
    model = keras.Model([x, q], state)
    decisions = keras.Model([x, q], gates)
    inputs = [sequences(), context()]
    np.testing.assert_array_equal(decisions(inputs)["gates"], 1.0)
    model.compile(keras.optimizers.Adam(0.05), "mse")
    model.fit(inputs, np.zeros((4, UPPER)), epochs=60, verbose=0)
    assert float(np.mean(decisions(inputs)["gates"])) < 0.5
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
    with pytest.raises(ValueError, match="built `FocusedHierarchicalEncoder`"):
        focused_encoder_to_keras(FocusedHierarchicalEncoder(3))
