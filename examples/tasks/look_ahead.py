"""The look-ahead task: at a key, name the value that follows soon.

A sequence is made of fillers. Now and then there is a key, then k fillers,
and then a value; at the key the answer is that value. A model that reads
forwards must read `k + 2` tokens there, the key included, and one elsewhere.
The first token is never a key: what a receptive field reads gates the previous
state, which is zero there. Either the key tells k (`told=True`: there is one
key for each k), or all keys are the same, and only reading on shows where the
value is.
"""

from typing import NamedTuple

import numpy as np

VALUES, FILLERS = 4, 4


class Examples(NamedTuple):
    """Sequences of the task, arrays `(count, length)`."""

    tokens: np.ndarray  # From 1 to `vocabulary_size(...) - 1`.
    targets: np.ndarray  # The value's number at keys, 0 elsewhere.
    keys: np.ndarray  # True at keys.
    gaps: np.ndarray  # Number of fillers at keys, -1 elsewhere.


def vocabulary_size(longest_gap: int = 2) -> int:
    """One more than the largest token id: 0, values, fillers, and keys."""
    return 1 + VALUES + FILLERS + longest_gap + 1


def examples(
    count: int,
    length: int = 20,
    told: bool = True,
    longest_gap: int = 2,
    seed: int = 0,
) -> Examples:
    """Random examples; `told` is whether the key tells k.

    All k from 0 to `longest_gap` are equally frequent.
    """
    generator = np.random.default_rng(seed)
    first_filler = 1 + VALUES
    first_key = first_filler + FILLERS
    shape = (count, length)
    tokens = generator.integers(first_filler, first_key, shape, "int32")
    targets = np.zeros(shape, "int32")
    gaps = np.full(shape, -1, "int32")
    for row in range(count):
        # Up to three fillers more before each key: it may come any time.
        at = 1 + int(generator.integers(4))
        gap = int(generator.integers(longest_gap + 1))
        while at + gap + 1 < length:
            value = int(generator.integers(VALUES))
            tokens[row, at] = first_key + (gap if told else 0)
            tokens[row, at + gap + 1] = 1 + value
            targets[row, at], gaps[row, at] = value, gap
            at += gap + 2 + int(generator.integers(4))
            gap = int(generator.integers(longest_gap + 1))
    return Examples(tokens, targets, gaps >= 0, gaps)
