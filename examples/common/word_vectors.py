"""Word vectors from local files, and embeddings that start from them."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from examples.common import text_files


def load_vectors(path: str | Path) -> tuple[list[str], np.ndarray]:
    """Reads word vectors.

    Args:
        path: An `.npz` file with the arrays `words` and `vectors`, or a text
            file (`.gz` or plain) with a word and its numbers on each line, as
            GloVe is published. There, words after the first may hold spaces.

    Returns:
        The words, and a float32 array `(words, size)`.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is malformed, or if a number is not finite.
    """
    path = Path(path)
    if path.suffix != ".npz":
        return _read_text(path)
    with np.load(path) as arrays:
        found = {name: arrays[name] for name in arrays}
    shapes = {name: f"{x.dtype} {x.shape}" for name, x in found.items()}
    words, vectors = found.get("words"), found.get("vectors")
    if (
        words is None
        or vectors is None
        or words.dtype.kind != "U"
        or vectors.dtype.kind not in "fiu"
        or vectors.ndim != 2
        or words.shape != vectors.shape[:1]
        or not np.isfinite(vectors).all()
    ):
        raise ValueError(
            f"{path}: expected strings `words` and finite numbers `vectors`, "
            f"(words,) and (words, size). Received: {shapes}"
        )
    return words.tolist(), vectors.astype("float32")


def _read_text(path):
    words, vectors, size = [], [], 0
    for number, line in text_files.lines(path, "utf8"):
        line = line.rstrip(" ")
        word, *values = line.rsplit(" ", size) if size else line.split(" ")
        vector = _numbers(values)
        size = size or len(vector)
        too_many = " " in word and _numbers([word.rpartition(" ")[2]]).size
        if not size or len(vector) != size or too_many:
            expected = f"a word and {size or 'its'} finite numbers"
            text_files.fail(path, number, expected, line)
        words.append(word)
        vectors.append(vector)
    return words, np.stack(vectors)


def _numbers(values):
    """A vector; an empty one if a value is no finite number."""
    try:
        vector = np.array(values, dtype="float32")
    except ValueError:
        vector = np.array([np.nan], dtype="float32")
    return vector if np.isfinite(vector).all() else vector[:0]


def find_vectors(data_dir: str) -> str | None:
    """The GloVe file that comes with the data, if one does."""
    found = sorted(Path(data_dir, "glove").glob("*.npz"))
    return str(found[0]) if found else None


def embedding_matrix(
    vocabulary: Sequence[str], vectors_path: str | None, size: int, seed: int
) -> np.ndarray:
    """Starting values of embeddings; known words get their vectors."""
    random = np.random.default_rng(seed)
    known, scale = {}, 0.1
    if vectors_path:
        words, vectors = load_vectors(vectors_path)
        known = dict(zip(words, vectors))
        size, scale = vectors.shape[1], vectors.std()
    matrix = random.normal(0, scale, (len(vocabulary) + 2, size))
    matrix[:2] = 0
    for i, word in enumerate(vocabulary, start=2):
        matrix[i] = known.get(word, matrix[i])
    return matrix.astype("float32")
