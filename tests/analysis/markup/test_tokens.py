"""Tokens as they are seen, and the direction they run in."""

import pytest

from keras_seqmech import analysis
from keras_seqmech.analysis.characters import visible
from keras_seqmech.analysis.markup import direction
from tests.analysis.markup.reading import read


@pytest.mark.parametrize(
    "token, seen",
    [
        ("new", "new"),
        (" new", " new"),
        ("中", "中"),
        ("e\u0301", "e\u0301"),
        ("\u0301", "\u25cc\u0301"),
        ("\U0001f469\u200d\U0001f52c", "\U0001f469\u200d\U0001f52c"),
        ("\u200b", "\u25cc\u200b"),
        ("  ", "␣␣"),
        ("", "∅"),
        ("a\nb\tc", "a↵b⇥c"),
        ("a\u2028b\u2029", "a↵b↵"),
        ("\u202elive", "\u25cclive"),
        ("a\u2067b\u2069", "a\u25ccb\u25cc"),
        ("\x00\x7f\x85", "␀␡\ufffd"),
        ("\ud800", "\ufffd"),
        (b"\xe4\xb8\xad\xff", "中\ufffd"),
        (7, "7"),
    ],
)
def test_every_token_is_seen(token, seen):
    assert visible(token) == seen
    picture = analysis.show([token], sizes=[1])
    (drawn,) = read(picture.html).all("token")
    assert drawn.text == seen
    picture.document.encode("utf-8")


# Beside UAX #9: even levels run from left to right, odd ones from right to
# left.
@pytest.mark.parametrize(
    "tokens, line, levels",
    [
        ("abc", 0, [0, 0, 0]),
        ("12", 0, [0, 0]),
        ("שלום", 1, [1, 1, 1, 1]),
        ("א42", 1, [1, 2, 2]),
        ("א3.5.", 1, [1, 2, 2, 2, 1]),
        ("א-ab!", 1, [1, 1, 2, 2, 1]),
        ("אa-bא", 1, [1, 2, 2, 2, 1]),
        ("ab-אב!", 0, [0, 0, 0, 1, 1, 0]),
        ("abא-4", 0, [0, 0, 1, 1, 2]),
        ("١٢", 0, [0, 0]),
        (["سعر", "12", "17"], 1, [1, 2, 2]),
        (["(", "עם", ")", "Keras", "3"], 1, [1, 1, 1, 2, 2]),
    ],
)
def test_levels_of_directions(tokens, line, levels):
    assert direction.levels(list(tokens)) == (line, levels)


def directions(markup):
    """For each token, the directions it is in, from the outside."""
    found = {}

    def walk(element, outer):
        inner = [*outer, *filter(None, [element.attributes.get("dir")])]
        for part in element.inside:
            walk(part, inner)
        if "sq-token" in element.attributes.get("class", "").split():
            found[element.text] = inner

    walk(read(markup), [])
    return found


def test_latin_runs_are_turned_within_hebrew():
    picture = analysis.show("אab.", sizes=[2, 1, 1, 1])
    assert directions(picture.html) == {
        "א": ["rtl"],
        "a": ["rtl", "ltr"],
        "b": ["rtl", "ltr"],
        ".": ["rtl"],
    }


def test_numbers_are_turned_within_hebrew_within_latin():
    picture = analysis.show("xא42", sizes=[1, 1, 1, 1])
    assert directions(picture.html) == {
        "x": ["ltr"],
        "א": ["ltr", "rtl"],
        "4": ["ltr", "rtl", "ltr"],
        "2": ["ltr", "rtl", "ltr"],
    }


@pytest.mark.parametrize(
    "tokens, drawn",
    [
        # Lam joins both of its neighbours, alef the one before it alone.
        ("لاب", ["ل+", "+ا", "ب"]),
        ("بلب", ["ب+", "+ل+", "+ب"]),
        # Hamza joins none; a space and a zero width non-joiner part letters.
        ("بءب", ["ب", "ء", "ب"]),
        ("ب ب", ["ب", "␣", "ب"]),
        ("ب\u200cب", ["ب", "◌\u200c", "ب"]),
        # Not so a mark on a letter.
        ("ب\u0651ب", ["ب+", "◌\u0651", "+ب"]),
        ("שלabم", [*"שלab", "م"]),
        (["لا", "ب"], ["لا", "ب"]),
    ],
)
def test_arabic_letters_have_the_forms_of_their_word(tokens, drawn):
    picture = analysis.show(tokens, sizes=[1] * len(tokens))
    root = read(picture.html)
    wanted = [part.replace("+", "\u200d") for part in drawn]
    assert [token.text for token in root.all("token")] == wanted
    says = [cell.attributes["title"] for cell in root.all("cell")]
    assert not any("\u200d" in text for text in says)
