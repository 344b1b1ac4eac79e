"""Keras' recurrent layers as receptive fields."""

import keras
import numpy as np
import pytest
from keras import layers

from keras_seqmech import ReceptiveFieldRNN
from keras_seqmech import RFCell
from keras_seqmech.core.wrapped import directions
from keras_seqmech.migration import receptive_field_from_keras

FEATURES, UNITS, TIME = 3, 4, 7


@keras.saving.register_keras_serializable(package="tests.migration")
class OwnLSTM(layers.LSTM):
    pass


LAYERS = {
    "lstm": lambda **k: layers.LSTM(UNITS, **k),
    "gru_reset_before": lambda **k: layers.GRU(UNITS, reset_after=False, **k),
    "simple": lambda **k: layers.SimpleRNN(UNITS, activation="relu", **k),
    "cell": lambda **k: layers.RNN(layers.LSTMCell(UNITS), **k),
    "cells": lambda **k: layers.RNN(
        [layers.LSTMCell(UNITS), layers.GRUCell(UNITS + 1)], **k
    ),
}


def sequences():
    return np.random.default_rng(0).normal(size=(4, TIME, FEATURES))


# Within, at the end, at the start, and a row without a real step.
MASK = (
    np.array([[1, 1, 0, 1, 1, 1, 1], [1] * 4 + [0] * 3, [0] * 6 + [1], [0] * 7])
    > 0
)


def randomized(layer, shape=(None, None, FEATURES)):
    """The layer, built, with random weights, as if it were trained."""
    layer.build(shape)
    generator = np.random.default_rng(1)
    for weight in layer.weights:
        weight.assign(generator.normal(size=weight.shape))
    return layer


def assert_same(migrated, layer, **call):
    pairs = zip(
        keras.tree.flatten(migrated(sequences(), **call)),
        keras.tree.flatten(layer(sequences(), **call)),
        strict=True,
    )
    for found, expected in pairs:
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


BACKWARDS = {"return_state": True, "go_backwards": True}
ZEROS = {"return_sequences": True, "zero_output_for_mask": True}


@pytest.mark.parametrize(
    "name, mask, arguments, options",
    [
        ("lstm", None, {}, {"gated": "output"}),
        ("lstm", MASK, BACKWARDS, {"gated": "all", "size_from": "field"}),
        ("gru_reset_before", MASK, ZEROS, {"summary": "last"}),
        ("simple", MASK, BACKWARDS, {}),
        ("cell", MASK, ZEROS, {}),
        ("cells", MASK, BACKWARDS, {}),
    ],
)
def test_layers_give_the_same_answers(name, arguments, mask, options):
    layer = randomized(LAYERS[name](**arguments))
    migrated = receptive_field_from_keras(layer, max_size=3, **options)
    assert options.items() <= migrated.get_config().items()
    assert isinstance(migrated, ReceptiveFieldRNN)
    assert migrated.name == layer.name
    assert_same(migrated, layer, mask=mask)


@pytest.mark.parametrize(
    "merge_mode, sequence", [("concat", True), ("sum", False)]
)
def test_both_directions(merge_mode, sequence):
    layer = layers.Bidirectional(
        layers.LSTM(UNITS, return_sequences=sequence),
        merge_mode=merge_mode,
        backward_layer=layers.GRU(
            UNITS, return_sequences=sequence, go_backwards=True
        ),
    )
    randomized(layer)
    migrated = receptive_field_from_keras(layer, max_size=3)
    assert isinstance(migrated.forward_layer, ReceptiveFieldRNN)
    assert isinstance(migrated.backward_layer.cell.cell, layers.GRUCell)
    assert_same(migrated, layer, mask=MASK)


def test_arguments_are_carried_over():
    layer = randomized(
        layers.LSTM(
            UNITS,
            dropout=0.25,
            recurrent_dropout=0.125,
            kernel_regularizer="l2",
            activity_regularizer="l1",
            trainable=False,
            unroll=True,
        )
    )
    migrated = receptive_field_from_keras(layer, 3, seed=5, field_units=2)
    assert migrated.cell.cell.dropout == 0.25
    assert migrated.cell.cell.recurrent_dropout == 0.125
    assert migrated.unroll and not migrated.trainable
    assert migrated.cell.field_bias.shape == (2,)
    x = sequences()
    losses = []
    for one in (layer, migrated):
        one(x)
        losses.append([float(loss) for loss in one.losses])
    # The field's weights have no regularizer.
    np.testing.assert_allclose(*map(np.sort, losses), rtol=1e-6)


def test_a_layer_that_is_not_built_gives_its_arguments():
    layer = layers.GRU(UNITS, return_sequences=True, dtype="float64")
    migrated = receptive_field_from_keras(layer, max_size=3)
    assert not migrated.built and migrated.return_sequences
    assert migrated.compute_dtype == migrated.cell.compute_dtype == "float64"
    assert migrated(sequences()).shape == (4, TIME, UNITS)


@pytest.mark.parametrize(
    "layer, options, message",
    [
        (layers.Dense(3), {}, "Argument `layer` must be a `keras.layers.LSTM`"),
        (OwnLSTM(3), {}, "of no subclass. Received: layer=<OwnLSTM"),
        (layers.RNN(RFCell(layers.GRUCell(3), 2)), {}, "without receptive"),
        (layers.LSTM(3), {"name": "x"}, r"Arguments \['name'\] .* name='x'"),
        (layers.LSTM(3), {"cell": None}, r"Arguments \['cell'\]"),
        (layers.LSTM(3), {"max_size": 0}, "max_size=0"),
        (layers.LSTM(3), {"forget_strength": 2}, "forget_strength=2"),
        (
            layers.Bidirectional(layers.LSTM(3)),
            {"return_field": True},
            "within `keras.layers.Bidirectional`",
        ),
    ],
)
def test_refuses(layer, options, message):
    with pytest.raises(ValueError, match=message):
        receptive_field_from_keras(layer, **{"max_size": 3, **options})


@pytest.mark.parametrize("wrap", [lambda x: x, layers.Bidirectional])
@pytest.mark.parametrize("part", ["layer", "cell"])
def test_what_is_frozen_stays_frozen(wrap, part):
    layer = wrap(layers.LSTM(UNITS))
    layer.build((None, None, FEATURES))
    for one in directions(layer):
        (layer if part == "layer" else one.cell).trainable = False
    migrated = receptive_field_from_keras(layer, max_size=3)
    for one in directions(migrated):
        assert not one.cell.cell.trainable_variables
        assert bool(one.trainable_variables) == (part == "cell")
    assert bool(migrated.trainable_variables) == (part == "cell")
