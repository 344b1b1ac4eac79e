"""A data set of short texts, real and machine-made, that is on every machine.

The texts are first lines of docstrings of the installed NumPy, SciPy,
scikit-learn, Keras and TensorFlow: "Stack columns of M to construct a single
vector." One half of them are the real texts. The other half teaches a chain of
words, which makes the machine-made ones: each word is drawn by how often it
follows the one before. The chain has seen none of the real texts, as its rare
words would tell in which part of the data set they are.

There are as many of one kind as of the other, of the same numbers of words, and
no text is there twice.
"""

import re
from collections import Counter
from collections import defaultdict
from collections.abc import Iterable
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from examples.common import datasets
from examples.common import text_files

PACKAGES = ["numpy", "scipy", "sklearn", "keras", "tensorflow"]
CLASSES = ("real", "machine-made")
WORDS = range(3, 21)
SEED = 20220117
# Texts drawn for each that is wanted, at most.
TRIES = 1000
# After the colon of a function or class; to the end of its first line.
DOCSTRING = re.compile(r':\n +[rR]?"""\s*([A-Z][ -~]+)')


def load(packages: list[str] = PACKAGES) -> datasets.TextData:
    """Makes the data set; a tenth each is for validation and test."""
    lines = sorted({line for x in packages for line in first_lines(x)})
    random = np.random.default_rng(SEED)
    lines = [lines[i] for i in random.permutation(len(lines))]
    real, seen = lines[::2], lines[1::2]
    lengths = [len(line.split()) for line in real]
    texts = real + machine_made(seen, lengths, lines, random)
    labels = np.repeat(np.arange(2, dtype="int32"), len(real))
    order = random.permutation(len(texts))
    ends = [len(order) * 8 // 10, len(order) * 9 // 10]
    whole = datasets.Part(texts, labels)
    parts = (datasets.take(whole, part) for part in np.split(order, ends))
    return datasets.TextData(CLASSES, *parts)


def first_lines(package: str) -> Iterator[str]:
    """First lines of the docstrings of a package, but not of its tests.

    Those of functions and classes, of 3 to 20 words in ASCII that start with a
    capital. The package is read, not imported.
    """
    for path in sources(package):
        source = path.read_text(encoding="utf8", errors="replace")
        for found in DOCSTRING.findall(source):
            line = " ".join(found.partition('"""')[0].split())
            if len(line.split()) in WORDS:
                yield line


def sources(package: str) -> Iterator[Path]:
    """The files of an installed package, but not of its tests."""
    folder = text_files.package_folder(package)
    for path in folder.rglob("*.py"):
        if "test" not in str(path.relative_to(folder)):
            yield path


def machine_made(
    seen: list[str],
    lengths: list[int],
    known: Iterable[str],
    random: np.random.Generator,
) -> list[str]:
    """Texts of these numbers of words from a chain of words, each once.

    `seen` teaches the chain; no text is one of those `known`.

    >>> seen = ["a b c d", "b c b c", "c b c a"]
    >>> made = machine_made(seen, [3, 4, 4], seen, np.random.default_rng(0))
    >>> sorted(len(text.split()) for text in made)
    [3, 4, 4]
    """
    following = defaultdict(list)
    for text in seen:
        words = ["", *text.split(), ""]
        for word, after in zip(words, words[1:]):
            following[word].append(after)
    known, made, wanted = {*known}, [], Counter(lengths)
    longest = max(wanted)
    for _ in range(TRIES * len(lengths)):
        if len(made) == len(lengths):
            return made
        words = [_draw(following[""], random)]
        while words[-1] and len(words) <= longest:
            words.append(_draw(following[words[-1]], random))
        text, length = " ".join(words[:-1]), len(words) - 1
        if not words[-1] and wanted[length] and text not in known:
            made.append(text)
            known.add(text)
            wanted[length] -= 1
    raise ValueError(
        "Argument `seen` must be texts from which others can be made, of "
        f"these lengths. Received: {len(seen)} texts, of which {len(made)} of "
        f"{len(lengths)} were made"
    )


def _draw(words, random):
    return words[random.integers(len(words))]
