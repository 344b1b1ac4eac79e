"""Words of texts, and their ids."""

import numpy as np
import pytest
import tensorflow as tf

from examples.common import datasets
from examples.common import text_encoding


def words_of(text):
    return [w.decode() for w in text_encoding.split_words([text]).numpy()[0]]


@pytest.mark.parametrize(
    "text, words",
    [
        ("It's GOOD, really!", ["it's", "good", ",", "really", "!"]),
        ("a  half-hour\tplot ...", ["a", "half-hour", "plot", *"..."]),
        ("Ärger (1998)", ["ärger", "(", "1998", ")"]),
        (" ", []),
    ],
)
def test_split_words(text, words):
    assert words_of(text) == words
    kept = text_encoding.split_words([text], lower=False).numpy()[0]
    assert [word.decode().lower() for word in kept] == words
    assert b"".join(kept).decode() == "".join(text.split())


def test_tokenizer_pads_and_cuts():
    tokenizer = text_encoding.make_tokenizer(["a", "b"], max_length=3)
    texts = tf.constant(["b A", "", "a a x b", "y"])
    expected = [[3, 2, 0], [0, 0, 0], [2, 2, 1], [1, 0, 0]]
    np.testing.assert_array_equal(tokenizer(texts), expected)


def test_vocabulary_is_of_training_texts_only():
    def part(*texts):
        return datasets.Part(list(texts), np.zeros(len(texts), dtype="int32"))

    data = datasets.TextData(
        ("x", "y"), part("b b a"), part("b c"), part("d a")
    )
    encoded = text_encoding.encode(data, 3)
    assert encoded.words == ["b", "a"]
    assert encoded.validation[0].tolist() == [[2, 1, 0]]
    assert encoded.test[0].tolist() == [[1, 3, 0]]


def test_rare_words_become_the_unknown_one():
    ids = np.array([[2, 7, 3, 0], [5, 4, 1, 0]])
    expected = [[2, 1, 3, 0], [1, 4, 1, 0]]
    np.testing.assert_array_equal(
        text_encoding.keep_frequent(ids, count=5), expected
    )
