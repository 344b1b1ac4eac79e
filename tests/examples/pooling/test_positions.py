"""Noise around texts: how much of it, where, and which."""

import pytest

from examples.pooling import positions

NOISE = [[f"s{i}w{j}" for j in range(3 + i)] for i in range(6)]
PLACES = ("left", "mid", "right")


def text(length):
    return [f"word{i}" for i in range(length)]


@pytest.mark.parametrize("keep", PLACES)
@pytest.mark.parametrize(
    "length, share, count",
    [(10, 0.5, 10), (7, 0.66, 14), (1, 0.9, 9), (9, 0.25, 3), (4, 0, 0)],
)
def test_place_and_number_of_noise_tokens(keep, length, share, count):
    (new,) = positions.surround_with_noise([text(length)], NOISE, keep, share)
    before = {"left": 0, "mid": count // 2, "right": count}[keep]
    assert len(new) == length + count
    assert new[before : before + length] == text(length)
    noise = new[:before] + new[before + length :]
    assert all(word.startswith("s") for word in noise)
    span = positions.original_span(length, keep, share)
    assert span == (before, before + length)


def sentences(words):
    """Noise words as `(sentence, number of words)`, in their order."""
    found = []
    for word in words:
        i, j = word[1:].split("w")
        if j == "0":
            found.append([int(i), 0])
        assert found[-1] == [int(i), int(j)]
        found[-1][1] += 1
    return found


@pytest.mark.parametrize("keep", PLACES)
def test_sentences_are_whole_but_the_last_of_each_side(keep):
    texts = [text(n) for n in range(40, 60)]
    news = positions.surround_with_noise(texts, NOISE, keep, 0.66)
    for given, new in zip(texts, news):
        start, stop = positions.original_span(len(given), keep, 0.66)
        for side in filter(None, (new[:start], new[stop:])):
            *whole, (i, count) = sentences(side)
            assert all(n == 3 + i for i, n in whole)
            assert 1 <= count <= 3 + i


def test_no_sentence_comes_twice_before_all_have_come():
    (new,) = positions.surround_with_noise([text(66)], NOISE, "left", 0.5)
    drawn = [i for i, _ in sentences(new[66:])]
    # All six sentences have 33 words: two rounds make 66.
    assert sorted(drawn[:6]) == sorted(drawn[6:]) == list(range(6))
