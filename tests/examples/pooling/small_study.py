"""A small data set for the tests of the pooling studies."""

import gzip
import json
from pathlib import Path

import numpy as np

from examples.pooling import classifiers
from examples.pooling import noisy_texts

GOOD = "good fine lovely".split()
BAD = "bad poor awful".split()
OTHER = "the film a plot scene actor".split()
SMALL = "--min-words 4 --max-length 20 --embedding-size 5".split()
SMALL += "--units 4 --batch-size 8".split()


def write_imdb(root: Path) -> None:
    """IMDB and noise as JSON lines; one word of each text says its label."""
    random = np.random.default_rng(5)
    (root / "imdb").mkdir()
    (root / "wiki").mkdir()
    for part, count in (("train", 60), ("val", 20), ("test", 24)):
        rows = []
        for i in range(count):
            words = list(random.choice(OTHER, 5 + i % 9))
            words.insert(i % 6, random.choice([BAD, GOOD][i % 2]))
            rows.append({"text": " ".join(words), "label": i % 2})
        rows.append({"text": "too short", "label": 0})
        write(root / "imdb" / f"{part}.jsonl.gz", rows)
    noise = [{"text": f"noise{i} word{i}a word{i}b"} for i in range(50)]
    write(root / "wiki" / "sentences.jsonl.gz", [*noise, noise[0]])


def write(path: Path, rows: list[dict]) -> None:
    with gzip.open(path, "wt") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def run_small(monkeypatch) -> None:
    """Without graphs, whose tracing takes longer than such small models do."""
    compile_classifier = classifiers.compile_classifier

    def compile_eagerly(model, *args, **options):
        compile_classifier(model, *args, **options)
        model.run_eagerly = True

    monkeypatch.setattr(classifiers, "compile_classifier", compile_eagerly)
    monkeypatch.setattr(noisy_texts, "STEP", 5)
