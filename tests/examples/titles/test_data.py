"""Titles in files, and texts made of docstrings."""

import numpy as np
import pytest

from examples.common import datasets
from examples.titles import data
from examples.titles import docstrings
from examples.titles import scores
from tests.examples.titles import small_titles


def test_titles_of_an_earlier_part_are_left_out(tmp_path):
    small_titles.write(tmp_path, repeated=[("again", 1)])
    found = data.load(tmp_path)
    assert found.train.texts.count("again") == 1
    assert "again" not in found.validation.texts + found.test.texts
    sizes = [len(part.texts) for part in found[1:]]
    assert sizes == [71, 14, 14]
    expected = dict([*small_titles.rows(), ("again", 1)])
    for part in found[1:]:
        assert [expected[text] for text in part.texts] == part.labels.tolist()


def test_shuffled_titles_have_the_same_words(tmp_path):
    found = data.load(small_titles.write(tmp_path))
    first, again = data.shuffled(found), data.shuffled(found)
    assert first.train.texts == again.train.texts
    for old, new in zip(found[1:], first[1:]):
        assert old.texts != new.texts
        assert [sorted(x.split()) for x in old.texts] == [
            sorted(x.split()) for x in new.texts
        ]
        np.testing.assert_array_equal(old.labels, new.labels)


@pytest.fixture(scope="module")
def made():
    return docstrings.load(packages=["numpy"])


def test_docstrings_are_of_two_kinds_and_in_one_part_each(made):
    texts = [text for part in made[1:] for text in part.texts]
    labels = np.concatenate([part.labels for part in made[1:]])
    assert len(set(texts)) == len(texts) > 500
    assert labels.mean() == 0.5
    lines = set(docstrings.first_lines("numpy"))
    kinds = [text in lines for text in texts]
    assert kinds == (labels == 0).tolist()
    assert all(3 <= len(text.split()) <= 20 for text in texts)


def test_machine_made_words_follow_each_other_in_texts_not_in_the_set(made):
    real = {
        text for part in made[1:] for text, label in zip(*part) if label == 0
    }
    seen = set(docstrings.first_lines("numpy")) - real
    pairs = {
        pair
        for text in seen
        for pair in zip(["", *text.split()], [*text.split(), ""])
    }
    for part in made[1:]:
        for text, label in zip(*part):
            words = text.split()
            follow = set(zip(["", *words], [*words, ""])) <= pairs
            assert follow or label == 0


def test_the_length_alone():
    """What numbers of words tell, and words that are not counted do not."""
    texts = ["a b", "c d", "a b c", "c d a", "b c d"]
    train = datasets.Part(texts * 20, np.array([1, 1, 0, 0, 1] * 20))
    baseline = scores.fit_baseline("length", train, seed=0)
    found = scores.probabilities(baseline, ["x y", "x y z", "x"])
    assert found[0] > 0.9 and abs(found[1] - 1 / 3) < 0.1
    assert found.min() >= 0 and found.max() <= 1
