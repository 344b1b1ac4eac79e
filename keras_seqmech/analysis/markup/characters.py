"""Tokens as visible text or as numbers, and the word for them."""

import unicodedata
from collections.abc import Sequence
from numbers import Integral
from numbers import Real
from typing import Any

import numpy as np

OPEN_BOX = "\u2423"
EMPTY = "\u2205"
REPLACEMENT = "\ufffd"
# So many integers are shown one by one, as ids are; more are a curve.
MOST_INTEGERS = 100
# Signs that more fonts hold than Unicode's pictures of control characters.
BREAKS = {
    "\n": "\u21b5",
    "\r": "\u21b5",
    "\t": "\u21e5",
    "\u2028": "\u21b5",
    "\u2029": "\u21b5",
}


def visible(token: Any) -> str:
    r"""A token as visible text.

    Line breaks and tabs become arrows, a token of spaces open boxes, and the
    empty token an empty set. Other control characters, and what cannot be
    text, such as half of a surrogate pair or bytes that are not UTF-8, become
    U+FFFD.

    >>> [visible(token) for token in ("new", " ", "\n", b"\xe4\xb8\xad", 7)]
    ['new', '␣', '↵', '中', '7']
    """
    if isinstance(token, bytes):
        token = token.decode("utf-8", errors="replace")
    text = "".join(map(_visible_character, str(token)))
    return text if text.strip() else OPEN_BOX * len(text) or EMPTY


def word_for(tokens: Sequence[Any]) -> str:
    """The word for one of the tokens.

    >>> [word_for(t) for t in ("ab", ["a", "film"], [3, 0.5], [None])]
    ['character', 'word', 'number', 'step']
    """
    if all(isinstance(token, (str, bytes)) for token in tokens):
        is_short = all(len(visible(token)) == 1 for token in tokens)
        return "character" if is_short else "word"
    is_numeric = all(isinstance(token, Real) for token in tokens)
    return "number" if is_numeric else "step"


def as_curve(tokens: Sequence[Any]) -> np.ndarray | None:
    """Floats, or many integers, as an array `(time,)`; None for others."""
    if word_for(tokens) != "number":
        return None
    is_short = len(tokens) <= MOST_INTEGERS
    if is_short and all(isinstance(token, Integral) for token in tokens):
        return None
    return np.asarray(tokens, "float64")


def _visible_character(character: str) -> str:
    if character in BREAKS:
        return BREAKS[character]
    is_text = unicodedata.category(character) not in ("Cc", "Cs")
    return character if is_text else REPLACEMENT
