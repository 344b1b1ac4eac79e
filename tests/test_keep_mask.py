"""Masks past layers that pass none on, as from Keras 3.16 on."""

import keras
import numpy as np
import pytest
from keras import layers

from keras_seqmech import KeepMask
from keras_seqmech import LearnedInitialState
from keras_seqmech import MeanPooling
from keras_seqmech import ReceptiveFieldRNN
from keras_seqmech import ReceptiveFieldWindows
from keras_seqmech import RFCell
from keras_seqmech.core.graph import sublayers

KINDS = {
    "lstm": lambda: layers.LSTM(4, return_sequences=True),
    "bidirectional": lambda: layers.Bidirectional(
        layers.GRU(4, return_sequences=True)
    ),
    "time_distributed": lambda: layers.TimeDistributed(layers.Dense(4)),
}
SHORT = np.array([[3, 1, 4], [2, 7, 1]])
LONG = np.pad(SHORT, ((0, 0), (0, 3)))


def drop_masks(layer):
    """Makes layers do as those of Keras 3.16."""
    for part in sublayers(layer):
        if isinstance(
            part, (layers.RNN, layers.Bidirectional, layers.TimeDistributed)
        ):
            part.supports_masking = False
    return layer


def classifier(layer):
    tokens = keras.Input((None,), dtype="int32")
    x = layers.Embedding(9, 3, mask_zero=True)(tokens)
    return keras.Model(tokens, MeanPooling()(layer(x)))


@pytest.mark.parametrize("kind", KINDS)
def test_a_lost_mask_is_kept(kind):
    with pytest.warns(UserWarning, match="does not support masking"):
        lost = classifier(drop_masks(KINDS[kind]()))
    with pytest.warns(UserWarning, match="does not support masking"):
        assert np.abs(lost(SHORT) - lost(LONG)).max() > 1e-3
    kept = classifier(KeepMask(drop_masks(KINDS[kind]())))
    np.testing.assert_allclose(kept(SHORT), kept(LONG), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_models_come_back_from_files(kind, tmp_path):
    model = classifier(KeepMask(KINDS[kind]()))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    for tokens in (SHORT, LONG):
        np.testing.assert_allclose(
            loaded(tokens), model(SHORT), rtol=1e-5, atol=1e-6
        )


def masks_of(layer):
    x = np.random.default_rng(0).normal(size=(2, 4, 3))
    mask = np.array([[1, 1, 0, 0], [1, 0, 1, 0]]) > 0
    return keras.tree.flatten(layer.compute_mask(x, mask))


def test_each_sequence_of_outputs_gets_it_and_no_state():
    both = layers.Bidirectional(
        layers.LSTM(4, return_sequences=True, return_state=True),
        merge_mode=None,
    )
    assert len(masks_of(KeepMask(both))) == 2
    one = layers.LSTM(4, return_sequences=True, return_state=True)
    assert len(masks_of(KeepMask(one))) == 1
    assert KeepMask(layers.LSTM(4)).compute_mask(None, SHORT > 0) is None


def test_steps_of_any_shape():
    layer = layers.TimeDistributed(layers.Flatten())
    inputs = keras.Input((None, 2, 3))
    mask = keras.Input((None,), dtype="bool")
    flat = KeepMask(drop_masks(layer))(inputs, mask=mask)
    model = keras.Model([inputs, mask], MeanPooling()(flat))
    x = np.random.default_rng(0).normal(size=(1, 4, 2, 3))
    found = model([x, np.array([[True, True, False, True]])])
    expected = x[:, [0, 1, 3]].mean(axis=1).reshape(1, 6)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_states_go_in_and_come_out():
    rnn = layers.GRU(4, return_sequences=True, return_state=True)
    layer = KeepMask(rnn)
    x = np.random.default_rng(0).normal(size=(2, 4, 3))
    states = [np.ones((2, 4), "float32")]
    mask = np.array([[1, 1, 0, 0], [1, 0, 1, 0]]) > 0
    for found, expected in zip(
        layer(x, initial_state=states, mask=mask),
        rnn(x, initial_state=states, mask=mask),
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_fields_in_a_loop_of_keras():
    """Steps of the cell are windows: one axis more than vectors."""
    x = np.random.default_rng(0).normal(size=(2, 4, 3)).astype("float32")
    mask = np.array([[1, 1, 0, 0], [1, 0, 1, 0]]) > 0
    windows = ReceptiveFieldWindows(2)(x, mask=mask)
    rnn = layers.RNN(RFCell(layers.GRUCell(2), 2), return_sequences=True)
    for wrapper in (KeepMask(rnn), LearnedInitialState(rnn)):
        np.testing.assert_allclose(
            wrapper(windows, mask=mask), rnn(windows, mask=mask), rtol=1e-6
        )


def test_more_arguments_are_passed_on():
    rnn = ReceptiveFieldRNN(layers.GRUCell(2), 2, return_sequences=True)
    x = np.random.default_rng(0).normal(size=(1, 4, 3)).astype("float32")
    found = KeepMask(rnn)(x[:, :3], lookahead=x[:, 3:])
    np.testing.assert_allclose(found, rnn(x)[:, :3], rtol=1e-5)


@pytest.mark.parametrize(
    "layer",
    [
        KeepMask(layers.GRU(2, return_sequences=True)),
        LearnedInitialState(layers.GRU(2, return_sequences=True)),
        ReceptiveFieldRNN(layers.GRUCell(2), 2, return_sequences=True),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_a_mask_asked_for_by_hand_is_a_tensor(layer):
    mask = np.array([[True, False]])
    assert layer.compute_mask(np.ones((1, 2, 3)), mask) is mask
