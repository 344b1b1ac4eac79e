"""Word importance against a double loop, and where it is known."""

import numpy as np
import pytest

from examples.pooling import classifiers
from examples.pooling import importance


def loop(model, texts, labels, k):
    """Algorithm 1 word for word, one copy of a text after another."""
    curves = []
    for text, label in zip(texts, labels):
        copies, start = [text], 0
        while start < len(text):
            copy = text.copy()
            first = min(start, len(text) - k)
            copy[first : first + k] = 1
            copies.append(copy)
            start += k
        logs = np.log(model(np.array(copies)).numpy()[:, label])
        changes = abs(logs[1:] - logs[0])
        changes = (changes - min(changes)) / max(changes)
        at = np.linspace(0, len(changes) - 1, 100)
        curves.append(np.interp(at, np.arange(len(changes)), changes))
    return np.mean(curves, axis=0)


@pytest.mark.parametrize("k", [1, 3])
def test_against_a_double_loop(k, monkeypatch):
    monkeypatch.setattr(importance, "REPLACED", k)
    random = np.random.default_rng(0)
    matrix = random.normal(size=(20, 4)).astype("float32")
    model = classifiers.bilstm_classifier("maxatt", matrix, 5)
    texts = [random.integers(2, 20, length) for length in (17, 6, 20, 5)]
    labels, given = np.array([0, 1, 1, 0]), [text.copy() for text in texts]
    expected = loop(model, texts, labels, k)
    assert 0.1 < expected.mean() < 0.9
    found = importance.normalized_word_importance(model, texts, labels)
    # Logarithms whose difference is small are rounded to 1e-7.
    np.testing.assert_allclose(found, expected, atol=1e-4)
    for text, before in zip(texts, given):
        np.testing.assert_array_equal(text, before)
