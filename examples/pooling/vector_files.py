"""Files of token vectors: what an encoder made of texts.

An `.npz` file, uncompressed and without pickle, with these arrays:

    vectors      float16 (tokens, width), the tokens of all texts in a row
    row_splits   int64 (texts + 1,): text i has the tokens from row_splits[i]
                 up to row_splits[i + 1]
    labels       int32 (texts,)
    parts        str (texts,), "train", "validation" or "test"
    digests      str (texts,), SHA-256 of each text, by which it is found
    encoder      str, the encoder with its version and what it was asked for
"""

import hashlib
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from examples.common import whole_files

PARTS = ("train", "validation", "test")


class TokenVectors(NamedTuple):
    """Texts as sequences of vectors.

    Attributes:
        rows: Of each text an array `(tokens, width)`.
        labels: Of each text.
    """

    rows: list[np.ndarray]
    labels: np.ndarray


class Encoded(NamedTuple):
    """The contents of a file; see above."""

    vectors: np.ndarray
    row_splits: np.ndarray
    labels: np.ndarray
    parts: np.ndarray
    digests: np.ndarray
    encoder: str

    def find(
        self, texts: Sequence[str], labels: np.ndarray, part: str
    ) -> TokenVectors:
        """The vectors of texts, as views.

        Args:
            texts: What was encoded.
            labels: What the file must say of them.
            part: One of `PARTS`, likewise.

        Raises:
            ValueError: If the file lacks a text, or says something else of it.
        """
        known = {
            (own, digest): i
            for i, (own, digest) in enumerate(zip(self.parts, self.digests))
        }
        keys = [(part, digest(text)) for text in texts]
        missing = sum(key not in known for key in keys)
        if missing:
            raise ValueError(
                f"the vectors must be of the texts that are asked for. "
                f"Received: a file without {missing} of {len(keys)} {part} "
                "texts; encode them with the same --dataset, --per-class, "
                "--seeds, --validation-size and --test-size"
            )
        indices = [known[key] for key in keys]
        if not np.array_equal(self.labels[indices], labels):
            raise ValueError(
                f"the labels of the file must be those of the {part} texts. "
                "Received: others"
            )
        start, stop = self.row_splits[:-1], self.row_splits[1:]
        rows = [self.vectors[start[i] : stop[i]] for i in indices]
        return TokenVectors(rows, np.asarray(labels))


def default_path(dataset: str) -> str:
    """Where the vectors of a data set are, unless told otherwise."""
    return f"runs/contextual/{dataset}.npz"


def digest(text: str) -> str:
    """What a text is found by."""
    return hashlib.sha256(text.encode("utf8")).hexdigest()


def write(path: str | Path, encoded: Encoded) -> None:
    """Writes a file, whole or not at all."""
    with whole_files.replacing(path, "wb") as file:
        np.savez(file, **encoded._asdict())


def read(path: str | Path) -> Encoded:
    """Reads a file.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is malformed; says what is wrong with it.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(
            f"{path}: no such file; "
            "`python -m examples.pooling.contextual_vectors` writes it"
        )
    try:
        # NumPy leaves a file open that is no archive.
        with (
            path.open("rb") as opened,
            np.load(opened, allow_pickle=False) as file,
        ):
            arrays = {name: file[name] for name in Encoded._fields}
    except (zipfile.BadZipFile, EOFError, OSError, KeyError) as error:
        _fail(path, f"an .npz file with {', '.join(Encoded._fields)}", error)
    except (ValueError, AttributeError, TypeError) as error:
        # Not an archive at all, or one that holds pickled objects.
        _fail(path, "arrays of numbers and strings in an .npz file", error)
    _check(path, arrays)
    return Encoded(**arrays | {"encoder": str(arrays["encoder"])})


def _check(path, arrays):
    kinds = {
        "vectors": ("f", 2),
        "row_splits": ("i", 1),
        "labels": ("i", 1),
        "parts": ("U", 1),
        "digests": ("U", 1),
        "encoder": ("U", 0),
    }
    names = {"f": "floats", "i": "integers", "U": "strings"}
    for name, (kind, rank) in kinds.items():
        array = arrays[name]
        if array.dtype.kind != kind or array.ndim != rank:
            _fail(
                path,
                f"`{name}` with {rank} dimensions of {names[kind]}",
                f"{array.ndim} dimensions of {array.dtype}",
            )
    vectors, splits = arrays["vectors"], arrays["row_splits"]
    count = len(splits) - 1
    for name in ("labels", "parts", "digests"):
        if count < 1 or len(arrays[name]) != count:
            _fail(
                path,
                f"`{name}` of as many texts as `row_splits` has, at least one",
                f"{len(arrays[name])} and {count}",
            )
    ends = (splits[0], splits[-1])
    if ends != (0, len(vectors)) or (np.diff(splits) < 1).any():
        _fail(
            path,
            f"`row_splits` that rises from 0 to {len(vectors)}, the number of "
            "vectors",
            splits,
        )
    unknown = sorted(set(arrays["parts"].tolist()) - set(PARTS))
    if unknown:
        _fail(path, f"`parts` of {', '.join(PARTS)}", unknown)
    if not vectors.shape[1]:
        _fail(path, "`vectors` of at least one number", vectors.shape)
    if (arrays["labels"] < 0).any():
        _fail(path, "`labels` of at least 0", arrays["labels"].min())
    if not np.isfinite(vectors).all():
        _fail(path, "finite `vectors`", "others")


def _fail(path, expected, received):
    raise ValueError(f"{path}: expected {expected}. Received: {received}")
