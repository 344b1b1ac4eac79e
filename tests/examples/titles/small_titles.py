"""A small data set of titles in files: real ones end with a noun."""

from tests.examples.files import write_lines

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
    left = iter(rows())
    for part, size in SIZES.items():
        own = [next(left) for _ in range(size)] + list(repeated)
        lines = [
            {"text": text, "label": label, "category": "math.CO"}
            for text, label in own
        ]
        write_lines(root / "titles" / f"{part}.jsonl.gz", lines)
    return root
