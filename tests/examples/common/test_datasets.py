"""Data files in both layouts, and the real ones."""

import gzip

import numpy as np
import pytest

from examples.common import datasets
from tests.examples.files import write_lines

PARTS = {
    "mr": ("all",),
    "trec": ("train", "test"),
    "sst5": ("train", "dev", "test"),
    "ag": ("train", "test"),
    "imdb": ("train", "val", "test"),
}


def text_of(name, part, i):
    return f"{name} {part} text number {i} ."


def label_of(name, i):
    return i % len(datasets.CLASSES[name])


def write_json(root, name, rows=40):
    """Writes a data set as JSON lines; TREC with the names of classes."""
    labels = datasets.CLASSES[name] if name == "trec" else range(9)
    for part in PARTS[name]:
        examples = [
            {"text": text_of(name, part, i), "label": labels[label_of(name, i)]}
            for i in range(rows)
        ]
        write_lines(root / name / f"{part}.jsonl.gz", examples)


def write_published(root, name, rows=40):
    """Writes the same data set as its authors publish it."""
    examples = {
        part: [(text_of(name, part, i), label_of(name, i)) for i in range(rows)]
        for part in PARTS[name]
    }
    if name == "mr":
        folder = root / "mr" / "rt-polaritydata"
        folder.mkdir(parents=True)
        for label, ending in enumerate(("neg", "pos")):
            own = [text for text, y in examples["all"] if y == label]
            (folder / f"rt-polarity.{ending}").write_text(
                "".join(text + " \n" for text in own), encoding="latin-1"
            )
    elif name == "trec":
        (root / "trec").mkdir(parents=True)
        for part, file in (("train", "train_5500"), ("test", "TREC_10")):
            lines = [
                f"{datasets.CLASSES[name][label]}:fine {text}\n"
                for text, label in examples[part]
            ]
            (root / "trec" / f"{file}.label").write_text("".join(lines))
    elif name == "sst5":
        folder = root / "sst5" / "trees"
        folder.mkdir(parents=True)
        for part in PARTS[name]:
            lines = []
            for text, label in examples[part]:
                first, *others = text.split(" ")
                tree = f"(2 {first})"
                for word in others:
                    tree = f"(3 {tree} (1 {word}))"
                lines.append(f"({label} {tree[3:-1]})\n")
            (folder / f"{part}.txt").write_text("".join(lines))
    elif name == "ag":
        (root / "ag").mkdir(parents=True)
        for part in PARTS[name]:
            lines = []
            for text, label in examples[part]:
                title, description = text.split(" ", 1)
                lines.append(f'"{label + 1}","{title}","{description}"\n')
            (root / "ag" / f"{part}.csv").write_text("".join(lines))
    else:
        for part in ("train", "test"):
            for label, ending in enumerate(("neg", "pos")):
                folder = root / "imdb" / "aclImdb" / part / ending
                folder.mkdir(parents=True)
                for i, (text, y) in enumerate(examples[part]):
                    if y == label:
                        (folder / f"{i}_7.txt").write_text(text)


def rows_of(part):
    return sorted(zip(part.texts, part.labels.tolist()))


def expected_rows(name, part, rows=40):
    return sorted(
        (text_of(name, part, i), label_of(name, i)) for i in range(rows)
    )


@pytest.mark.parametrize("name", datasets.CLASSES)
@pytest.mark.parametrize("write", [write_json, write_published])
def test_both_layouts(tmp_path, name, write):
    write(tmp_path, name)
    data = datasets.load(name, tmp_path)
    assert data.classes == datasets.CLASSES[name]
    parts = {p: rows_of(getattr(data, p)) for p in data._fields[1:]}
    if name == "mr":
        assert [len(parts[p]) for p in data._fields[1:]] == [33, 3, 4]
        joined = parts["train"] + parts["validation"] + parts["test"]
        assert sorted(joined) == expected_rows(name, "all")
        return
    assert parts["test"] == expected_rows(name, "test")
    known = {"sst5": "dev", "imdb": "val" if write is write_json else None}
    if known.get(name):
        assert parts["train"] == expected_rows(name, "train")
        assert parts["validation"] == expected_rows(name, known[name])
    else:
        assert len(parts["validation"]) == 4
        joined = sorted(parts["train"] + parts["validation"])
        assert joined == expected_rows(name, "train")


def test_html_breaks_and_brackets_become_text(tmp_path):
    write_json(tmp_path, "imdb")
    row = {"text": "so<br /><br />bad", "label": 0}
    write_lines(tmp_path / "imdb" / "test.jsonl.gz", [row])
    assert datasets.load("imdb", tmp_path).test.texts == ["so  bad"]
    write_published(tmp_path, "sst5")
    path = tmp_path / "sst5" / "trees" / "test.txt"
    path.write_text("(1 (2 -LRB-) (1 (2 and\\/or) (3 -RRB-)))\n")
    test = datasets.load("sst5", tmp_path).test
    assert (test.texts, test.labels.tolist()) == (["( and/or )"], [1])


def test_folds_of_mr_are_the_whole(tmp_path):
    write_json(tmp_path, "mr", rows=64)
    folds = [datasets.load("mr", tmp_path, fold) for fold in range(10)]
    tests = [rows_of(data.test) for data in folds]
    assert [len(rows) for rows in tests] == [6] * 9 + [10]
    everything = sorted(sum(tests, []))
    assert everything == expected_rows("mr", "all", rows=64)
    for data, test in zip(folds, tests):
        rest = rows_of(data.train) + rows_of(data.validation)
        assert sorted(rest + test) == everything


def test_what_cannot_be_read_is_named(tmp_path):
    write_json(tmp_path, "mr")
    path = tmp_path / "mr" / "all.jsonl.gz"
    path.write_bytes(gzip.compress(b"not JSON"))
    with pytest.raises(ValueError, match="all.jsonl.gz: .*'not JSON'"):
        datasets.load("mr", tmp_path)
    with pytest.raises(FileNotFoundError, match="ag.*: train.csv; or"):
        datasets.load("ag", tmp_path)


def test_a_choice_of_texts_keeps_their_labels():
    part = datasets.Part([str(i) for i in range(20)], np.arange(20))
    chosen = datasets.choose(part, 8)
    assert chosen.texts == [str(label) for label in chosen.labels]
    assert len(set(chosen.texts)) == 8
    assert set(chosen.texts) != set(part.texts[:8])
    assert sorted(datasets.choose(part, 30).labels) == list(range(20))
