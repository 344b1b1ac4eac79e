"""Data of the words that are typed, and of text without marks."""

import contextlib
import gzip
import itertools
import json
import sqlite3

import pytest

from examples.receptive_field import marks
from examples.receptive_field import sounds
from examples.receptive_field import streams

# Each letter has its sound; x has two, h none.
SOUND_OF = {"a": "A", "b": "B", "x": "K S", "h": "", "t": "T"}


def dictionary(count=300):
    words = map("".join, itertools.product("abxht", repeat=4))
    for word in itertools.islice(words, count):
        parts = [SOUND_OF[x] for x in word]
        if any(parts):
            yield word, tuple(" ".join(parts).split())


def test_letters_get_their_sounds():
    entries = list(dictionary())
    found = sounds.align(entries, fitted=200)
    right = sum(
        parts == tuple(SOUND_OF[x] for x in word)
        for (word, _), parts in zip(entries, found)
    )
    assert right > 0.95 * len(entries)
    for (_, own), parts in zip(entries, found):
        assert tuple(" ".join(parts).split()) == own


@pytest.mark.parametrize("published", [False, True])
def test_dictionaries_in_both_layouts(tmp_path, published):
    folder = tmp_path / "cmudict"
    folder.mkdir()
    lines = ["ab EY1 B # a note", "ab(2) AE0 B", "a-b EY1", "'twas T W AA1 Z"]
    if published:
        (folder / "cmudict.dict").write_text("\n".join(lines))
    else:
        rows = (line.partition("#")[0].split() for line in lines)
        text = "".join(
            json.dumps({"word": w.partition("(")[0], "sounds": s}) + "\n"
            for w, *s in rows
        )
        (folder / "all.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    expected = [("'twas", ("T", "W", "AA", "Z")), ("ab", ("EY", "B"))]
    assert sorted(sounds.words(tmp_path)) == expected


@pytest.mark.parametrize("published", [False, True])
def test_texts_lose_their_marks_and_keep_them_as_tags(tmp_path, published):
    folder = tmp_path / "brown"
    folder.mkdir()
    sentence = "`` Well , I 'll go ; who is ill ? ''".split()
    names = [f"ca{i:02}" for i in range(10)] + ["ck01"]
    if published:
        for name in names:
            text = " ".join(f"{x}/{x}" for x in sentence)
            (folder / name).write_text(text)
    else:
        rows = [
            {"genre": name[1], "sentences": [[[x, x] for x in sentence]]}
            for name in names
        ]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / "all.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    known, others, genre = marks.pieces(5, 3, tmp_path)
    assert (len(known), len(others), len(genre)) == (16, 3, 2)
    words = ("well", "i", "'ll", "go", "who"), ("is", "ill")
    tags = (",", "", "", ",", ""), ("", ".")
    assert genre == list(zip(words, tags))
    # Of two marks in a row the first counts.
    assert [*marks.cut(["Go", ",", "."], 5)] == [(("go",), (",",))]
    texts = streams.load("held_out", 4, 3, 5, tmp_path)
    assert len(texts.train) == 4 and texts.test == genre
    assert texts.spans(tags[0]) == {(0, 1, ","), (3, 4, ",")}


def test_german_words_that_begin_alike_count_once(tmp_path):
    folder = tmp_path / "gruut_lang_de"
    with pytest.raises(FileNotFoundError, match="lexicon.db"):
        sounds.words(tmp_path, "german")
    folder.mkdir()
    with contextlib.closing(sqlite3.connect(folder / "lexicon.db")) as base:
        columns = "word TEXT, pron_order INTEGER, phonemes TEXT"
        base.execute(f"CREATE TABLE word_phonemes ({columns})")
        rows = [
            ("über", 0, "yː b ɐ"),
            ("über", 1, "y b ɐ"),
            ("nagenden", 0, "n aː g"),
            ("nagendes", 0, "n aː"),
            ("Nagenden", 0, "n"),
            ("z.b.", 0, "t s b"),
        ]
        base.executemany("INSERT INTO word_phonemes VALUES (?, ?, ?)", rows)
        base.commit()
    found = dict(sounds.words(tmp_path, "german"))
    assert found.pop("über") == ("yː", "b", "ɐ")
    assert list(found) in (["nagenden"], ["nagendes"])
