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
    """Algorithm 1 word for word, one copy at a time."""
    curves = []
    for row, label, length in zip(tokens, labels, lengths):

        def log_probability(ids, label=label):
            return np.log(np.asarray(model(ids[None]))[0, label])

        original = log_probability(row)
        changes, start = [], 0
        while start < length:
            copy = row.copy()
            first = min(start, length - k)
            copy[first : first + k] = unknown_id
            changes.append(abs(log_probability(copy) - original))
            start += k
        changes = np.array(changes) / max(changes)
        changes = changes - min(changes)
        at = np.linspace(0, len(changes) - 1, num_points)
        curves.append(np.interp(at, np.arange(len(changes)), changes))
    return np.mean(curves, axis=0)


def classifier():
    """A masked recurrent classifier; its dropout plays no part."""
    ids = keras.Input((None,), dtype="int32")
    hidden = layers.Embedding(VOCABULARY_SIZE, 4)(ids)
    hidden = layers.Dropout(0.5, seed=1)(hidden)
    lstm = layers.LSTM(5, return_sequences=True)
    hidden = layers.Bidirectional(lstm)(hidden, mask=ids != 0)
    hidden = keras.ops.max(hidden, axis=1)
    return keras.Model(ids, layers.Dense(3, activation="softmax")(hidden))


@pytest.fixture
def texts():
    rng = np.random.default_rng(0)
    lengths = np.array([17, 6, 20, 5])
    tokens = rng.integers(2, VOCABULARY_SIZE, size=(4, 20))
    tokens[np.arange(20) >= lengths[:, None]] = 0
    return tokens, lengths, rng.integers(3, size=4)


@pytest.mark.parametrize(
    "k", [pytest.param(k, marks=pytest.mark.long) for k in (1, 5)] + [3]
)
def test_against_a_double_loop(k, texts):
    tokens, lengths, labels = texts
    keras.config.set_dtype_policy("float64")
    model = classifier()
    for weight in model.trainable_weights:
        weight.assign(2.0 * weight)
    expected = loop(model, tokens, labels, lengths, k, 1, 30)
    assert 0.1 < expected.mean() < 0.9
    options = {"k": k, "num_points": 30}
    for batch_size in (1, 7, 500):
        curve = analysis.normalized_word_importance(
            model,
            tokens,
            labels,
            lengths=lengths,
            batch_size=batch_size,
            **options,
        )
        np.testing.assert_allclose(curve, expected, rtol=1e-9)
    lists = [list(row[:n]) for row, n in zip(tokens, lengths)]
    curve = analysis.normalized_word_importance(
        lambda ids: model(ids), lists, labels, **options
    )
    np.testing.assert_allclose(curve, expected, rtol=1e-9)


def test_what_stands_in_the_padding_does_not_count(texts):
    tokens, lengths, labels = texts
    model = classifier()
    curves = []
    for filling in (0, 9):
        padded = np.where(tokens == 0, filling, tokens)
        given = padded.copy()
        curves.append(
            analysis.normalized_word_importance(
                model, padded, labels, lengths=lengths
            )
        )
        np.testing.assert_array_equal(padded, given)
    np.testing.assert_array_equal(*curves)


def test_an_array_without_lengths_ends_before_its_last_zeros(texts):
    tokens, lengths, labels = texts
    tokens[0, 3] = tokens[1, 0] = 0
    given = tokens.copy()
    model = classifier()
    found, expected = (
        importance.word_importance(model, tokens, labels, lengths=own)
        for own in (None, lengths)
    )
    assert [len(row) for row in found] == [4, 2, 4, 1]
    for row, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(row, other)
    np.testing.assert_array_equal(tokens, given)
    with pytest.raises(ValueError, match="`k`.*text 0 of 0 words"):
        importance.word_importance(model, 0 * tokens, labels)


def test_a_model_is_traced_once_or_run_eagerly(texts):
    tokens, lengths, labels = texts
    base = classifier()
    calls = []

    class Counted(keras.Model):
        predict_on_batch = None  # It gives rows of each replica again.

        def call(self, ids):
            calls.append(tf.executing_eagerly())
            return base(ids)

    model = Counted()
    found = importance.word_importance(model, tokens, labels, batch_size=4)
    assert calls == [False]
    model.run_eagerly = True
    again = importance.word_importance(model, tokens, labels, batch_size=4)
    # 14 copies.
    assert calls[1:] == [True] * 4
    for row, other in zip(found, again, strict=True):
        np.testing.assert_allclose(row, other, rtol=1e-3, atol=1e-5)


def probabilities(p):
    p = np.asarray(p, dtype="float64")
    return np.stack([1 - p, p], axis=1)


@pytest.mark.parametrize("position, windows", [(0, [0]), (9, [3]), (8, [2, 3])])
def test_a_model_that_reads_one_position(position, windows):
    tokens = np.full((2, 10), 7)

    def model(ids):
        return probabilities(np.where(ids[:, position] == 7, 0.9, 0.4))

    # Windows of 3 words at 0, 3, 6 and 7.
    expected = np.zeros(4)
    expected[windows] = 1
    for row in analysis.word_importance(model, tokens, [0, 1], k=3):
        np.testing.assert_allclose(row, expected)
    curve = analysis.normalized_word_importance(
        model, tokens, [0, 1], k=3, num_points=4
    )
    np.testing.assert_allclose(curve, expected)


def test_a_bag_of_words_in_closed_form():
    scores = np.array([0.0, 0.1, -0.7, 0.2, 0.9, -0.3, 0.5])
    tokens = np.array([[2, 3, 4, 5, 6, 4], [4, 4, 3, 2, 6, 6]])

    def model(ids):
        return probabilities(np.exp(-4 + scores[ids].sum(axis=1)))

    # log P(1) is a sum over words: delta is the change of a window's sum.
    changes = scores[1] - scores[tokens]
    for k in (1, 2):
        deltas = np.abs(changes.reshape(2, -1, k).sum(axis=-1))
        largest = deltas.max(axis=1, keepdims=True)
        smallest = deltas.min(axis=1, keepdims=True)
        found = analysis.word_importance(model, tokens, [1, 1], k=k)
        np.testing.assert_allclose(
            found, (deltas - smallest) / largest, rtol=0, atol=1e-12
        )


def test_nothing_changes_anything():
    def model(ids):
        return probabilities(np.full(len(ids), 0.3))

    found = analysis.word_importance(model, [[2] * 6, [3] * 5], [0, 1])
    assert [row.tolist() for row in found] == [[0.0, 0.0], [0.0]]


def test_impossible_classes_have_a_finite_logarithm():
    def model(ids):
        return probabilities(np.where(ids[:, 0] == 7, 1.0, 0.0))

    (row,) = analysis.word_importance(model, [[7, 7]], [1], k=1)
    np.testing.assert_array_equal(row, [1, 0])
    (row,) = analysis.word_importance(model, [[7, 7]], [0], k=1)
    np.testing.assert_array_equal(row, [1, 0])


def test_the_model_is_as_before(texts):
    tokens, lengths, labels = texts
    seed = keras.random.SeedGenerator(3)

    class Noisy(layers.Layer):
        def __init__(self):
            super().__init__()
            self.seed = seed

        def call(self, x):
            return x + 0 * keras.random.normal(
                keras.ops.shape(x), seed=self.seed
            )

    base = classifier()
    model = keras.Model(base.input, Noisy()(base.output))
    before = seed.state.numpy()
    importance.word_importance(model, tokens, labels, lengths=lengths)
    np.testing.assert_array_equal(seed.state.numpy(), before)
    model(tokens)
    assert (seed.state.numpy() != before).any()


def fair(ids):
    return probabilities(np.full(len(ids), 0.5))


@pytest.mark.parametrize(
    "options, message",
    [
        ({"k": 0}, "`k`"),
        ({"k": 7}, "`k`.*k=7, and text 1 of 6 words"),
        ({"lengths": [8, 0]}, "`k`.*text 1 of 0 words"),
        ({"unknown_id": -1}, "`unknown_id`"),
        ({"unknown_id": True}, "`unknown_id`"),
        ({"labels": [0, 2]}, "`labels`.*below 2"),
        ({"labels": [0, -1]}, "`labels`"),
        ({"labels": [0]}, "`labels`"),
        ({"labels": [0.0, 1.0]}, "`labels`"),
        ({"num_points": 0}, "`num_points`"),
        ({"batch_size": 0}, "`batch_size`"),
        ({"tokens": np.zeros((0, 5), int), "lengths": None}, "`tokens`"),
        ({"tokens": [], "labels": [], "lengths": None}, "`tokens`"),
        ({"tokens": np.ones((2, 8)), "lengths": None}, "`tokens`"),
        ({"tokens": np.ones(8, int), "lengths": None}, "`tokens`"),
        ({"tokens": [[1] * 9, ["a"] * 9], "lengths": None}, "`tokens`"),
        ({"tokens": [[1] * 9, [2] * 9]}, "`lengths`"),
        ({"lengths": [8, 9]}, "`lengths`.*0 and 8"),
        ({"lengths": [8]}, "`lengths`"),
        ({"lengths": [8.0, 8.0]}, "`lengths`"),
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
        "tokens": np.full((2, 8), 3),
        "labels": [0, 1],
        "lengths": [8, 6],
    }
    with pytest.raises(ValueError, match=f"(?s){message}"):
        analysis.normalized_word_importance(**{**given, **options})
