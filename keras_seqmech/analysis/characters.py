"""Tokens as visible text, and as text of HTML."""

import html
import unicodedata
from collections.abc import Sequence
from typing import Any

# A combining mark without a character before it is drawn on this one.
DOTTED_CIRCLE = "\u25cc"
OPEN_BOX = "\u2423"
EMPTY = "\u2205"
# Signs that more fonts hold than Unicode's pictures of control characters.
BREAKS = {
    "\n": "\u21b5",
    "\r": "\u21b5",
    "\t": "\u21e5",
    "\u2028": "\u21b5",
    "\u2029": "\u21b5",
}
# They would change the order in which the characters around them are drawn.
EMBEDDINGS = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
REPLACEMENT = "\ufffd"
CONTROL_PICTURES = 0x2400


def visible(token: Any) -> str:
    r"""A token as visible text, in its own order.

    Line breaks become arrows and other control characters their pictures, a
    token of spaces becomes open boxes, one that starts with a combining mark
    or shows nothing gets a dotted circle before it, and the empty one becomes
    an empty set. Controls that change the order of text become dotted circles;
    what cannot be text, such as half of a surrogate pair or bytes that are not
    UTF-8, becomes U+FFFD.

    >>> [visible(token) for token in ("new", " ", "\n", b"\xe4\xb8\xad", 7)]
    ['new', '␣', '↵', '中', '7']
    """
    if isinstance(token, bytes):
        token = token.decode("utf-8", errors="replace")
    text = "".join(_seen(character) for character in str(token))
    if not text.strip():
        text = OPEN_BOX * len(text) or EMPTY
    categories = {unicodedata.category(character) for character in text}
    if unicodedata.category(text[0]).startswith("M") or categories == {"Cf"}:
        text = DOTTED_CIRCLE + text
    return text


def are_characters(tokens: Sequence[str]) -> bool:
    """Whether no token is longer than a character with its marks.

    >>> are_characters(["a", "e\u0301"]), are_characters(["a", "new"])
    (True, False)
    """
    return all(
        sum(unicodedata.combining(c) == 0 for c in token) <= 1
        for token in tokens
    )


def escaped(text: str) -> str:
    """Text for an element or a quoted attribute."""
    return html.escape(text, quote=True)


def _seen(character: str) -> str:
    if character in BREAKS:
        return BREAKS[character]
    if unicodedata.bidirectional(character) in EMBEDDINGS:
        return DOTTED_CIRCLE
    code = ord(character)
    if code < 0x20:
        return chr(CONTROL_PICTURES + code)
    if code == 0x7F:
        return "\u2421"
    if unicodedata.category(character) in ("Cc", "Cs"):
        return REPLACEMENT
    return character
