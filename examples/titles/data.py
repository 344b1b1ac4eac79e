"""Titles: real ones and machine-made ones.

In `--data-dir`, the folder `titles` holds `train.jsonl.gz`, `val.jsonl.gz` and
`test.jsonl.gz`, gzipped JSON lines with `{"text", "label"}`: titles of papers
on arXiv (0) and titles that a machine made (1). The source, "RNNs for
arXiv/viXra title classification", tells titles on arXiv from those on viXra.
These were not to be had; the machine-made titles stand in for them, and
accuracies are not to be compared with the source's.

Some of them, machine-made ones above all, are there more than once. Validation
and test titles that an earlier part has are left out, so what is measured is
not what was learned by heart. (Word for word: 27 test titles differ from an
earlier one in case or spaces alone.) Machine-made titles are shorter, 7.1 words
on average to 9.6: the baseline "length" says how much that tells.

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

    train, validation, test = map(
        shuffle, (data.train, data.validation, data.test)
    )
    return data._replace(train=train, validation=validation, test=test)
