"""How good probabilities of two classes are."""

from typing import NamedTuple

import numpy as np
from sklearn import metrics
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.preprocessing import OneHotEncoder

from examples.common import datasets

NAMES = ("length", "logistic_regression", "random_forest")


def fit_baseline(name: str, train: datasets.Part, seed: int) -> Pipeline:
    """Trains one of `NAMES`.

    Words are runs of letters and digits, lower-cased, and punctuation marks,
    each one a word; of "length" what white space separates.
    """
    if name == "length":
        counts = FunctionTransformer(_count_words)
        classes = OneHotEncoder(handle_unknown="ignore")
        baseline = make_pipeline(counts, classes, LogisticRegression())
        return baseline.fit(train.texts, train.labels)
    words = CountVectorizer(token_pattern=r"\w+|[^\w\s]")
    if name == "logistic_regression":
        classifier = LogisticRegression(max_iter=1000)
    else:
        classifier = RandomForestClassifier(
            min_samples_leaf=2, random_state=seed
        )
    return make_pipeline(words, classifier).fit(train.texts, train.labels)


def _count_words(texts: list[str]) -> np.ndarray:
    return np.array([[len(text.split())] for text in texts])


def probabilities(baseline: Pipeline, texts: list[str]) -> np.ndarray:
    """Probability of being machine-made, of each text."""
    return baseline.predict_proba(texts)[:, 1]


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
    """Distance of mean probability and share of label 1, mean over equal bins.

    >>> calibration_error(np.array([0, 1]), np.array([0.75, 0.75]))
    0.25
    """
    bins = np.minimum((probabilities * BINS).astype(int), BINS - 1)
    distances = np.abs(np.bincount(bins, weights=probabilities - labels))
    return float(distances.sum() / len(labels))
