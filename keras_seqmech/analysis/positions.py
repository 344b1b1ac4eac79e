"""Positions in a text: noise around it, and curves over it of one length.

Source: "Analyzing the Learnability and Representability of Recurrent
Architectures", sections 1.5 to 1.9.
"""

from collections.abc import Hashable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np

from keras_seqmech.core import checks

PLACES = ("left", "mid", "right")


def surround_with_noise(
    texts: Iterable[Sequence[Hashable]],
    noise: Iterable[Sequence[Hashable]],
    keep: str = "mid",
    share: float = 0.66,
    seed: int = 0,
) -> list[list[Hashable]]:
    r"""Puts random sentences around texts, as noise.

    A text of n tokens gets

    $$\mathrm{round}\Big(n \frac{share}{1 - share}\Big)$$

    tokens of noise, so that `share` of the new text is noise. Whole sentences
    are drawn, without repetition in a text until all were drawn; the last one
    on each side is cut to the exact number of tokens.

    The noise of a text depends only on `seed`, the index of the text and its
    length: the same call gives the same result, and further texts change
    nothing.

    Args:
        texts: Lists of tokens of any kind, words or ids.
        noise: Sentences to draw from, lists of tokens of the same kind. Empty
            ones are left out.
        keep: Place of the text in the new one: `"left"` (noise follows),
            `"right"` (noise comes before) or `"mid"` (half the noise tokens
            on each side; if their number is odd, one more on the right).
        share: Share of noise among the tokens of a new text, in [0, 1).
        seed: Seed of the noise, a non-negative int.

    Returns:
        New texts, lists of tokens. `original_span` returns the span of a
        given text in the new one.

    Raises:
        ValueError: If `keep`, `share` or `seed` is not allowed, a text or
            sentence is not a list of tokens, or noise has no tokens.

    Example:

    >>> surround_with_noise([["a", "b"]], [["x"]], keep="mid", share=0.5)
    [['x', 'a', 'b', 'x']]

    Source: sections 1.7 and 1.8 (the share of 0.66), figure 1.5.
    """
    original_span(0, keep, share)
    seed = checks.check_not_negative_int("seed", seed)
    texts = _token_lists("texts", texts)
    noise = [part for part in _token_lists("noise", noise) if len(part)]
    if not noise:
        raise ValueError(
            "Argument `noise` must hold at least one sentence with tokens. "
            "Received: none"
        )
    surrounded = []
    for i, text in enumerate(texts):
        drawn = _shuffled(noise, np.random.default_rng([int(seed), i]))
        length = len(text) + _noise_length(len(text), share)
        start, stop = original_span(len(text), keep, share)
        before = _take(drawn, start)
        surrounded.append([*before, *text, *_take(drawn, length - stop)])
    return surrounded


def original_span(
    length: int, keep: str = "mid", share: float = 0.66
) -> tuple[int, int]:
    """The span of a text in the new text of `surround_with_noise`.

    Args:
        length: Number of tokens of the text.
        keep: As in `surround_with_noise`.
        share: As in `surround_with_noise`.

    Returns:
        `(start, stop)`: the text is `new_text[start:stop]`.

    Example:

    >>> original_span(10, keep="mid", share=0.5)
    (5, 15)
    """
    checks.check_choice("keep", keep, PLACES)
    is_number = isinstance(share, Real) and not isinstance(share, bool)
    if not is_number or not 0 <= share < 1:
        raise ValueError(
            "Argument `share` must be a number of at least 0 and below 1. "
            f"Received: share={share!r}"
        )
    if length < 0:
        raise ValueError(
            f"Argument `length` must be at least 0. Received: length={length!r}"
        )
    count = _noise_length(length, share)
    start = {"left": 0, "mid": count // 2, "right": count}[keep]
    return start, start + length


def stretch(values: Any, num_points: int) -> np.ndarray:
    """Values at even positions, interpolated to `num_points`; both ends stay.

    Example:

    >>> stretch([0.0, 1.0], 3)
    array([0. , 0.5, 1. ])
    """
    positions = np.linspace(0.0, 1.0, len(values))
    return np.interp(np.linspace(0.0, 1.0, num_points), positions, values)


def _noise_length(length: int, share: float) -> int:
    return round(length * share / (1 - share))


def _shuffled(
    sentences: Sequence[Sequence[Hashable]], generator: np.random.Generator
) -> Iterator[Sequence[Hashable]]:
    """Sentences in random order, all of them, then in a new order, forever.

    Shuffles as far as it is read: a corpus may be large and a text short.
    """
    while True:
        moved: dict[int, int] = {}
        for i in range(len(sentences)):
            j = int(generator.integers(i, len(sentences)))
            yield sentences[moved.get(j, j)]
            moved[j] = moved.get(i, i)


def _take(
    sentences: Iterator[Sequence[Hashable]], count: int
) -> list[Hashable]:
    """The first `count` tokens of as many sentences as that takes."""
    tokens: list[Hashable] = []
    while len(tokens) < count:
        tokens.extend(next(sentences)[: count - len(tokens)])
    return tokens


def _token_lists(name: str, texts: Any) -> list[Sequence[Hashable]]:
    texts = list(texts)  # It may be a generator.
    for i, text in enumerate(texts):
        if isinstance(text, (str, bytes)) or not hasattr(text, "__len__"):
            raise ValueError(
                f"Argument `{name}` must hold lists of tokens. "
                f"Received: {name}[{i}]={text!r}"
            )
    return texts
