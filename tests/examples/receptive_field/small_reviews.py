"""A small data set for the tests of text classifiers."""

import gzip
import json
from pathlib import Path

import numpy as np

SMALL = "--units 6 --length 8 --epochs 2 --embedding-size 5".split()
# 243 training texts are then in batches of one size, compiled once.
SMALL += ["--batch-size", "81"]
GOOD = "good fine lovely".split()
BAD = "bad poor awful".split()
OTHER = "the film , it's a half-hour plot".split()


def write_mr(root: Path) -> None:
    """MR as JSON lines: one word of each text says its label."""
    random = np.random.default_rng(5)
    (root / "mr").mkdir()
    with gzip.open(root / "mr" / "all.jsonl.gz", "wt") as file:
        for i in range(300):
            words = list(random.choice(OTHER, 5))
            words.insert(i % 6, random.choice([BAD, GOOD][i % 2]))
            row = {"text": " ".join(words), "label": i % 2}
            file.write(json.dumps(row) + "\n")
