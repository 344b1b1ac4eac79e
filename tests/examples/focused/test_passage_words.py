"""Words of questions, passages and answers as ids."""

import numpy as np
import pytest

from examples.focused import passage_data
from examples.focused import passage_words
from examples.focused.passage_data import Question


@pytest.fixture(scope="module")
def words():
    return passage_words.Words(["who", "saw", "the"], ["fox"])


@pytest.mark.parametrize(
    "text, expected",
    [
        ("It's 1,500 half-hours.", ["it's", "1,500", "half-hours", "."]),
        ("(the U.S.)", ["(", "the", "u.s", ".", ")"]),
        ("6½ £30m", ["6½", "£", "30m"]),
        (" \n", []),
    ],
)
def test_split_words(text, expected):
    assert passage_words.split_words(text) == expected


def test_encoded_questions(words):
    questions = [
        Question(
            "Who saw the fox?", "The owl saw the fox.", ("the owl", "owl")
        ),
        Question("Who?", "elk", ("the elk who saw the fox",)),
    ]
    encoded = passage_words.encode(questions, words, 4, 5, 4)
    expected = {
        "question": [[4, 5, 6, 7], [4, 1, 0, 0]],
        "passage": [[6, 1, 5, 6, 7], [1, 0, 0, 0, 0]],
        "copies": [[6, 7, 5, 6, 8], [7, 0, 0, 0, 0]],
        "previous": [[2, 6, 1, 0], [2, 6, 1, 4]],
    }
    for name, array in encoded.inputs.items():
        np.testing.assert_array_equal(array, expected.pop(name))
    assert not expected
    np.testing.assert_array_equal(encoded.targets, [[6, 7, 3, 0], [6, 7, 4, 5]])
    np.testing.assert_array_equal(encoded.weights, [[1, 1, 1, 0], [1] * 4])
    assert encoded.extras == [["owl", "fox"], ["elk"]]


def test_words_of_a_data_set():
    train = [Question("a b", "b c b", ("c",))]
    test = [Question("x", "y c", ("z",))]
    data = passage_data.PassageData(train, train, test)
    words = passage_words.make_words(data, 2, vectors=["y", "a", "b", "far"])
    assert words.words[4:] == ["b", "c", "a", "y"]
    assert words.vocabulary_size == 6
    encoded = passage_words.encode(test, words, 2, 2, 3)
    assert encoded.targets.tolist() == [[1, 3, 0]]
