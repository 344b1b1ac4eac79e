"""Words of texts, and their ids."""

import numpy as np
import pytest

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
