"""Tokens as visible text."""

import unicodedata
from typing import Any

OPEN_BOX = "\u2423"
EMPTY = "\u2205"
REPLACEMENT = "\ufffd"
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


def _visible_character(character: str) -> str:
    if character in BREAKS:
        return BREAKS[character]
    is_text = unicodedata.category(character) not in ("Cc", "Cs")
    return character if is_text else REPLACEMENT
