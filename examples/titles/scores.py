"""How good probabilities of two classes are."""

from typing import NamedTuple

import numpy as np
from sklearn import metrics

BINS = 10


class Scores(NamedTuple):
    """Scores of a classifier at threshold 0.5, shares from 0 to 1."""

    accuracy: float
    precision_real: float  # Of titles called real, the share that are.
    recall_real: float  # Of real titles, the share called so.
    precision_made: float
    recall_made: float
    auc: float  # Area under the ROC curve.
    calibration_error: float  # Expected.


def score(labels: np.ndarray, probabilities: np.ndarray) -> Scores:
    """Scores of probabilities of label 1."""
    called = (probabilities > 0.5).astype("int32")
    precision, recall, _, _ = metrics.precision_recall_fscore_support(
        labels, called, labels=[0, 1], zero_division=0.0
    )
    return Scores(
        accuracy=float((called == labels).mean()),
        precision_real=float(precision[0]),
        recall_real=float(recall[0]),
        precision_made=float(precision[1]),
        recall_made=float(recall[1]),
        auc=float(metrics.roc_auc_score(labels, probabilities)),
        calibration_error=calibration_error(labels, probabilities),
    )


def calibration_error(labels: np.ndarray, probabilities: np.ndarray) -> float:
    """Distance of mean probability and share of label 1, averaged over bins.

    Bins have equal widths and count by their sizes.

    >>> calibration_error(np.array([0, 1]), np.array([0.75, 0.75]))
    0.25
    """
    bins = np.minimum((probabilities * BINS).astype(int), BINS - 1)
    distances = np.abs(np.bincount(bins, weights=probabilities - labels))
    return float(distances.sum() / len(labels))
