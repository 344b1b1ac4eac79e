"""Scores of answers."""

import math

import pytest

from examples.focused import answer_scores


@pytest.mark.parametrize(
    "prediction, answers, exact, f1",
    [
        ("The  u.s .", ["U.S."], 1, 1),
        ("1,500 men", ["1500 men", "men"], 1, 1),
        ("red red house", ["the red house"], 0, 0.8),
        ("boat", ["a house", "the red boat"], 0, 2 / 3),
        ("", ["house"], 0, 0),
        ("the", ["a"], 1, 1),
    ],
)
def test_exact_match_and_f1(prediction, answers, exact, f1):
    assert answer_scores.exact_match(prediction, answers) == exact
    assert answer_scores.f1(prediction, answers) == pytest.approx(f1)


def test_scores_of_texts():
    scores = answer_scores.score_texts(
        ["the cat sat", "dog"], [["the cat sat down", "cat"], ["bird"]]
    )
    # BLEU-1: 3 of 4 words are right; 4 words stand for 4 + 1.
    assert scores == {
        "exact_match": 0,
        "f1": round(100 * (2 * 2 / (2 + 3)) / 2, 2),
        "bleu1": round(100 * 3 / 4 * math.exp(1 - 5 / 4), 2),
        "rouge_l": round(100 * (2 * 3 / (3 + 4)) / 2, 2),
    }


def test_scores_of_labels():
    scores = answer_scores.score_labels([0, 0, 1, 0], [0, 0, 1, 1], 3)
    # F1 of the classes: 0.8, 2/3, and 0 for the one that is not there.
    assert scores == {
        "accuracy": 75,
        "macro_f1": round(100 * (0.8 + 2 / 3) / 3, 2),
    }
