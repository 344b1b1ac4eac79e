"""Baselines by scikit-learn that know no order of words.

Two know how often each word is in a title, and one, "length", nothing but how
many words it has: machine-made texts may be shorter or longer than real ones.
"""

from collections.abc import Sequence

import numpy as np
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


def _count_words(texts: Sequence[str]) -> np.ndarray:
    return np.array([[len(text.split())] for text in texts])


def probabilities(baseline: Pipeline, texts: Sequence[str]) -> np.ndarray:
    """Probability of being machine-made, of each text."""
    return baseline.predict_proba(texts)[:, 1]
