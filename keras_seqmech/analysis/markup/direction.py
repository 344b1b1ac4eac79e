"""In which direction tokens run: Unicode's bidirectional algorithm, in short.

Boxes in a line follow the direction of the line, whatever they hold. So that
numbers and Latin words within Hebrew or Arabic stay readable, tokens are given
the levels of UAX #9 (rules W4, W7, N1 and N2, and no explicit embeddings): even
ones run from left to right, odd ones from right to left.
"""

import itertools
import unicodedata
from collections.abc import Sequence

from keras_seqmech.analysis.characters import are_characters

NEUTRAL = "N"
NUMBER = "EN"
SEPARATOR = "CS"
STRONG = {"L": "L", "R": "R", "AL": "R"}
NUMBERS = ("EN", "AN")
SEPARATORS = ("CS", "ES")


def levels(tokens: Sequence[str]) -> tuple[int, list[int]]:
    """The level of the line, 0 or 1, and the levels of its tokens.

    The line has the level of its first letter, and no token a lower one.
    Unless all tokens are characters, spaces are assumed between them.

    >>> levels("ab")
    (0, [0, 0])
    >>> levels(["שלום", "Keras", "3", "!"])
    (1, [1, 2, 2, 1])
    """
    spaced = not are_characters(tokens)
    kinds = []
    for token in tokens:
        kinds += [_kind(token), NEUTRAL] if spaced else [_kind(token)]
    line = next((kind for kind in kinds if kind in ("L", "R")), "L")
    kinds = _with_neutrals(_with_numbers(kinds, line), line)
    base = int(line == "R")
    of_kind = {"L": 2 * base, "R": 1, NUMBER: 2}
    return base, [of_kind[kind] for kind in kinds[:: 2 if spaced else 1]]


def _kind(token: str) -> str:
    """L, R, a number, a separator within numbers, or neutral."""
    classes = [unicodedata.bidirectional(character) for character in token]
    for found in classes:
        if found in STRONG:
            return STRONG[found]
    if any(found in NUMBERS for found in classes):
        return NUMBER
    if len(classes) == 1 and classes[0] in SEPARATORS:
        return SEPARATOR
    return NEUTRAL


def _with_numbers(kinds: list[str], line: str) -> list[str]:
    """Numbers with their separators; L after a letter that is L."""
    found = []
    strong = line
    for i, kind in enumerate(kinds):
        if kind == SEPARATOR:
            around = kinds[max(i - 1, 0)], *kinds[i + 1 : i + 2]
            kind = NUMBER if around == (NUMBER, NUMBER) else NEUTRAL
        if kind == NUMBER and strong == "L":
            kind = "L"
        if kind in ("L", "R"):
            strong = kind
        found.append(kind)
    return found


def _with_neutrals(kinds: list[str], line: str) -> list[str]:
    """Neutral tokens between equal directions take these, others the line's."""
    runs = [(kind, len([*run])) for kind, run in itertools.groupby(kinds)]
    found: list[str] = []
    before = line
    for place, (kind, length) in enumerate(runs):
        if kind == NEUTRAL:
            after = runs[place + 1][0] if place + 1 < len(runs) else line
            after = "R" if after == NUMBER else after
            kind = before if before == after else line
        else:
            before = "R" if kind == NUMBER else kind
        found += [kind] * length
    return found
