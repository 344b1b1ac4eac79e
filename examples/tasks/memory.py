"""The memory task: symbols in pairs, each pair with an answer.

A sequence of the symbols 0, 1 and 2 is read; the memory is empty at first. A 0
does nothing. A 1 or a 2 is stored if the memory is empty. Otherwise it empties
the memory and makes an output: 0 if it equals the stored symbol, else the
stored symbol. A sequence without such a pair has one output: the stored symbol,
or 0 if there is none; so a sequence of one symbol is its own answer.

Source: "Training a Subsampling Mechanism in Expectation", section 3.
"""

import numpy as np
import tensorflow as tf

from examples.tasks import stream
from examples.tasks.stream import Seed

SYMBOLS = 3

Examples = tuple[np.ndarray, np.ndarray, np.ndarray]


def most_outputs(length: int) -> int:
    """The largest number U of outputs that `length` symbols can have."""
    return max(1, length // 2)


def answers(symbols: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The outputs of each sequence, one after the other.

    Of symbols `(N, T)`: an int32 array `(N, U)` of outputs 0 to 2, U =
    `most_outputs(T)`, zeros after the last one; and a boolean array `(N, U)`,
    True at outputs.

    >>> targets, mask = answers([[0, 2, 1, 1, 0, 1], [0, 0, 0, 0, 1, 0]])
    >>> targets.tolist(), mask.sum(axis=1).tolist()
    ([[2, 0, 0], [1, 0, 0]], [2, 1])
    """
    symbols, order = _count(symbols)
    rows, length = symbols.shape
    width = most_outputs(length)
    # The symbols other than 0, from the left, then zeros: a 0 is also the
    # answer if nothing was stored, and differs from a symbol without a pair.
    kept = np.zeros((rows, 2 * width), "int32")
    row, step = np.nonzero((symbols > 0) & (order <= 2 * width))
    kept[row, order[row, step] - 1] = symbols[row, step]
    first, second = kept[:, ::2], kept[:, 1::2]
    mask = np.arange(width) < np.maximum(1, order[:, -1:] // 2)
    return np.where((first != second) & mask, first, 0).astype("int32"), mask


def completed(symbols: np.ndarray) -> np.ndarray:
    """Steps at which an output is known, booleans `(N, T)`.

    That is at the second symbol of each pair; without a pair, at the end.

    >>> completed([[0, 2, 1, 1, 0, 1]]).astype("int32")
    array([[0, 0, 1, 0, 0, 1]], dtype=int32)
    """
    symbols, order = _count(symbols)
    known = (symbols > 0) & (order % 2 == 0)
    known[:, -1] |= order[:, -1] < 2
    return known


def examples(count: int, length: int, seed: Seed = 0) -> Examples:
    """Random symbols, all equally frequent, int32 `(N, T)`, and `answers`."""
    generator = np.random.default_rng(seed)
    symbols = generator.integers(SYMBOLS, size=(count, length), dtype="int32")
    return symbols, *answers(symbols)


def dataset(
    length: int,
    batch_size: int,
    seed: int = 0,
    start: int = 0,
    curriculum: bool = False,
) -> tf.data.Dataset:
    """Batches `(symbols, targets, weights)` of fresh examples without an end.

    A batch depends on `seed` and its number alone, which `start` is for the
    first one. With a curriculum only the first T' outputs count, T' drawn for
    each batch, uniform from 1 to T: later outputs are learned when those before
    them are known. Weights are 1 for outputs that count and 0 elsewhere.
    """
    width = most_outputs(length)

    def draw(generator: np.random.Generator, number: int) -> list[Examples]:
        symbols, targets, mask = examples(batch_size, length, generator)
        if curriculum:
            counted = generator.integers(1, length, endpoint=True)
            mask = mask & (np.arange(width) < counted)
        return [(symbols, targets, mask.astype("float32"))]

    return stream.dataset(draw, seed, start)


def _count(symbols: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The symbols, and how many up to each step are not 0."""
    symbols = np.asarray(symbols)
    return symbols, np.cumsum(symbols > 0, axis=1)
