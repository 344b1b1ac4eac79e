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
    read = _read_arrays if path.suffix == ".npz" else _read_text
    return read(path)


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
        known = {word: i for i, word in enumerate(words)}
        size, scale = vectors.shape[1], vectors.std()
    matrix = random.normal(0, scale, (len(vocabulary) + 2, size))
    matrix[:2] = 0
    for i, word in enumerate(vocabulary, start=2):
        if word in known:
            matrix[i] = vectors[known[word]]
    return matrix.astype("float32")


def _read_arrays(path):
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    try:
        with path.open("rb") as file, np.load(file) as arrays:
            arrays = {name: arrays[name] for name in arrays}
    except Exception as error:  # Of many kinds, as bytes may mean anything.
        raise ValueError(
            f"{path}: expected an .npz file. Received: {error}"
        ) from error
    if not {"words", "vectors"} <= set(arrays):
        raise ValueError(
            f"{path}: expected the arrays `words` and `vectors`. "
            f"Received: {sorted(arrays)}"
        )
    words, vectors = arrays["words"], arrays["vectors"]
    if words.ndim != 1 or words.dtype.kind != "U":
        raise ValueError(
            f"{path}: expected a list of strings `words`. "
            f"Received: words.shape={words.shape}, words.dtype={words.dtype}"
        )
    if vectors.ndim != 2 or len(vectors) != len(words) or not vectors.size:
        raise ValueError(
            f"{path}: expected one vector for each of {len(words)} words. "
            f"Received: vectors.shape={vectors.shape}"
        )
    if vectors.dtype.kind not in "fiu":
        raise ValueError(
            f"{path}: expected `vectors` of real numbers. "
            f"Received: vectors.dtype={vectors.dtype}"
        )
    words = words.tolist()
    with np.errstate(over="ignore"):  # What is too large becomes infinite.
        vectors = vectors.astype("float32")
    wrong = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if wrong.size:
        raise ValueError(
            f"{path}: expected finite numbers. Received: {wrong.size} words "
            f"with others, the first of them {words[wrong[0]]!r}"
        )
    return words, vectors


def _read_text(path):
    words, vectors, size = [], [], 0
    for number, line in text_files.lines(path, "utf8"):
        line = line.rstrip(" ")
        word, *values = line.rsplit(" ", size) if size else line.split(" ")
        vector = _numbers(values)
        size = size or len(vector)
        _, spaced, last = word.rpartition(" ")
        too_many = spaced and _numbers([last]).size
        if not size or len(vector) != size or too_many:
            expected = f"a word and {size or 'its'} finite numbers"
            text_files.fail(path, number, expected, line)
        words.append(word)
        vectors.append(vector)
    return words, np.stack(vectors)


def _numbers(values):
    """A vector; an empty one if a value is no finite number."""
    try:
        with np.errstate(over="ignore"):
            vector = np.array(values, dtype="float32")
    except ValueError:
        return np.empty(0, "float32")
    return vector if np.isfinite(vector).all() else np.empty(0, "float32")
