"""A small data set of titles in files: real ones end with a noun."""

import gzip
import json

REAL = "on the {} of {} graphs"
MADE = "graphs {} on the the {}"
WORDS = ("entropy", "spectrum", "colour", "growth", "limits", "rank", "size")
KINDS = ("random", "finite", "planar", "dense", "large", "sparse", "regular")
SIZES = {"train": 70, "val": 14, "test": 14}


def rows():
    """All titles, real (0) and made (1) in turn, each once."""
    found = []
    for i, word in enumerate(WORDS):
        for kind in KINDS[i:] + KINDS[:i]:
            found += [
                (REAL.format(word, kind), 0),
                (MADE.format(kind, word), 1),
            ]
    return found


def write(root, repeated=()):
    """Writes `titles/`; the repeated rows are in all of its parts."""
    (root / "titles").mkdir(parents=True)
    left = iter(rows())
    for part, size in SIZES.items():
        own = [next(left) for _ in range(size)] + list(repeated)
        path = root / "titles" / f"{part}.jsonl.gz"
        with gzip.open(path, "wt", encoding="utf8") as file:
            for text, label in own:
                row = {"text": text, "label": label, "category": "math.CO"}
                file.write(json.dumps(row) + "\n")
    return root
