"""The picking task: exact answers, lengths that grow."""

import collections

import numpy as np
import pytest

from examples.tasks import picking


def digits(text):
    return np.array([[int(character) for character in text]])


@pytest.mark.parametrize(
    "sequence, k, answer",
    [
        ("805602017082838371701316304473", 10, 0),
        ("638733290890396690255937986485", 23, 3),
        ("164551937579373896813981125982", 26, 1),
        # The "malicious" ones.
        ("666333666288882888819999999990", 6, 6),
        ("666333666288882888819999999990", 10, 6),
        ("666333666288882888819999999990", 20, 8),
        ("666333666288882888819999999990", 30, 9),
    ],
)
def test_answers_of_the_source(sequence, k, answer):
    assert picking.answers(digits(sequence), [k]).tolist() == [answer]


def test_answers_count_digits_and_the_first_of_equals_wins():
    asked, answers = picking.examples(500, 23, seed=1)
    ties = 0
    for row, k, answer in zip(asked["tokens"], asked["k"], answers):
        counts = collections.Counter(row[:k].tolist())
        # A Counter keeps the order in which it first saw its keys.
        assert counts.most_common(1)[0][0] == answer
        ties += list(counts.values()).count(max(counts.values())) > 1
    assert ties > 100
