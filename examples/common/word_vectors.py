"""Word vectors from local files, and embeddings that start from them."""

from pathlib import Path

import numpy as np

from examples.common import text_files


def load_vectors(path: str | Path) -> tuple[list[str], np.ndarray]:
    """Words, and their vectors, a float32 array `(words, size)`.

    From an `.npz` file with the arrays `words` and `vectors`, or a text file
    (`.gz` or plain) with a word and its numbers on each line, as GloVe is
    published. There, words after the first may hold spaces.
    """
    if Path(path).suffix == ".npz":
        with np.load(path) as arrays:
            words, vectors = arrays["words"], arrays["vectors"]
        return words.tolist(), vectors.astype("float32")
    words, rows = [], []
    for line in text_files.lines(path):
        size = len(rows[0]) if rows else -1
        word, *numbers = line.rstrip(" ").rsplit(" ", size)
        words.append(word)
        rows.append(np.array(numbers, dtype="float32"))
    return words, np.stack(rows)


def find_vectors(data_dir: str | Path) -> str | None:
    """The GloVe file that comes with the data, if one does."""
    endings = ("npz", "txt", "txt.gz")
    folder = Path(data_dir, "glove")
    found = [
        x for ending in endings for x in sorted(folder.glob(f"*.{ending}"))
    ]
    return str(found[0]) if found else None


def embedding_matrix(
    vocabulary: list[str],
    vectors_path: str | None,
    size: int,
    seed: int,
    drawn: bool = False,
) -> np.ndarray:
    """Starting values of embeddings; known words get their vectors.

    Others are drawn, as spread as the vectors; padding and the unknown word are
    zeros. If `drawn`, all of them are standard normal.
    """
    random = np.random.default_rng(seed)
    known, scale = {}, 0.1
    if vectors_path:
        words, vectors = load_vectors(vectors_path)
        known = dict(zip(words, vectors))
        size, scale = vectors.shape[1], vectors.std()
    scale = 1.0 if drawn else scale
    matrix = random.normal(0, scale, (len(vocabulary) + 2, size))
    if not drawn:
        matrix[:2] = 0
    for i, word in enumerate(vocabulary, start=2):
        matrix[i] = known.get(word, matrix[i])
    return matrix.astype("float32")
