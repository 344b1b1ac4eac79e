"""Text classification data from local files: MR, TREC, SST-5, AG, IMDB.

Two layouts are understood; the first that exists is read. In `--data-dir`, a
folder for each data set holds either gzipped JSON lines, one `{"text",
"label"}` each:

    mr/all.jsonl.gz                 sst5/{train,dev,test}.jsonl.gz
    trec/{train,test}.jsonl.gz      imdb/{train,val,test}.jsonl.gz
    ag/{train,test}.jsonl.gz

or the files as they are published (the folder named after the data set may be
left out):

    mr/rt-polaritydata/rt-polarity.{pos,neg}    sst5/trees/{train,dev,test}.txt
    trec/{train_5500,TREC_10}.label             ag/{train,test}.csv
    imdb/aclImdb/{train,test}/{pos,neg}/*.txt

MR has no split: one of ten folds, the first unless told otherwise, is the test
part. Where there is no validation part, a tenth of the training part becomes
one. Texts are left as published, duplicates included; `describe` counts those
in two parts.
"""

import csv
import json
import re
from collections.abc import Iterator
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from examples.common import text_files

CLASSES = {
    "mr": ("negative", "positive"),
    "trec": ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"),
    "sst5": ("terrible", "bad", "neutral", "good", "great"),
    "ag": ("World", "Sports", "Business", "Sci/Tech"),
    "imdb": ("negative", "positive"),
}
SPLIT_SEED = 20190101
# Data sets that are published in one part, and the folds that they are cut to.
WITHOUT_TEST = ("mr",)
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

    `fold` says which of the `FOLDS` is the test part where there is no other. A
    file that is missing or malformed is named in the error.
    """
    parts = _json_parts(name, Path(data_dir))
    if parts is None:
        parts = _published_parts(name, Path(data_dir))
    parts = {key: _part(name, rows) for key, rows in parts.items()}
    folds = FOLDS if "all" in parts else 1
    if fold not in range(folds):
        raise ValueError(
            f"Argument `fold` must be from 0 to {folds - 1} for {name}. "
            f"Received: fold={fold}"
        )
    if "all" in parts:
        parts["train"], parts["test"] = _split(parts["all"], fold)
    if "validation" not in parts:
        parts["train"], parts["validation"] = _split(parts["train"])
    wanted = (parts[key] for key in ("train", "validation", "test"))
    return TextData(CLASSES[name], *wanted)


def describe(data: TextData) -> str:
    """How many texts there are, and how many of them are in two parts."""
    train, validation = set(data.train.texts), set(data.validation.texts)
    seen = sum(text in train | validation for text in data.test.texts)
    held_out = sum(text in train for text in data.validation.texts)
    return (
        f"{len(data.train.texts)} training, {len(data.validation.texts)} "
        f"validation and {len(data.test.texts)} test texts; {seen} test texts "
        f"are also in training or validation, {held_out} validation texts "
        "also in training"
    )


def choose(part: Part, count: int) -> Part:
    """At most so many texts, at random, as labels may be in order."""
    return take(
        part, np.random.default_rng(0).permutation(len(part.texts))[:count]
    )


def take(part: Part, indices: np.ndarray) -> Part:
    """Some of the texts."""
    return Part([part.texts[i] for i in indices], part.labels[indices])


def json_rows(
    path: str | Path, classes: Sequence[str]
) -> Iterator[tuple[str, int]]:
    """Texts and labels of a file of JSON lines `{"text", "label"}`.

    A label is the name of one of `classes` or its place. A malformed line is
    named in the error.
    """
    labels = {x: i for i, name in enumerate(classes) for x in (name, i)}
    for number, line in text_files.lines(Path(path), "utf8"):
        try:
            row = json.loads(line)
            text, label = row["text"], labels[row["label"]]
        except (ValueError, KeyError, TypeError):
            text = None
        if not isinstance(text, str):
            expected = f'{{"text": "...", "label": 0..{len(classes) - 1}}}'
            text_files.fail(Path(path), number, f"JSON like {expected}", line)
        yield text, label


def _json_parts(name, data_dir):
    """Rows by part from JSON lines; None if there are none."""
    files = {
        "mr": {"all": "all"},
        "sst5": {"train": "train", "validation": "dev", "test": "test"},
        "imdb": {"train": "train", "validation": "val", "test": "test"},
    }.get(name, {"train": "train", "test": "test"})
    paths = {
        part: data_dir / name / f"{file}.jsonl.gz"
        for part, file in files.items()
    }
    if not any(path.exists() for path in paths.values()):
        return None
    return {p: list(json_rows(f, CLASSES[name])) for p, f in paths.items()}


def _published_parts(name, data_dir):
    """Rows by part from the files as they are published."""
    marker, folder, read = {
        "mr": ("rt-polarity.pos", "rt-polaritydata", _mr_rows),
        "trec": ("train_5500.label", ".", _trec_rows),
        "sst5": ("train.txt", "trees", _sst_rows),
        "ag": ("train.csv", "ag_news_csv", _ag_rows),
        "imdb": ("train/pos", "aclImdb", _imdb_rows),
    }[name]
    roots = [data_dir / name, data_dir / name / folder]
    roots += [data_dir / folder, data_dir]
    for root in roots:
        if (root / marker).exists():
            return read(root)
    split = "all" if name in WITHOUT_TEST else "train"
    wanted = [data_dir / name / f"{split}.jsonl.gz"]
    wanted += [root / marker for root in dict.fromkeys(roots)]
    raise FileNotFoundError(
        f"No data for --dataset {name}. Expected one of: "
        + ", ".join(map(str, wanted))
    )


def _mr_rows(root):
    return {
        "all": [
            (line.strip(), label)
            for label, ending in enumerate(("neg", "pos"))
            for _, line in text_files.lines(
                root / f"rt-polarity.{ending}", "latin-1"
            )
        ]
    }


def _trec_rows(root):
    def read(path):
        for number, line in text_files.lines(path, "latin-1"):
            found = re.fullmatch(r"(\w+):\S+ (.+)", line.strip())
            if not found or found[1] not in CLASSES["trec"]:
                text_files.fail(path, number, "`CLASS:fine question`", line)
            yield found[2], CLASSES["trec"].index(found[1])

    return {
        "train": list(read(root / "train_5500.label")),
        "test": list(read(root / "TREC_10.label")),
    }


def _sst_rows(root):
    def read(path):
        for number, line in text_files.lines(path, "utf8"):
            words = re.findall(r"\([0-4] ([^()]+)\)", line)
            is_tree = re.match(r"\([0-4] .*\)\s*$", line)
            closed = line.count("(") == line.count(")")
            if not (is_tree and closed and words):
                expected = "a tree `(label (label word) (label word))`"
                text_files.fail(path, number, expected, line)
            text = " ".join(words).replace("-LRB-", "(")
            yield text.replace("-RRB-", ")").replace("\\/", "/"), int(line[1])

    files = {"train": "train", "validation": "dev", "test": "test"}
    return {p: list(read(root / f"{f}.txt")) for p, f in files.items()}


def _ag_rows(root):
    def read(path):
        for number, line in text_files.lines(path, "utf8"):
            row = next(csv.reader([line]))
            if len(row) != 3 or row[0] not in ("1", "2", "3", "4"):
                expected = '`"1".."4","title","description"`'
                text_files.fail(path, number, expected, line)
            yield f"{row[1]} {row[2]}", int(row[0]) - 1

    return {p: list(read(root / f"{p}.csv")) for p in ("train", "test")}


def _imdb_rows(root):
    return {
        part: [
            (path.read_text(encoding="utf8"), label)
            for label, name in enumerate(("neg", "pos"))
            for path in sorted((root / part / name).glob("*.txt"))
        ]
        for part in ("train", "test")
    }


def _part(name, rows):
    if not rows:
        raise ValueError(f"Data set {name}: expected texts in each part")
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
