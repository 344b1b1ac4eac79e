"""Pointer softmax against loops in numpy, and what it can learn."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_seqmech import PointerSoftmax
from tests import references

ROWS, STEPS, TIME = 4, 2, 5
QUERY, FEATURES, WORDS, EXTRA = 3, 4, 6, 2
MASK = np.array(
    [[1, 1, 1, 1, 1], [0, 1, 0, 1, 1], [0, 0, 0, 0, 0], [1, 1, 0, 0, 0]],
    "bool",
)
# Words twice in a row, words beyond the vocabulary, ids of no word.
IDS = np.array(
    [[1, 7, 1, 0, 7], [3, 6, 8, 6, 6], [1, 2, 3, 4, 5], [2, -1, 0, 0, 0]]
)


def draw(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def make(dtype="float64", **options):
    """A built layer of which no weight is zero."""
    layer = PointerSoftmax(WORDS, dtype=dtype, **options)
    layer.build((ROWS, QUERY), (ROWS, TIME, FEATURES))
    for i, weight in enumerate(layer.weights):
        weight.assign(0.7 * draw(*weight.shape, seed=10 + i))
    return layer


def one_word(layer, query, states, ids=None):
    """The definition, for one step and the real positions of one row."""
    w = {v.name: v.numpy() for v in layer.weights}
    scores = [
        w["attention_kernel"]
        @ np.tanh(
            s @ w["sequence_kernel"]
            + query @ w["query_kernel"]
            + w["attention_bias"]
        )
        for s in states
    ]
    weights = (
        references.softmax(np.array(scores)) if len(scores) else np.zeros(0)
    )
    read = sum((a * s for a, s in zip(weights, states)), np.zeros(FEATURES))
    both = np.concatenate([query, read])
    logit = both @ w["switch_kernel"] + w["switch_bias"]
    share = references.sigmoid(logit) if len(states) else 1.0
    words = share * references.softmax(
        both @ w["vocabulary_kernel"] + w["vocabulary_bias"]
    )
    if ids is None:
        return words, (1 - share) * weights, weights, share
    words = np.concatenate([words, np.zeros(layer.extra_words)])
    for a, i in zip(weights, ids):
        words[i] += (1 - share) * a
    return words, weights, share


@pytest.mark.parametrize("units", [None, 5])
def test_words_are_those_of_a_loop(units):
    layer = make(units=units, extra_words=EXTRA, return_attention_scores=True)
    queries, states = draw(ROWS, STEPS, QUERY), draw(ROWS, TIME, FEATURES)
    p, decisions = layer(queries, states, sequence_mask=MASK, token_ids=IDS)
    assert p.shape == (ROWS, STEPS, WORDS + EXTRA)
    real = MASK & (IDS >= 0) & (IDS < WORDS + EXTRA)
    for row in range(ROWS):
        keep = real[row]
        for step in range(STEPS):
            words, weights, share = one_word(
                layer, queries[row, step], states[row][keep], IDS[row][keep]
            )
            np.testing.assert_allclose(p[row, step], words, rtol=1e-12)
            received = decisions["attention_scores"][row, step].numpy()
            np.testing.assert_allclose(received[keep], weights, rtol=1e-12)
            assert (received[~keep] == 0).all()
            np.testing.assert_allclose(
                decisions["switch"][row, step], share, rtol=1e-12
            )


def test_positions_are_those_of_a_loop():
    layer = make()
    queries, states = draw(ROWS, QUERY), draw(ROWS, TIME, FEATURES)
    p = layer(queries, states, sequence_mask=MASK).numpy()
    assert p.shape == (ROWS, WORDS + TIME)
    for row, keep in enumerate(MASK):
        words, copies, *_ = one_word(layer, queries[row], states[row][keep])
        np.testing.assert_allclose(p[row, :WORDS], words, rtol=1e-12)
        np.testing.assert_allclose(p[row, WORDS:][keep], copies, rtol=1e-12)
        assert (p[row, WORDS:][~keep] == 0).all()


@pytest.mark.parametrize("ids", [None, IDS], ids=["positions", "words"])
def test_gradient_by_finite_differences(ids):
    layer = make(extra_words=0 if ids is None else EXTRA)
    size = WORDS + (TIME if ids is None else EXTRA)
    upstream = draw(ROWS, STEPS, size, seed=3)
    kernels = [v.value for v in layer.weights]

    @tf.function
    def function(queries, states, *values):
        # The layer reads its weights; here they are arguments.
        with keras.StatelessScope(
            state_mapping=list(zip(layer.weights, values))
        ):
            p = layer(queries, states, sequence_mask=MASK, token_ids=ids)
        return ops.sum(p * upstream)

    arguments = [draw(ROWS, STEPS, QUERY), draw(ROWS, TIME, FEATURES), *kernels]
    theory, numeric = tf.test.compute_gradient(
        function, [tf.constant(x) for x in arguments], delta=1e-6
    )
    assert len(theory) == 2 + len(layer.weights)
    for a, b in zip(theory, numeric):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-8)
        assert np.abs(b).max() > 1e-6


def test_ids_beyond_int32_are_of_no_word():
    layer = make()
    ids = np.where(IDS == 3, 3 + 2**32, IDS)
    arguments = draw(ROWS, QUERY), draw(ROWS, TIME, FEATURES)
    expected = layer(*arguments, token_ids=np.where(IDS == 3, -1, IDS))
    np.testing.assert_array_equal(layer(*arguments, token_ids=ids), expected)


class MaskOf(keras.layers.Layer):
    """The mask that comes with a tensor."""

    def __init__(self):
        super().__init__()
        self.supports_masking = True

    def call(self, x, mask=None):
        return mask


def test_masks_that_keras_passes_on():
    layer = PointerSoftmax(WORDS)
    states = np.where(MASK[..., None], draw(ROWS, TIME, FEATURES), 0)
    queries = draw(ROWS, STEPS, QUERY)
    queries[:, 1] = 0
    masking = keras.layers.Masking()
    p = layer(masking(queries), masking(states))
    copies = p.numpy()[..., WORDS:]
    np.testing.assert_array_equal(
        copies > 0, np.repeat(MASK[:, None], STEPS, axis=1)
    )
    np.testing.assert_array_equal(MaskOf()(p), [[True, False]] * ROWS)


def test_values_at_positions_of_no_word_have_no_effect():
    layer = make()
    query, x = draw(ROWS, QUERY), draw(ROWS, TIME, FEATURES)
    bad = np.where((IDS == -1)[..., None], np.nan, x)
    found = layer(query, bad, sequence_mask=MASK, token_ids=IDS)
    expected = layer(query, x, sequence_mask=MASK, token_ids=IDS)
    np.testing.assert_array_equal(found, expected)
