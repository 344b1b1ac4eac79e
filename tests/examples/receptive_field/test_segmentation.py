"""Segmented text: tags, scores, pieces, and the files it is read from."""

import numpy as np
import pytest

from examples.receptive_field import segmentation


def test_words_to_tags_and_back():
    for words, tags in (
        ([], ""),
        (["我", "喜欢", "图书馆", "社会主义", "。"], "SBEBIEBIIES"),
    ):
        assert segmentation.tag_words(words) == ("".join(words), tags)
        assert segmentation.join_words("".join(words), tags) == words


def test_scores_by_hand():
    # Spans expected: 0-1, 1-2, 2-3 and 0-2; found: 0-1, 1-3 and 0-1, 1-2.
    # One is right, of four expected and four found; then of three and two.
    expected = [["a", "b", "c"], ["gh"]]
    predicted = [["a", "bc"], ["g", "h"]]
    found = segmentation.word_f1(expected, predicted)
    assert found == pytest.approx(1 / 4)
    found = segmentation.word_f1(expected[:1], predicted[:1])
    assert found == pytest.approx(2 / 5)
    # The same word at another place is wrong.
    assert segmentation.word_f1([["a", "aa"]], [["aa", "a"]]) == 0
    assert segmentation.word_f1(expected, expected) == 1
    assert segmentation.word_f1([], []) == 0


def test_pieces_end_at_punctuation_and_lose_nothing():
    assert segmentation.split_text("", 4) == []
    assert segmentation.split_text("甲，乙。丙丁戊", 5) == [
        "甲，乙。",
        "丙丁戊",
    ]
    assert segmentation.split_text("甲乙丙丁戊", 2) == ["甲乙", "丙丁", "戊"]
    generator = np.random.default_rng(0)
    text = "".join(generator.choice(list("甲乙丙，。"), size=500))
    pieces = segmentation.split_text(text, 7)
    assert "".join(pieces) == text
    assert max(map(len, pieces)) <= 7


def test_people_daily():
    train, test = segmentation.people_daily()
    assert (len(train), len(test)) == (17535, 1949)
    assert train[0][:4] == ["迈向", "充满", "希望", "的"]
