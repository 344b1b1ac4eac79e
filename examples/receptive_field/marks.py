"""Commas and stops of running text, as a subtitle needs them.

Words in lower case, without marks; the tag of a word is the mark that follows:
none, a comma (also a semicolon or colon), or a stop (also a question or
exclamation mark). Documents of the Brown corpus from `--data-dir`, as
`brown/all.jsonl.gz` or as it is published (`brown/ca01`, words with their
tags). Documents of one genre are held out as a whole, and tested beside others
that are, too.
"""

import random
import re
from collections.abc import Iterator
from pathlib import Path

from examples.common import text_files

TAGS = ("", ",", ".")
MARKS = {",": ",", ";": ",", ":": ",", ".": ".", "?": ".", "!": "."}
# Fiction, whose sentences differ most from those of news and learned texts.
HELD_OUT = "k"

# Words, and the tag of each.
Piece = tuple[tuple[str, ...], tuple[str, ...]]


def pieces(
    length: int, tested: int, data_dir: Path
) -> tuple[list[Piece], list[Piece], list[Piece]]:
    """Pieces to train on, to test on, and those of the genre held out.

    The three are of other documents: of 500, 100 are tested, but for those
    of the genre, as many as `tested` says.
    """
    found = [*documents(data_dir)]
    random.Random(0).shuffle(found)
    held = [tokens for genre, tokens in found if genre == HELD_OUT]
    others = [tokens for genre, tokens in found if genre != HELD_OUT]
    count = len(others) // 5
    train, test, genre = (
        [piece for tokens in part for piece in cut(tokens, length)]
        for part in (others[count:], others[:count], held)
    )
    return train, test[:tested], genre[:tested]


def cut(tokens: list[str], length: int) -> Iterator[Piece]:
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


def documents(data_dir: Path) -> Iterator[tuple[str, list[str]]]:
    """Documents of the Brown corpus: genre, and words and marks in order."""
    folder = data_dir / "brown"
    if (path := folder / "all.jsonl.gz").exists():
        for row in text_files.json_lines(path):
            tokens = [word for x in row["sentences"] for word, _ in x]
            yield row["genre"], tokens
        return
    for path in sorted(folder.glob("c[a-r][0-9][0-9]")):
        tokens = [x.rpartition("/")[0] for x in path.read_text().split()]
        yield path.name[1], tokens
