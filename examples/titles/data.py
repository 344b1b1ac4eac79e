"""Titles: real ones and machine-made ones.

In `--data-dir`, the folder `titles` holds `train.jsonl.gz`, `val.jsonl.gz` and
`test.jsonl.gz`, gzipped JSON lines with `{"text", "label"}`: titles of papers
on arXiv (0) and titles that a machine made (1), which stand in for the source's
titles on viXra. Validation and test titles that an earlier part has are left
out, so what is measured is not what was learned by heart.

Without `--data-dir`, first lines of docstrings stand in for both; see
`docstrings.py`.
"""

from pathlib import Path

import numpy as np

from examples.common import datasets
from examples.titles import docstrings

CLASSES = docstrings.CLASSES
FILES = ("train", "val", "test")


def load(data_dir: str | Path | None) -> datasets.TextData:
    """Reads the titles of a folder; makes texts of docstrings if it is None."""
    if data_dir is None:
        return docstrings.load()
    parts, seen = [], set()
    for file in FILES:
        path = Path(data_dir, "titles", f"{file}.jsonl.gz")
        rows = [
            x for x in datasets.json_rows(path, CLASSES) if x[0] not in seen
        ]
        texts, labels = zip(*rows)
        seen.update(texts)
        parts.append(datasets.Part(list(texts), np.array(labels, "int32")))
    return datasets.TextData(CLASSES, *parts)


def shuffled(data: datasets.TextData) -> datasets.TextData:
    """The words of each title in an order of their own, always the same."""
    random = np.random.default_rng(0)

    def shuffle(part):
        texts = [" ".join(random.permutation(x.split())) for x in part.texts]
        return part._replace(texts=texts)

    return datasets.TextData(data.classes, *map(shuffle, data[1:]))
