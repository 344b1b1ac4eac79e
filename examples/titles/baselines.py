"""Baselines that know no order of words: bags of them, by scikit-learn."""

from collections.abc import Sequence

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.pipeline import make_pipeline

from examples.common import datasets

BASELINES = ("logistic_regression", "random_forest")


def fit_baseline(
    name: str, train: datasets.Part, seed: int, trees: int = 100
) -> Pipeline:
    """Trains one of `BASELINES` on how often each word is in a title.

    Words are runs of letters and digits, lower-cased, and punctuation marks,
    each one a word.
    """
    words = CountVectorizer(token_pattern=r"\w+|[^\w\s]")
    if name == "logistic_regression":
        classifier = LogisticRegression(max_iter=1000)
    else:
        classifier = RandomForestClassifier(
            trees, min_samples_leaf=2, random_state=seed
        )
    return make_pipeline(words, classifier).fit(train.texts, train.labels)


def probabilities(baseline: Pipeline, texts: Sequence[str]) -> np.ndarray:
    """Probability of being machine-made, of each text."""
    return baseline.predict_proba(texts)[:, 1]
