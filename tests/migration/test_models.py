"""Receptive fields for whole models."""

import keras
import numpy as np
import pytest
from keras import layers

from keras_seqmech import ReceptiveFieldRNN
from keras_seqmech.core.graph import sublayers
from keras_seqmech.migration import add_receptive_fields

TOKENS = np.random.default_rng(0).integers(0, 9, (6, 8))


def bidirectional(units, **arguments):
    rnn = layers.LSTM(units, return_sequences=True, **arguments)
    return layers.Bidirectional(rnn)


def sequential():
    return keras.Sequential(
        [
            keras.Input((None,), dtype="int32"),
            layers.Embedding(9, 5, mask_zero=True),
            bidirectional(4, name="lower"),
            layers.BatchNormalization(),
            layers.GRU(3, name="upper"),
            layers.Dense(2),
        ]
    )


def functional():
    """A mask of its own, a layer used twice, states, and a model within."""
    tokens = keras.Input((None,), dtype="int32", name="tokens")
    mask = keras.ops.not_equal(tokens, 0)
    embedding = layers.Embedding(9, 5)(tokens)
    shared = layers.LSTM(5, return_sequences=True, name="shared")
    twice = shared(shared(embedding, mask=mask), mask=mask)
    inner = keras.Input((None, 5))
    tail = keras.Model(inner, layers.SimpleRNN(5, name="tail")(inner))
    sequence, state = layers.GRU(
        4, return_sequences=True, return_state=True, name="gru"
    )(twice, mask=mask)
    return keras.Model(
        tokens, {"tail": tail(embedding), "state": state, "sequence": sequence}
    )


def assert_same(found, expected):
    keras.tree.assert_same_structure(found, expected)
    for one, other in zip(*map(keras.tree.flatten, (found, expected))):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)


def trained(make):
    """A model whose weights and statistics are not those at the start."""
    model = make()
    random = np.random.default_rng(1)
    for weight in model.weights:
        weight.assign(random.uniform(0.1, 1, weight.shape))
    return model


@pytest.mark.long
@pytest.mark.parametrize(
    "make, count", [(sequential, 3), (functional, 3)], ids=["seq", "func"]
)
def test_models_from_files_and_to_files(make, count, tmp_path):
    model = trained(make)
    expected = model(TOKENS)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    migrated = add_receptive_fields(loaded, max_size=3, field_units=2)
    assert type(migrated) is type(model)
    assert_same(migrated(TOKENS), expected)
    found = [
        layer
        for layer in sublayers(migrated)
        if isinstance(layer, ReceptiveFieldRNN)
    ]
    assert len(found) == count
    migrated.save(tmp_path / "migrated.keras")
    again = keras.saving.load_model(tmp_path / "migrated.keras")
    assert_same(again(TOKENS), expected)
    # The model itself has not changed.
    assert_same(loaded(TOKENS), expected)
    for weight in migrated.weights:
        weight.assign(0 * weight)
    assert_same(loaded(TOKENS), expected)


def test_chosen_layers_alone():
    model = sequential()
    migrated = add_receptive_fields(model, 3, layers=["upper"])
    assert isinstance(migrated.get_layer("upper"), ReceptiveFieldRNN)
    (lower,) = [x for x in migrated.layers if "bidirectional" in x.name]
    assert isinstance(lower.forward_layer, layers.LSTM)
    assert_same(migrated(TOKENS), model(TOKENS))


def test_fields_of_migrated_layers():
    """Beside the model's outputs, also with states and in a model within."""
    model = functional()
    migrated = add_receptive_fields(
        model, 3, layers=["gru", "tail"], return_field=True
    )
    assert_same(migrated(TOKENS), model(TOKENS))
    _, state, probabilities, size = migrated.get_layer("gru").output
    fields = keras.Model(migrated.input, [state, probabilities, size])
    state, probabilities, size = fields.predict_on_batch(TOKENS)
    assert_same(state, model(TOKENS)["state"])
    np.testing.assert_allclose(probabilities.sum(-1), TOKENS > 0, rtol=1e-6)
    assert ((size >= 1) == (TOKENS > 0)).all() and size.max() <= 3
    (tail,) = [x for x in sublayers(migrated) if x.name == "tail"]
    assert tail.output[-1].shape == (None, None)


@pytest.mark.parametrize(
    "make, options, message",
    [
        (keras.Sequential, {}, "must be a functional model"),
        (lambda: layers.LSTM(3), {}, "Argument `model` must be"),
        (sequential, {"layers": ["none"]}, "layers of the model: .*'upper'"),
        (sequential, {"layers": ["dense"]}, "Argument `layer` must be"),
        (sequential, {"return_sequences": True}, r"\['return_sequences'\]"),
        (
            lambda: keras.Sequential([keras.Input((3,)), layers.Dense(2)]),
            {},
            r"a model with the layers \['dense",
        ),
    ],
)
def test_refuses(make, options, message):
    keras.utils.clear_session(free_memory=False)
    with pytest.raises(ValueError, match=message):
        add_receptive_fields(make(), 3, **options)
