"""Scores of probabilities, against their definitions."""

import numpy as np

from examples.titles import scores

LABELS = np.array([0, 0, 0, 1, 1, 0, 1, 0])
PROBABILITIES = np.array([0.1, 0.2, 0.7, 0.9, 0.4, 0.5, 0.75, 0.15])


def test_scores_are_those_of_the_counts():
    found = scores.score(LABELS, PROBABILITIES)
    # Called machine-made: 0.7 of a real one, 0.9 and 0.75.
    pairs = [
        1.0 if p > q else 0.5 if p == q else 0.0
        for p in PROBABILITIES[LABELS == 1]
        for q in PROBABILITIES[LABELS == 0]
    ]
    # Bins with two probabilities: 0.1 and 0.15, both real; 0.7 and 0.75.
    alone = 0.2 + (1 - 0.9) + (1 - 0.4) + 0.5
    error = (alone + (0.1 + 0.15) + abs(0.7 + 0.75 - 1)) / 8
    expected = (6 / 8, 4 / 5, 4 / 5, 2 / 3, 2 / 3, np.mean(pairs), error)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
