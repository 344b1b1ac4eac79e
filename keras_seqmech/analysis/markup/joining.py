"""Arabic letters in cells of their own, in the forms that they have in words.

A letter's form depends on its neighbours, which a browser does not see if they
are in other elements. A zero width joiner replaces each neighbour that joins.
"""

import unicodedata
from collections.abc import Sequence

from keras_seqmech.analysis.characters import DOTTED_CIRCLE
from keras_seqmech.analysis.characters import are_characters

JOINER = "\u200d"


def joined(tokens: Sequence[str]) -> list[str]:
    """Tokens with joiners, if all are characters; others as they are.

    >>> [len(token) for token in joined("\u0628\u0627\u0628")]
    [2, 2, 1]
    """
    found = list(tokens)
    if not are_characters(tokens):
        return found
    before = None
    for i, token in enumerate(tokens):
        if _is_mark(token):
            continue
        if (
            before is not None
            and _has_form(tokens[before], "INITIAL")
            and _has_form(token, "FINAL")
        ):
            found[before] += JOINER
            found[i] = JOINER + found[i]
        before = i
    return found


def _is_mark(token: str) -> bool:
    """Whether it is drawn on the letter before."""
    return all(
        unicodedata.category(character) == "Mn"
        for character in token.removeprefix(DOTTED_CIRCLE)
    )


def _has_form(token: str, form: str) -> bool:
    """Whether Unicode has a letter in this form: that is how letters join."""
    name = unicodedata.name(token[0], "")
    if not name.startswith("ARABIC LETTER"):
        return False
    try:
        unicodedata.lookup(f"{name} {form} FORM")
    except KeyError:
        return False
    return True
