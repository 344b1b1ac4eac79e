"""Text classification data from local files: MR, TREC, SST-5, AG, IMDB.

Two layouts are understood; the first that exists is read. In `--data-dir`, a
folder for each data set holds either gzipped JSON lines, one `{"text",
"label"}` each:

    mr/all.jsonl.gz                 sst5/{train,dev,test}.jsonl.gz
    trec/{train,test}.jsonl.gz      imdb/{train,val,test}.jsonl.gz
    ag/{train,test}.jsonl.gz

or, in it or in folders of it, the files as they are published:

    mr/rt-polarity.{pos,neg}            sst5/{train,dev,test}.txt
    trec/{train_5500,TREC_10}.label     ag/{train,test}.csv
    imdb/{train,test}/{pos,neg}/*.txt

MR has no split: one of ten folds, the first unless told otherwise, is the test
part. Where there is no validation part, a tenth of the training part becomes
one.
"""

import csv
import re
from collections.abc import Iterator
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from examples.common import text_files
from examples.common.arguments import WHERE_DATA_ARE

CLASSES = {
    "mr": ("negative", "positive"),
    "trec": ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"),
    "sst5": ("terrible", "bad", "neutral", "good", "great"),
    "ag": ("World", "Sports", "Business", "Sci/Tech"),
    "imdb": ("negative", "positive"),
}
SPLIT_SEED = 20190101
# Of a data set that is published in one part.
FOLDS = 10


class Part(NamedTuple):
    """Texts and their labels, ints below the number of classes."""

    texts: list[str]
    labels: np.ndarray


class TextData(NamedTuple):
    """A data set: class names by label, and three parts."""

    classes: tuple[str, ...]
    train: Part
    validation: Part
    test: Part


def load(name: str, data_dir: str | Path, fold: int = 0) -> TextData:
    """Reads one of `CLASSES` from a folder that holds it, in either layout.

    `fold` says which of the `FOLDS` is the test part where there is no other.
    """
    folder = Path(data_dir, name)
    parts = _json_parts(name, folder) or _published_parts(name, folder)
    parts = {key: _part(name, rows) for key, rows in parts.items()}
    if "all" in parts:
        parts["train"], parts["test"] = _split(parts["all"], fold)
    if "validation" not in parts:
        parts["train"], parts["validation"] = _split(parts["train"])
    wanted = (parts[key] for key in ("train", "validation", "test"))
    return TextData(CLASSES[name], *wanted)


def choose(part: Part, count: int | None, seed: int = 0) -> Part:
    """At most so many texts, drawn at random, as labels may be in order.

    If `count` is None, the part as it is.
    """
    if count is None:
        return part
    order = np.random.default_rng(seed).permutation(len(part.texts))
    return take(part, order[:count])


def take(part: Part, indices: np.ndarray) -> Part:
    """Some of the texts."""
    return Part([part.texts[i] for i in indices], part.labels[indices])


def json_rows(
    path: str | Path, classes: Sequence[str]
) -> Iterator[tuple[str, int]]:
    """Texts and labels of a file of JSON lines `{"text", "label"}`.

    A label is the name of one of `classes` or its place.
    """
    labels = {x: i for i, name in enumerate(classes) for x in (name, i)}
    for row in text_files.json_lines(path):
        yield row["text"], labels[row["label"]]


def _json_parts(name, folder):
    """Rows by part from JSON lines; those of no file are left out."""
    files = {"all": "all", "train": "train", "test": "test"}
    files["validation"] = {"sst5": "dev", "imdb": "val"}.get(name, "")
    paths = {part: folder / f"{x}.jsonl.gz" for part, x in files.items()}
    return {
        part: list(json_rows(path, CLASSES[name]))
        for part, path in paths.items()
        if path.exists()
    }


def _published_parts(name, folder):
    """Rows by part from the files as they are published."""
    marker, read = {
        "mr": ("rt-polarity.pos", _mr_rows),
        "trec": ("train_5500.label", _trec_rows),
        "sst5": ("train.txt", _sst_rows),
        "ag": ("train.csv", _ag_rows),
        "imdb": ("train/pos", _imdb_rows),
    }[name]
    for path in sorted(folder.rglob(marker)):
        return read(path.parent)
    raise FileNotFoundError(
        f"No data for --dataset {name}. Expected in {folder}, or in a folder "
        f"of it: {marker}; or JSON lines, {'all' if name == 'mr' else 'train'}"
        f".jsonl.gz; {WHERE_DATA_ARE}"
    )


def _mr_rows(root):
    rows = []
    for label, ending in enumerate(("neg", "pos")):
        path = root / f"rt-polarity.{ending}"
        rows += [(x.strip(), label) for x in text_files.lines(path, "latin-1")]
    return {"all": rows}


def _trec_rows(root):
    def read(file):
        for line in text_files.lines(root / f"{file}.label", "latin-1"):
            label, _, text = line.strip().partition(" ")
            yield text, CLASSES["trec"].index(label.partition(":")[0])

    files = {"train": "train_5500", "test": "TREC_10"}
    return {part: list(read(file)) for part, file in files.items()}


def _sst_rows(root):
    def read(file):
        for line in text_files.lines(root / f"{file}.txt"):
            text = " ".join(re.findall(r"\([0-4] ([^()]+)\)", line))
            for mark, meant in {"-LRB-": "(", "-RRB-": ")", "\\/": "/"}.items():
                text = text.replace(mark, meant)
            yield text, int(line[1])

    files = {"train": "train", "validation": "dev", "test": "test"}
    return {part: list(read(file)) for part, file in files.items()}


def _ag_rows(root):
    def read(file):
        for row in csv.reader(text_files.lines(root / f"{file}.csv")):
            label, title, description = row
            yield f"{title} {description}", int(label) - 1

    return {part: list(read(part)) for part in ("train", "test")}


def _imdb_rows(root):
    return {
        part: [
            (path.read_text(encoding="utf8"), label)
            for label, name in enumerate(("neg", "pos"))
            for path in sorted((root.parent / part / name).glob("*.txt"))
        ]
        for part in ("train", "test")
    }


def _part(name, rows):
    texts, labels = zip(*rows)
    if name == "imdb":
        texts = [text.replace("<br />", " ") for text in texts]
    return Part(list(texts), np.array(labels, dtype="int32"))


def _split(part, fold=0):
    """Takes off a random tenth that does not depend on the order of files.

    Together the tenths of all folds are the whole: those of equal size, and
    with the last fold what is left.
    """
    order = np.array(sorted(range(len(part.texts)), key=part.texts.__getitem__))
    order = order[np.random.default_rng(SPLIT_SEED).permutation(len(order))]
    tenth = max(1, len(order) // FOLDS)
    end = len(order) if fold == FOLDS - 1 else (fold + 1) * tenth
    taken = slice(min(fold * tenth, len(order) - 1), end)
    return take(part, np.delete(order, taken)), take(part, order[taken])
