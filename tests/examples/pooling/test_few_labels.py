"""The study of few labels on a small made-up data set."""

import numpy as np
import pytest

from examples.common import datasets
from examples.common import word_vectors
from examples.pooling import contextual_vectors
from examples.pooling import few_labels
from tests.examples.pooling.small_study import BAD
from tests.examples.pooling.small_study import GOOD
from tests.examples.pooling.small_study import write_imdb

pytestmark = pytest.mark.long


def encode(texts):
    """Vectors that tell good words from bad ones."""
    return [
        np.array([[w in GOOD, w in BAD, 1] for w in text.split()], "float16")
        for text in texts
    ]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_imdb(tmp_path, counts=(60, 400, 1000), words=(6, 9))
    monkeypatch.setattr(contextual_vectors, "load_encoder", lambda: encode)
    contextual_vectors.main(["--data-dir", ".", "--seeds", "0", "1"])
    few_labels.load.cache_clear()
    few_labels._load_texts.cache_clear()
    return "."


def test_both_inputs_are_of_the_same_texts(folder, monkeypatch):
    monkeypatch.setattr(few_labels, "MAX_LENGTH", 7)
    glove, contextual = (
        few_labels.load(inputs, 1, folder) for inputs in few_labels.INPUTS
    )
    data = datasets.load("imdb", folder)
    parts = (
        contextual_vectors.draw(data.train, 1),
        *contextual_vectors.held_out(data),
    )
    table = dict(zip(*word_vectors.load_vectors("glove/g.npz")))
    for part, words, vectors in zip(parts, glove, contextual, strict=True):
        assert words.labels.tolist() == part.labels.tolist()
        assert vectors.labels.tolist() == part.labels.tolist()
        for text, row, other in zip(part.texts, words.rows, vectors.rows):
            known = [table.get(word, [0] * 5) for word in text.split()[:7]]
            np.testing.assert_array_equal(row, known)
            np.testing.assert_array_equal(other, encode([text])[0][:7])
    with pytest.raises(FileNotFoundError, match="contextual_vectors"):
        few_labels.load("contextual", 7, folder)


def test_validation_texts_choose_the_regularisation():
    """With much of it, all texts get the label that is the most frequent."""
    kinds = np.eye(2, dtype="float16")[:, np.newaxis]
    labels = np.array([0, 1], "int32")
    plain = few_labels.TokenVectors(list(kinds), labels)
    train = few_labels.TokenVectors(
        [*kinds, kinds[0], kinds[0]], np.array([0, 1, 0, 0], "int32")
    )
    row = few_labels.fit_logistic(few_labels.FewData(train, plain, plain))
    assert row["test_accuracy"] == row["validation_accuracy"] == 100
    assert row["parameters"] == 3
    zeros = plain._replace(labels=0 * labels)
    other = few_labels.fit_logistic(few_labels.FewData(train, zeros, plain))
    assert other["test_accuracy"] == 50
    assert other["last_accuracy"] == row["last_accuracy"]
