"""Shares of words added up, against a product of matrices."""

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_seqmech.focused import pointer

ROWS, STEPS, TIME = 4, 2, 5
WORDS, EXTRA = 6, 2
# Words twice in a row, words beyond the vocabulary.
IDS = np.array(
    [[1, 7, 1, 0, 7], [3, 6, 7, 6, 6], [1, 2, 3, 4, 5], [2, 0, 0, 0, 0]]
)


def draw(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_adding_up_equals_a_product_with_one_hot_words(jit_compile):
    words, copies = draw(ROWS, STEPS, WORDS), draw(ROWS, STEPS, TIME)
    one_hot = np.eye(WORDS + EXTRA)[IDS]
    upstream = draw(ROWS, STEPS, WORDS + EXTRA, seed=5)

    @tf.function(jit_compile=jit_compile)
    def run(words, copies):
        with tf.GradientTape() as tape:
            tape.watch([words, copies])
            p = pointer.by_word(words, copies, tf.constant(IDS), EXTRA)
            loss = ops.sum(p * upstream)
        return p, *tape.gradient(loss, [words, copies])

    p, words_gradient, copies_gradient = run(
        tf.constant(words), tf.constant(copies)
    )
    expected = np.einsum("but,btw->buw", copies, one_hot)
    expected[..., :WORDS] += words
    np.testing.assert_allclose(p, expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(words_gradient, upstream[..., :WORDS])
    np.testing.assert_allclose(
        copies_gradient, np.einsum("buw,btw->but", upstream, one_hot)
    )
