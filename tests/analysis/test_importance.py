"""Word importance against a double loop, and where it is known."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from keras_seqmech import analysis
from keras_seqmech.analysis import importance

VOCABULARY_SIZE = 20


def loop(model, tokens, labels, lengths, k, unknown_id, num_points):
    """Algorithm 1 word for word, one copy of a text after another."""
    curves = []
    for row, label, length in zip(tokens, labels, lengths):
        copies, start = [row], 0
        while start < length:
            copy = row.copy()
            first = min(start, length - k)
            copy[first : first + k] = unknown_id
            copies.append(copy)
            start += k
        logs = np.log(np.asarray(model(np.array(copies)))[:, label])
        changes = abs(logs[1:] - logs[0])
        changes = changes / max(changes)
        changes = changes - min(changes)
        at = np.linspace(0, len(changes) - 1, num_points)
        curves.append(np.interp(at, np.arange(len(changes)), changes))
    return np.mean(curves, axis=0)


class Noisy(layers.Layer):
    def __init__(self):
        super().__init__()
        self.seed = keras.random.SeedGenerator(3)

    def call(self, x):
        noise = keras.random.normal(
            keras.ops.shape(x), dtype=x.dtype, seed=self.seed
        )
        return x + 0 * noise


def classifier():
    """A masked recurrent classifier; its dropout plays no part."""
    ids = keras.Input((None,), dtype="int32")
    hidden = layers.Embedding(VOCABULARY_SIZE, 4)(ids)
    hidden = layers.Dropout(0.5, seed=1)(hidden)
    hidden = layers.LSTM(5)(hidden, mask=ids != 0)
    outputs = layers.Dense(3, activation="softmax")(hidden)
    return keras.Model(ids, Noisy()(outputs))


@pytest.fixture
def texts():
    rng = np.random.default_rng(0)
    lengths = np.array([17, 6, 20, 5])
    tokens = rng.integers(2, VOCABULARY_SIZE, size=(4, 20))
    tokens[0, 3] = tokens[1, 0] = 0
    tokens[np.arange(20) >= lengths[:, None]] = 0
    return tokens, lengths, rng.integers(3, size=4)


@pytest.mark.parametrize("k", [1, 3])
def test_against_a_double_loop(k, texts):
    """Lists, an array that ends in zeros, batches; the model is as before."""
    tokens, lengths, labels = texts
    given = tokens.copy()
    keras.config.set_dtype_policy("float64")
    model = classifier()
    for weight in model.trainable_weights:
        weight.assign(2.0 * weight)
    expected = loop(model, tokens, labels, lengths, k, 1, 30)
    assert 0.1 < expected.mean() < 0.9
    seed = model.layers[-1].seed.state.numpy()
    lists = [list(row[:n]) for row, n in zip(tokens, lengths)]
    for run, ids, batch_size in (
        (model, tokens, 7),
        (lambda ids: model(ids), lists, 500),
    ):
        curve = analysis.normalized_word_importance(
            run, ids, labels, k=k, num_points=30, batch_size=batch_size
        )
        np.testing.assert_allclose(curve, expected, rtol=1e-9)
        if run is model:
            now = model.layers[-1].seed.state.numpy()
            np.testing.assert_array_equal(now, seed)
    np.testing.assert_array_equal(tokens, given)


def test_a_model_is_traced_once_or_run_eagerly(texts):
    tokens, _, labels = texts
    table = np.random.default_rng(1).normal(size=(VOCABULARY_SIZE, 3))
    calls = []

    class Counted(keras.Model):
        predict_on_batch = None  # It gives rows of each replica again.

        def call(self, ids):
            calls.append(tf.executing_eagerly())
            return tf.nn.softmax(tf.reduce_sum(tf.gather(table, ids), axis=1))

    model = Counted()
    found = importance.word_importance(model, tokens, labels, batch_size=4)
    assert calls == [False]
    model.run_eagerly = True
    again = importance.word_importance(model, tokens, labels, batch_size=4)
    # 15 copies.
    assert calls[1:] == [True] * 4
    for row, other in zip(found, again, strict=True):
        np.testing.assert_allclose(row, other, rtol=1e-9)


def probabilities(p):
    p = np.asarray(p, dtype="float64")
    return np.stack([1 - p, p], axis=1)


def test_no_change_and_impossible_classes():
    def constant(ids):
        return probabilities(np.full(len(ids), 0.3))

    def certain(ids):
        return probabilities(np.where(ids[:, 0] == 7, 1.0, 0.0))

    found = analysis.word_importance(constant, [[2] * 6, [3] * 5], [0, 1])
    assert [row.tolist() for row in found] == [[0.0, 0.0], [0.0]]
    for label in (0, 1):
        (row,) = analysis.word_importance(certain, [[7, 7]], [label], k=1)
        np.testing.assert_array_equal(row, [1, 0])


def fair(ids):
    return probabilities(np.full(len(ids), 0.5))


@pytest.mark.parametrize(
    "options, message",
    [
        ({"k": 0}, "`k`"),
        ({"k": 7}, "`k`.*k=7, and text 1 of 6 words"),
        ({"tokens": np.zeros((2, 8), int)}, "`k`.*text 0 of 0 words"),
        ({"unknown_id": -1}, "`unknown_id`"),
        ({"unknown_id": True}, "`unknown_id`"),
        ({"labels": [0, 2]}, "`labels`.*below 2"),
        ({"labels": [0, -1]}, "`labels`"),
        ({"labels": [0]}, "`labels`"),
        ({"labels": [0.0, 1.0]}, "`labels`"),
        ({"num_points": 0}, "`num_points`"),
        ({"batch_size": 0}, "`batch_size`"),
        ({"tokens": [], "labels": []}, "`tokens`"),
        ({"tokens": np.ones((2, 8))}, "`tokens`"),
        ({"tokens": np.ones(8, int)}, "`tokens`"),
        ({"tokens": [[1] * 9, ["a"] * 9]}, "`tokens`"),
        ({"model": lambda ids: fair(ids) * 2}, "not logits"),
        ({"model": lambda ids: fair(ids) * np.nan}, "not logits"),
        ({"model": lambda ids: fair(ids) * [[3, -1]]}, "not logits"),
        ({"model": lambda ids: fair(ids)[:, :1]}, "not logits"),
        ({"model": lambda ids: fair(ids)[:, 0]}, r"\(batch, classes\)"),
        ({"model": lambda ids: fair(ids)[:1]}, r"\(batch, classes\)"),
        ({"model": lambda ids: {"p": fair(ids)}}, "one array.*dict"),
    ],
)
def test_bad_input(options, message):
    given = {
        "model": fair,
        "tokens": [[3] * 8, [3] * 6],
        "labels": [0, 1],
    }
    with pytest.raises(ValueError, match=f"(?s){message}"):
        analysis.normalized_word_importance(**{**given, **options})
