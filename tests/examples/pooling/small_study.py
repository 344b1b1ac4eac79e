"""A small data set for the tests of the pooling studies."""

from pathlib import Path

import numpy as np

from examples.pooling import classifiers
from examples.pooling import noisy_texts
from tests.examples.files import write_lines

GOOD = "good fine lovely".split()
BAD = "bad poor awful".split()
OTHER = "the film a plot scene actor".split()
SMALL = ["--units", "4", "--batch-size", "8", "--max-length", "20"]
WIDTH = 5


def write_imdb(
    root: Path,
    counts: tuple[int, int, int] = (60, 20, 24),
    words: tuple[int, int] = (101, 110),
) -> None:
    """IMDb, noise and GloVe; one word in four of a text says its label.

    Args:
        root: An empty folder.
        counts: Texts of the three parts, no two of them equal.
        words: Least and largest number of words of a text.
    """
    random = np.random.default_rng(5)
    (root / "glove").mkdir()
    for part, count in zip(("train", "val", "test"), counts):
        rows = []
        for i in range(count):
            length = words[0] + i % (words[1] - words[0] + 1)
            text = random.choice(OTHER, length).tolist()
            for place in range(i % 4, length, 4):
                text[place] = str(random.choice([BAD, GOOD][i % 2]))
            text[-1] = f"{part}{i}"
            rows.append({"text": " ".join(text), "label": i % 2})
        rows.append({"text": "too short", "label": 0})
        write_lines(root / "imdb" / f"{part}.jsonl.gz", rows)
    noise = [{"text": f"noise{i} word{i}a word{i}b"} for i in range(50)]
    write_lines(root / "wiki" / "sentences.jsonl.gz", [*noise, noise[0]])
    known = np.array([*GOOD, *BAD, *OTHER])
    vectors = random.normal(size=(len(known), WIDTH)).astype("float32")
    np.savez(root / "glove" / "g.npz", words=known, vectors=vectors)


def run_small(monkeypatch) -> None:
    """Without graphs, whose tracing takes longer than such small models do."""
    compile_classifier = classifiers.compile_classifier

    def compile_eagerly(model, *args, **options):
        compile_classifier(model, *args, **options)
        model.run_eagerly = True

    monkeypatch.setattr(classifiers, "compile_classifier", compile_eagerly)
    monkeypatch.setattr(noisy_texts, "STEP", 5)
