"""Scores of probabilities, against their definitions."""

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="needs keras_seqmech[examples]")

from examples.titles import scores  # noqa: E402

LABELS = np.array([0, 0, 0, 1, 1, 0, 1, 0])
PROBABILITIES = np.array([0.1, 0.2, 0.7, 0.9, 0.4, 0.5, 0.7, 0.05])


def test_scores_are_those_of_the_counts():
    found = scores.score(LABELS, PROBABILITIES)
    # Called machine-made: 0.7 of a real one, 0.9 and 0.7.
    assert found.accuracy == pytest.approx(6 / 8)
    assert found.precision_real == pytest.approx(4 / 5)
    assert found.recall_real == pytest.approx(4 / 5)
    assert found.precision_made == pytest.approx(2 / 3)
    assert found.recall_made == pytest.approx(2 / 3)
    pairs = [
        1.0 if p > q else 0.5 if p == q else 0.0
        for p in PROBABILITIES[LABELS == 1]
        for q in PROBABILITIES[LABELS == 0]
    ]
    assert found.auc == pytest.approx(np.mean(pairs))


def test_calibration_is_the_distance_bin_by_bin():
    found = scores.reliability(LABELS, PROBABILITIES, bins=2)
    np.testing.assert_allclose(found.count, [4, 4])
    low = np.mean([0.1, 0.2, 0.4, 0.05])
    high = np.mean([0.7, 0.9, 0.5, 0.7])
    np.testing.assert_allclose(found.probability, [low, high])
    np.testing.assert_allclose(found.share, [0.25, 0.5])
    expected = (abs(low - 0.25) + abs(high - 0.5)) / 2
    assert scores.calibration_error(found) == pytest.approx(expected)


def test_empty_bins_are_left_out():
    found = scores.reliability(np.array([0, 1, 1]), np.array([0.0, 1.0, 1.0]))
    assert found.count.tolist() == [1, 2]
    assert scores.calibration_error(found) == 0
