"""How good probabilities of two classes are."""

from typing import NamedTuple

import numpy as np
from sklearn import metrics

BINS = 10


class Scores(NamedTuple):
    """Scores of a classifier at threshold 0.5, shares from 0 to 1.

    Attributes:
        accuracy: Share of right answers.
        precision_real: Of the titles called real, the share that are.
        recall_real: Of the real titles, the share called so.
        precision_made: Of the titles called machine-made, the share that are.
        recall_made: Of the machine-made titles, the share called so.
        auc: Area under the ROC curve: how probable it is that a machine-made
            title gets a higher probability than a real one.
        calibration_error: Expected calibration error.
    """

    accuracy: float
    precision_real: float
    recall_real: float
    precision_made: float
    recall_made: float
    auc: float
    calibration_error: float


class Reliability(NamedTuple):
    """Probabilities in bins of equal width, without the empty ones.

    Attributes:
        probability: Mean of those in each bin.
        share: Share of label 1 among them.
        count: How many there are.
    """

    probability: np.ndarray
    share: np.ndarray
    count: np.ndarray


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
        calibration_error=calibration_error(reliability(labels, probabilities)),
    )


def reliability(
    labels: np.ndarray, probabilities: np.ndarray, bins: int = BINS
) -> Reliability:
    """How often label 1 is right, by its probability.

    >>> found = reliability(np.array([0, 1, 1]), np.array([0.1, 0.12, 1.0]))
    >>> found.probability.tolist(), found.share.tolist()
    ([0.11, 1.0], [0.5, 1.0])
    """
    number = np.minimum((probabilities * bins).astype(int), bins - 1)
    count = np.bincount(number, minlength=bins)
    kept = count > 0
    sums = [
        np.bincount(number, weights=values, minlength=bins)[kept]
        for values in (probabilities, labels)
    ]
    count = count[kept]
    return Reliability(sums[0] / count, sums[1] / count, count)


def calibration_error(found: Reliability) -> float:
    """Mean distance of probability and share, each bin by its count.

    >>> found = reliability(np.array([0, 1]), np.array([0.75, 0.75]))
    >>> calibration_error(found)
    0.25
    """
    distances = np.abs(found.probability - found.share)
    return float(np.average(distances, weights=found.count))
