"""A small data set for the tests of text classifiers."""

from pathlib import Path

import numpy as np

from tests.examples.files import write_lines

SMALL = "--units 6 --length 8 --epochs 2".split()
# 243 training texts are then in batches of one size, compiled once.
SMALL += ["--batch-size", "81"]
GOOD = "good fine lovely".split()
BAD = "bad poor awful".split()
OTHER = "the film , it's a half-hour plot".split()


def write_mr(root: Path) -> None:
    """MR as JSON lines: one word of each text says its label."""
    random, rows = np.random.default_rng(5), []
    for i in range(300):
        words = list(random.choice(OTHER, 5))
        words.insert(i % 6, random.choice([BAD, GOOD][i % 2]))
        rows.append({"text": " ".join(words), "label": i % 2})
    write_lines(root / "mr" / "all.jsonl.gz", rows)
