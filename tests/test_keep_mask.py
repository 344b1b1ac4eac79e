"""Masks past layers that pass none on, as from Keras 3.16 on."""

import keras
import numpy as np
import pytest
import tensorflow as tf
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
MASK = np.array([[1, 1, 0, 0], [1, 0, 1, 0]]) > 0


def sequences():
    return np.random.default_rng(0).normal(size=(2, 4, 3)).astype("float32")


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
        assert np.abs(lost(SHORT) - lost(LONG)).max() > 1e-3
    kept = classifier(KeepMask(drop_masks(KINDS[kind]())))
    expected = kept(SHORT)
    np.testing.assert_allclose(kept(LONG), expected, rtol=1e-5, atol=1e-6)


def test_each_sequence_of_outputs_gets_it_and_no_state():
    both = layers.Bidirectional(
        layers.LSTM(4, return_sequences=True, return_state=True),
        merge_mode=None,
    )
    assert KeepMask(both).compute_mask(None, MASK) == [MASK, MASK]
    for layer in (
        KeepMask(layers.GRU(2, return_sequences=True, return_state=True)),
        LearnedInitialState(layers.GRU(2, return_sequences=True)),
        ReceptiveFieldRNN(layers.GRUCell(2), 2, return_sequences=True),
    ):
        assert layer.compute_mask(sequences(), MASK) is MASK
    assert KeepMask(layers.LSTM(4)).compute_mask(None, MASK) is None


def test_steps_of_any_shape():
    layer = layers.TimeDistributed(layers.Flatten())
    x = np.random.default_rng(0).normal(size=(1, 4, 2, 3))
    mask = np.array([[True, True, False, True]])
    flat = KeepMask(drop_masks(layer))(x, mask=mask)
    expected = np.where(mask[..., None], x.reshape(1, 4, 6), 0)
    np.testing.assert_allclose(flat * mask[..., None], expected, rtol=1e-5)


@pytest.mark.parametrize("steps", [(3, 4), (None, None)])
def test_words_sentence_by_sentence(steps):
    """A sentence without a word is masked for what follows."""
    ids = np.array([[[3, 1, 0, 0], [2, 0, 4, 0], [0] * 4], [[5, 1, 7, 2]] * 3])
    ids[1, 1] = 0
    embedding = layers.Embedding(9, 3, mask_zero=True)
    words, sentences = layers.GRU(4), layers.GRU(5)
    tokens = keras.Input(steps, dtype="int32")
    vectors = KeepMask(layers.TimeDistributed(words))(embedding(tokens))
    model = keras.Model(tokens, [vectors, KeepMask(sentences)(vectors)])
    found = model(ids)
    by_sentence = layers.TimeDistributed(words)(embedding(ids)).numpy()
    expected = sentences(by_sentence, mask=(ids != 0).any(axis=-1))
    np.testing.assert_array_equal(found[0], by_sentence)
    np.testing.assert_array_equal(found[1], expected)
    # The mask of a sequence of words stays that of words.
    rnn = layers.GRU(4, return_sequences=True)
    kept = KeepMask(layers.TimeDistributed(rnn))
    assert kept.compute_mask(embedding(ids), ids != 0).shape == ids.shape


def test_masked_sentences_of_a_layer_that_takes_a_mask():
    x = np.random.default_rng(0).normal(size=(2, 3, 4, 3)).astype("float32")
    mask = np.array([[True, True, False], [True, False, True]])
    rnn = layers.GRU(4)
    layer = KeepMask(layers.TimeDistributed(rnn))
    expected = rnn(x.reshape(6, 4, 3)).numpy().reshape(2, 3, 4)
    expected *= mask[..., None]
    np.testing.assert_allclose(layer(x, mask=mask), expected, atol=1e-6)
    for shape in ((2, 4), (2, 3, 3), (2, 3, 4, 3)):
        with pytest.raises(ValueError, match="`mask` must have the shape"):
            layer(x, mask=np.ones(shape, "bool"))


def test_states_go_in_and_come_out():
    x, states = sequences(), [np.ones((2, 4), "float32")]
    rnn = layers.GRU(4, return_sequences=True, return_state=True)
    found = KeepMask(rnn)(x, initial_state=states, mask=MASK)
    expected = rnn(x, initial_state=states, mask=MASK)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_fields_in_a_loop_of_keras():
    """Steps of the cell are windows: one axis more than vectors."""
    windows = ReceptiveFieldWindows(2)(sequences(), mask=MASK)
    rnn = layers.RNN(RFCell(layers.GRUCell(2), 2), return_sequences=True)
    for wrapper in (KeepMask(rnn), LearnedInitialState(rnn)):
        np.testing.assert_allclose(
            wrapper(windows, mask=MASK), rnn(windows, mask=MASK), rtol=1e-6
        )


def field(**arguments):
    return ReceptiveFieldRNN(layers.GRUCell(4), 2, **arguments)


@pytest.mark.parametrize(
    "make",
    [
        lambda: KeepMask(layers.GRU(4)),
        lambda: LearnedInitialState(layers.GRU(4)),
        field,
        lambda: KeepMask(field()),
    ],
)
def test_a_mask_comes_with_the_sequence_beside_another_tensor(make):
    """Keras looks for the argument `sequence_mask` there."""
    layer, embedding = make(), layers.Embedding(9, 3, mask_zero=True)
    other = {"initial_state": [np.ones((2, 4), "float32")]}
    embedded = embedding(np.where(MASK, 3, 0))
    found = layer(embedded, **other)
    plain = embedded.numpy()
    expected = layer(plain, mask=MASK, **other)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert np.abs(found - layer(plain, **other)).max() > 1e-3
    # A mask that is given comes before that of the embedding.
    given = layer(embedded, mask=np.ones_like(MASK), **other)
    np.testing.assert_allclose(given, layer(plain, **other), rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_lengths_that_change_in_a_graph(kind):
    """Keras' `TimeDistributed` returns as many steps as there are rows."""
    layer = KeepMask(KINDS[kind]())
    layer.build((None, None, 3))
    call = tf.function(layer, input_signature=[tf.TensorSpec((None, None, 3))])
    for length in (1, 4):
        x = sequences()[:, :length]
        np.testing.assert_allclose(call(x), layer(x), rtol=1e-5, atol=1e-6)


STATEFUL = {
    "kept": lambda: KeepMask(layers.LSTM(4, stateful=True)),
    "kept_both": lambda: KeepMask(
        layers.Bidirectional(layers.GRU(4, stateful=True))
    ),
    "field": lambda: field(stateful=True),
    "kept_field": lambda: KeepMask(field(stateful=True)),
}


@pytest.mark.parametrize("kind", STATEFUL)
def test_the_usual_loop_resets_states(kind):
    inputs = keras.Input(batch_shape=(2, 4, 3))
    model = keras.Model(inputs, STATEFUL[kind]()(inputs))
    first, second = model(sequences()), model(sequences())
    assert np.abs(first - second).max() > 1e-3
    for layer in model.layers:
        if getattr(layer, "stateful", False):
            layer.reset_state()
    np.testing.assert_array_equal(model(sequences()), first)
    assert not KeepMask(layers.GRU(4)).stateful
    KeepMask(KINDS["time_distributed"]()).reset_state()


@pytest.mark.parametrize(
    "jit_compile", [False, pytest.param(True, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("kind", STATEFUL)
def test_the_last_batch_of_a_stateful_layer(kind, jit_compile):
    """Keras' own layers return as many rows as they keep states of."""
    inputs = keras.Input(batch_shape=(2, None, 3))
    layer = STATEFUL[kind]()
    model = keras.Model(inputs, layer(inputs))
    model.compile("sgd", "mse", jit_compile=jit_compile)
    x = np.ones((3, 4, 3))
    message = "rows_of_a_stateful_layer"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        model.predict(x, batch_size=2, verbose=0)
    with pytest.raises(ValueError, match="with the 2 rows that it was built"):
        layer(x)
