"""Commas and stops of running text, as a subtitle needs them.

Words in lower case, without marks; the tag of a word is the mark that follows:
none, a comma (also a semicolon or colon), or a stop (also a question or
exclamation mark). Documents of the Brown corpus from `--data-dir`, in the
layout of `brown/all.jsonl.gz` or as it is published (`brown/ca01`, words with
their tags); else docstrings of installed packages. Documents of one genre are
held out as a whole, and tested beside others that are, too.
"""

import ast
import gzip
import json
import random
import re
from collections.abc import Iterator
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from examples.titles import docstrings

TAGS = ("", ",", ".")
MARKS = {",": ",", ";": ",", ":": ",", ".": ".", "?": ".", "!": "."}
# Fiction, whose sentences differ most from those of news and learned texts.
HELD_OUT = ("k", "keras")
PACKAGES = ("numpy", "scipy", "sklearn", "keras")
# A paragraph of sentences: no code, no list.
PROSE = re.compile(r"[A-Z][\w\s,;:.?!'`()-]{40,}[.?!]", re.ASCII)
WORD_OR_MARK = re.compile(r"\w[\w'.-]*\b|[,;:.?!](?=\s|$)")

# Words, and the tag of each.
Piece = tuple[tuple[str, ...], tuple[str, ...]]


class Document(NamedTuple):
    """A text: its genre, and its words and marks in order."""

    genre: str
    tokens: list[str]


def pieces(
    length: int, tested: int, data_dir: Path | None = None
) -> tuple[list[Piece], list[Piece], list[Piece]]:
    """Pieces to train on, to test on, and those of the genre held out.

    The three are of other documents: of 500, 100 are tested, but for those
    of the genre, as many as `tested` says.
    """
    found = list(documents(data_dir))
    random.Random(0).shuffle(found)
    held = [x for x in found if x.genre in HELD_OUT]
    others = [x for x in found if x.genre not in HELD_OUT]
    count = len(others) // 5
    train, test, genre = (
        [piece for x in part for piece in cut(x.tokens, length)]
        for part in (others[count:], others[:count], held)
    )
    return train, test[:tested], genre[:tested]


def cut(tokens: Sequence[str], length: int) -> Iterator[Piece]:
    """Pieces of at most so many words, with the mark that follows each.

    >>> list(cut(["Well", ",", "I", "go", "."], 2))
    [(('well', 'i'), (',', '')), (('go',), ('.',))]
    """
    words: list[str] = []
    tags: list[str] = []
    for token in tokens:
        if token in MARKS and words:
            tags[-1] = tags[-1] or MARKS[token]
        elif re.search("[a-z0-9]", token.lower()):
            words.append(token.lower())
            tags.append("")
    for start in range(0, len(words), length):
        own = slice(start, start + length)
        yield tuple(words[own]), tuple(tags[own])


def documents(data_dir: Path | None) -> Iterator[Document]:
    """Documents of the Brown corpus, or docstrings, a package a genre."""
    if data_dir is None:
        for package in PACKAGES:
            for path in docstrings.sources(package):
                tokens = WORD_OR_MARK.findall(prose(path))
                yield Document(package, tokens)
        return
    folder = data_dir / "brown"
    if (path := folder / "all.jsonl.gz").exists():
        with gzip.open(path, "rt", encoding="utf8") as file:
            for row in map(json.loads, file):
                tokens = [word for x in row["sentences"] for word, _ in x]
                yield Document(row["genre"], tokens)
        return
    for path in sorted(folder.glob("c[a-r][0-9][0-9]")):
        tokens = [x.rpartition("/")[0] for x in path.read_text().split()]
        yield Document(path.name[1], tokens)


def prose(path: Path) -> str:
    """The paragraphs of the docstrings of a file that are sentences."""
    tree = ast.parse(path.read_text(encoding="utf8", errors="replace"))
    documented = ast.Module | ast.ClassDef | ast.FunctionDef
    found = (x for x in ast.walk(tree) if isinstance(x, documented))
    texts = (ast.get_docstring(x) or "" for x in found)
    parts = (part for text in texts for part in re.split(r"\n\s*\n", text))
    sentences = (x for x in parts if PROSE.fullmatch(x))
    return " ".join(x for x in sentences if "--" not in x and " : " not in x)
