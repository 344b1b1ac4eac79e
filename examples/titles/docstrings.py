"""A data set of short texts, real and machine-made, that is on every machine.

The real texts are first lines of docstrings, as they are in the sources of the
installed NumPy, SciPy, scikit-learn and Keras: "Return a flattened copy of the
matrix." The machine-made ones are drawn from a chain of words: each word is
drawn by how often it follows the one before in the real texts, so two words in
a row are always plausible, and the whole is not: "Return a function for each
node in the matrix is zero."

There are as many of one kind as of the other, no text is there twice, and a
machine-made one is never a real one. The same seed makes the same texts as long
as the packages keep their versions.
"""

import ast
import importlib.util
import re
from collections import defaultdict
from collections.abc import Iterator
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from examples.common import datasets

PACKAGES = ("numpy", "scipy", "sklearn", "keras")
CLASSES = ("real", "machine-made")
WORDS = range(3, 21)
SEED = 20220117


def load(
    packages: Sequence[str] = PACKAGES, seed: int = SEED
) -> datasets.TextData:
    """Makes the data set; a tenth each is for validation and test.

    Args:
        packages: Names of installed packages.
        seed: Of the chain, and of which part a text is in.
    """
    real = sorted(
        {line for package in packages for line in first_lines(package)}
    )
    random = np.random.default_rng(seed)
    made = machine_made(real, random)
    texts = real + made
    labels = np.repeat(np.arange(2, dtype="int32"), len(real))
    order = random.permutation(len(texts))
    parts = [
        datasets.Part([texts[i] for i in chosen], labels[chosen])
        for chosen in np.split(
            order, [len(order) * 8 // 10, len(order) * 9 // 10]
        )
    ]
    return datasets.TextData(CLASSES, *parts)


def first_lines(package: str) -> Iterator[str]:
    """First lines of the docstrings of a package, but not of its tests.

    Those of functions and classes, of 3 to 20 words in ASCII that start with a
    capital. The package is read, not imported.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ValueError(
            "Argument `package` must be the name of an installed package. "
            f"Received: package={package!r}"
        )
    folder = Path(spec.submodule_search_locations[0])
    for path in folder.rglob("*.py"):
        if "test" in str(path.relative_to(folder)):
            continue
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                docstring = (ast.get_docstring(node) or "").strip()
                line = " ".join(docstring.partition("\n")[0].split())
                is_plain = re.fullmatch(r"[A-Z][ -~]+", line)
                if is_plain and len(line.split()) in WORDS:
                    yield line


def machine_made(real: Sequence[str], random: np.random.Generator) -> list[str]:
    """As many texts from a chain of words, each once and none of them real.

    >>> real = ["a b c d", "b c b c", "c b c a"]
    >>> len(machine_made(real, np.random.default_rng(0)))
    3
    """
    following = defaultdict(list)
    for text in real:
        words = ["", *text.split(), ""]
        for word, after in zip(words, words[1:]):
            following[word].append(after)
    known, made = set(real), {}
    while len(made) < len(real):
        words = [_draw(following[""], random)]
        while words[-1] and len(words) <= WORDS.stop:
            words.append(_draw(following[words[-1]], random))
        text = " ".join(words[:-1])
        if len(words) - 1 in WORDS and text not in known:
            made[text] = None
    return list(made)


def _draw(words, random):
    return words[random.integers(len(words))]
