"""Sentences of noise for the pooling studies.

Source: "Analyzing the Learnability and Representability of Recurrent
Architectures", section 1.7, which takes them from Wikipedia.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from examples.common import datasets
from examples.common import text_files

PARTS = ("train", "validation", "test")
SHARES = (0.6, 0.2, 0.2)


def read(data_dir: str | Path, path: str | Path | None) -> list[str]:
    """Reads the sentences of a text file, or those that come with the data.

    Args:
        data_dir: Folder with `wiki/sentences.jsonl.gz`, JSON lines `{"text"}`.
        path: A text file with a sentence a line, read instead if given.

    Raises:
        FileNotFoundError: If the file is missing.
        ValueError: If a line is malformed.
    """
    if path is not None:
        return [line for _, line in text_files.lines(Path(path), "utf8")]
    path = Path(data_dir, "wiki", "sentences.jsonl.gz")
    sentences = []
    for number, line in text_files.lines(path, "utf8"):
        try:
            text = json.loads(line)["text"]
        except (ValueError, KeyError, TypeError):
            text = None
        if not isinstance(text, str):
            text_files.fail(path, number, 'JSON like {"text": "..."}', line)
        sentences.append(text)
    return sentences


def split(sentences: Sequence[np.ndarray]) -> dict[str, list[list[int]]]:
    """Sentences by part, always the same ones.

    Equal sentences count once, so the parts have none in common.

    Args:
        sentences: Arrays of words as numbers; empty ones are left out.

    Raises:
        ValueError: If there are fewer different sentences than parts.
    """
    unique = list(dict.fromkeys(tuple(s.tolist()) for s in sentences if s.size))
    if len(unique) < len(PARTS):
        raise ValueError(
            f"The noise must have at least {len(PARTS)} different sentences, "
            f"one for each part. Received: {len(unique)}"
        )
    order = np.random.default_rng(datasets.SPLIT_SEED).permutation(len(unique))
    ends = np.cumsum(SHARES)[:-1] * len(unique)
    groups = np.split(order, ends.astype(int).clip(1))
    return {
        part: [list(unique[i]) for i in group]
        for part, group in zip(PARTS, groups)
    }
