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

from keras_seqmech.core import checks

FILLERS = 4


class Examples(NamedTuple):
    """Sequences of the task, arrays `(N, T)`.

    Attributes:
        tokens: int32, from 1 to `vocabulary_size(...) - 1`.
        targets: int32, the value's number at keys, 0 elsewhere.
        keys: Boolean, True at keys.
        gaps: int32, the number of fillers k at keys, -1 elsewhere.
    """

    tokens: np.ndarray
    targets: np.ndarray
    keys: np.ndarray
    gaps: np.ndarray


def vocabulary_size(values: int = 4, longest_gap: int = 2) -> int:
    """Number of token ids, for an embedding.

    The ids are 0, which is not used, the values, the fillers, and the keys.

    Args:
        values: Number of values.
        longest_gap: The largest number of fillers k between key and value.

    Returns:
        One more than the largest id, an int.
    """
    values = checks.check_positive_int("values", values)
    longest_gap = checks.check_not_negative_int("longest_gap", longest_gap)
    return 1 + values + FILLERS + longest_gap + 1


def examples(
    count: int,
    length: int = 20,
    told: bool = True,
    values: int = 4,
    longest_gap: int = 2,
    seed: int = 0,
) -> Examples:
    """Random examples.

    Args:
        count: Number of examples N.
        length: Number of tokens T, at least `longest_gap + 3`.
        told: Whether the key tells how many fillers follow it.
        values: Number of values.
        longest_gap: The largest k; all from 0 are equally frequent.
        seed: Non-negative int; the same seed gives the same examples.

    Returns:
        `Examples`.

    Example:

    >>> tokens, targets, keys, gaps = examples(1, length=8, seed=3)
    >>> tokens.shape, bool(keys.any())
    ((1, 8), True)
    """
    count = checks.check_positive_int("count", count)
    length = checks.check_positive_int("length", length)
    values = checks.check_positive_int("values", values)
    checks.check_bool("told", told)
    longest_gap = checks.check_not_negative_int("longest_gap", longest_gap)
    if length < longest_gap + 3:
        raise ValueError(
            "Argument `length` must be at least `longest_gap` + 3. "
            f"Received: length={length}, longest_gap={longest_gap}"
        )
    seed = checks.check_not_negative_int("seed", seed)
    generator = np.random.default_rng(seed)
    first_filler = 1 + values
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
            value = int(generator.integers(values))
            tokens[row, at] = first_key + (gap if told else 0)
            tokens[row, at + gap + 1] = 1 + value
            targets[row, at], gaps[row, at] = value, gap
            at += gap + 2 + int(generator.integers(4))
            gap = int(generator.integers(longest_gap + 1))
    return Examples(tokens, targets, gaps >= 0, gaps)
