"""Positions in a text: noise around it, and curves over it of one length.

Source: "Analyzing the Learnability and Representability of Recurrent
Architectures", sections 1.5 to 1.9.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence

import numpy as np

PLACES = ("left", "mid", "right")


def surround_with_noise(
    texts: Iterable[list],
    noise: Sequence[list],
    keep: str,
    share: float,
    seed: int = 0,
) -> list[list]:
    """Puts random sentences around texts, so that `share` of each is noise.

    Whole sentences are drawn, without repetition in a text until all were
    drawn; the last one on each side is cut. The noise of a text depends only on
    `seed`, the index of the text and its length. `keep` is the place of the
    text in the new one, one of `PLACES`. (Sections 1.7 and 1.8, figure 1.5.)

    >>> surround_with_noise([["a", "b"]], [["x"]], keep="mid", share=0.5)
    [['x', 'a', 'b', 'x']]
    """
    surrounded = []
    for i, text in enumerate(texts):
        drawn = _shuffled(noise, np.random.default_rng([seed, i]))
        length = len(text) + _noise_length(len(text), share)
        start, stop = original_span(len(text), keep, share)
        before = _take(drawn, start)
        surrounded.append([*before, *text, *_take(drawn, length - stop)])
    return surrounded


def original_span(length: int, keep: str, share: float) -> tuple[int, int]:
    """Start and stop of a text in the new text of `surround_with_noise`.

    >>> original_span(10, keep="mid", share=0.5)
    (5, 15)
    """
    count = _noise_length(length, share)
    start = {"left": 0, "mid": count // 2, "right": count}[keep]
    return start, start + length


def stretch(values: np.ndarray, num_points: int) -> np.ndarray:
    """Values at even positions, interpolated to `num_points`; both ends stay.

    >>> stretch([0.0, 1.0], 3)
    array([0. , 0.5, 1. ])
    """
    positions = np.linspace(0.0, 1.0, len(values))
    return np.interp(np.linspace(0.0, 1.0, num_points), positions, values)


def _noise_length(length: int, share: float) -> int:
    return round(length * share / (1 - share))


def _shuffled(
    sentences: Sequence[list], generator: np.random.Generator
) -> Iterator[list]:
    """Sentences in random order, all of them, then in a new order, forever.

    Shuffles as far as it is read: a corpus may be large and a text short.
    """
    while True:
        moved: dict[int, int] = {}
        for i in range(len(sentences)):
            j = int(generator.integers(i, len(sentences)))
            yield sentences[moved.get(j, j)]
            moved[j] = moved.get(i, i)


def _take(sentences: Iterator[list], count: int) -> list:
    """The first `count` tokens of as many sentences as that takes."""
    tokens: list = []
    while len(tokens) < count:
        tokens.extend(next(sentences)[: count - len(tokens)])
    return tokens
