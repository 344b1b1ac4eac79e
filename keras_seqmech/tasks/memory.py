"""The memory task: symbols in pairs, each pair with an answer.

A sequence of the symbols 0, 1 and 2 is read; the memory is empty at first. A 0
does nothing. A 1 or a 2 is stored if the memory is empty. Otherwise it empties
the memory and makes an output: 0 if it equals the stored symbol, else the
stored symbol. A sequence without such a pair has one output: the stored symbol,
or 0 if there is none; so a sequence of one symbol is its own answer.

Source: "Training a Subsampling Mechanism in Expectation", section 3.
"""

from typing import Any

import numpy as np
import tensorflow as tf

from keras_seqmech.core import checks
from keras_seqmech.tasks import stream
from keras_seqmech.tasks.stream import check_integers

SYMBOLS = 3

Examples = tuple[np.ndarray, np.ndarray, np.ndarray]


def most_outputs(length: int) -> int:
    """The largest number U of outputs that `length` symbols can have."""
    return max(1, length // 2)


def answers(symbols: Any) -> tuple[np.ndarray, np.ndarray]:
    """The outputs of each sequence, one after the other.

    Args:
        symbols: Ints 0 to 2 `(N, T)`, T at least 1.

    Returns:
        int32 array `(N, U)` of outputs 0 to 2, U = `most_outputs(T)`, zeros
        after the last one; and a boolean array `(N, U)`, True at outputs.

    Raises:
        ValueError: If `symbols` is not such an array.

    Example:

    >>> targets, mask = answers([[0, 2, 1, 1, 0, 1], [0, 0, 0, 0, 1, 0]])
    >>> targets
    array([[2, 0, 0],
           [1, 0, 0]], dtype=int32)
    >>> mask
    array([[ True,  True, False],
           [ True, False, False]])
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


def completed(symbols: Any) -> np.ndarray:
    """Steps at which an output is known, as many as there are outputs.

    That is at the second symbol of each pair; without a pair, at the end.

    Args:
        symbols: As in `answers`.

    Returns:
        Boolean array `(N, T)`.

    Example:

    >>> completed([[0, 2, 1, 1, 0, 1]]).astype("int32")
    array([[0, 0, 1, 0, 0, 1]], dtype=int32)
    """
    symbols, order = _count(symbols)
    known = (symbols > 0) & (order % 2 == 0)
    known[:, -1] |= order[:, -1] < 2
    return known


def examples(count: int, length: int, seed: int = 0) -> Examples:
    """Random examples, in which all symbols are equally frequent.

    Args:
        count: Number of examples N.
        length: Number of symbols T of a sequence.
        seed: Non-negative int; the same seed gives the same examples.

    Returns:
        `symbols, targets, mask`: int32 `(N, T)` and what `answers` gives.

    Example:

    >>> symbols, targets, mask = examples(count=4, length=9)
    >>> symbols.shape, targets.shape, mask.shape
    ((4, 9), (4, 4), (4, 4))
    """
    count = checks.check_positive_int("count", count)
    length = checks.check_positive_int("length", length)
    seed = checks.check_not_negative_int("seed", seed)
    generator = np.random.default_rng(seed)
    return _draw(generator, count, length)


def dataset(
    length: int,
    batch_size: int,
    seed: int = 0,
    start: int = 0,
    curriculum: bool = False,
) -> tf.data.Dataset:
    """Batches of fresh random examples without an end, weighted.

    For `fit` with `steps_per_epoch`. A batch depends on `seed` and its number
    alone.

    Args:
        length: Number of symbols T of a sequence.
        batch_size: Examples a batch.
        seed: Non-negative int.
        start: Number of the first batch, so that a resumed training continues.
        curriculum: Whether only the first T' outputs count, T' drawn for each
            batch, uniform from 1 to T: later outputs are learned when those
            before them are known.

    Returns:
        Data set of `(symbols, targets, weights)`, as in `examples`; weights
        are float32 `(N, U)`, 1 for outputs that count and 0 elsewhere.

    Example:

    >>> data = dataset(length=9, batch_size=8, curriculum=True)
    >>> [weights.shape for symbols, targets, weights in data.take(2)]
    [TensorShape([8, 4]), TensorShape([8, 4])]
    """
    length = checks.check_positive_int("length", length)
    size = checks.check_positive_int("batch_size", batch_size)
    width = most_outputs(length)

    def draw(generator: np.random.Generator, number: int) -> list[Examples]:
        symbols, targets, mask = _draw(generator, size, length)
        if curriculum:
            counted = generator.integers(1, length, endpoint=True)
            mask = mask & (np.arange(width) < counted)
        return [(symbols, targets, mask.astype("float32"))]

    return stream.dataset(draw, seed, start)


def _draw(generator: np.random.Generator, count: int, length: int) -> Examples:
    symbols = generator.integers(SYMBOLS, size=(count, length), dtype="int32")
    return symbols, *answers(symbols)


def _count(symbols: Any) -> tuple[np.ndarray, np.ndarray]:
    """The symbols, and how many up to each step are not 0."""
    symbols = check_integers("symbols", symbols, 2, 0, SYMBOLS - 1)
    if not symbols.shape[1]:
        raise ValueError(
            "Argument `symbols` must have the shape (N, T), T at least 1. "
            f"Received: symbols of shape {symbols.shape}"
        )
    return symbols, np.cumsum(symbols > 0, axis=1)
