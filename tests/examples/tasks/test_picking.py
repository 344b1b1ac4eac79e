"""The picking task: exact answers, lengths that grow."""

import collections

import numpy as np
import pytest

from examples.tasks import picking
from tests.examples.tasks.streams import arrays


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


def test_examples_are_uniform():
    count, length, max_k = 4000, 12, 8
    asked, answers = picking.examples(count, length, max_k, seed=3)
    assert asked["tokens"].shape == (count, length)
    assert asked["tokens"].dtype == asked["k"].dtype == np.int32
    assert answers.dtype == np.int32 and answers.shape == (count,)
    again, other = (picking.examples(count, length, 8, seed) for seed in (3, 4))
    np.testing.assert_array_equal(again[0]["tokens"], asked["tokens"])
    assert (other[0]["tokens"] != asked["tokens"]).any()
    # Six standard deviations of a share.
    for values, choices in (
        (asked["tokens"], range(10)),
        (asked["k"], range(1, max_k + 1)),
    ):
        assert np.unique(values).tolist() == list(choices)
        p = 1 / len(choices)
        near = 6 * np.sqrt(p * (1 - p) / values.size)
        for choice in choices:
            assert abs((values == choice).mean() - p) < near


def test_growing_sequences():
    data = picking.dataset(lambda number: 3 + number, 4, max_k=5).take(5)
    assert data.element_spec[0]["tokens"].shape == (None, None)
    batches = arrays(data)
    shapes = [asked["tokens"].shape for asked, _ in batches]
    assert shapes == [(4, 3), (4, 4), (4, 5), (4, 6), (4, 7)]
    for asked, answers in batches:
        assert asked["k"].max() <= min(5, asked["tokens"].shape[1])
        expected = picking.answers(asked["tokens"], asked["k"])
        np.testing.assert_array_equal(answers, expected)
