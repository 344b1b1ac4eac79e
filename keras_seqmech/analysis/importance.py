"""The importance of words to a classifier, by position in the text.

Source: "Analyzing the Learnability and Representability of Recurrent
Architectures", section 1.9, algorithm 1.
"""

import functools
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_seqmech.analysis import positions
from keras_seqmech.analysis.by_step import check_labels
from keras_seqmech.analysis.restored_state import state_restored
from keras_seqmech.core import checks

SUM_TOLERANCE = 1e-2  # bfloat16 rounds a probability to about 3 digits.


def normalized_word_importance(
    model: keras.Model | Callable,
    tokens: Any,
    labels: Any,
    *,
    num_points: int = 100,
    **options: Any,
) -> np.ndarray:
    r"""Mean importance of words by position: NWI.

    The `word_importance` of each text is interpolated to `num_points` and
    averaged over texts. Texts may differ in length, but all are padded to the
    longest: measure texts of similar lengths together, as the source does.

    Args:
        model: As in `word_importance`.
        tokens: As in `word_importance`.
        labels: As in `word_importance`.
        num_points: Positive int, number of positions of the result.
        **options: Further keyword arguments of `word_importance`: `k`,
            `unknown_id` and `batch_size`.

    Returns:
        float64 array `(num_points,)`, between 0 and 1.

    Raises:
        ValueError: As in `word_importance`.

    Example:

    >>> import numpy as np
    >>> def reads_first(tokens):  # P(1) is 0.9 if the first word is a 7
    ...     p = np.where(tokens[:, 0] == 7, 0.9, 0.5)
    ...     return np.stack([1 - p, p], axis=1)
    >>> texts = [[7, 3, 3, 3], [7, 4, 5, 6, 3, 3]]
    >>> normalized_word_importance(
    ...     reads_first, texts, [1, 1], k=2, num_points=3)
    array([1.  , 0.25, 0.  ])

    Source: algorithm 1, figures 1.9 to 1.11.
    """
    num_points = checks.check_positive_int("num_points", num_points)
    importances = word_importance(model, tokens, labels, **options)
    curves = [positions.stretch(row, num_points) for row in importances]
    return np.mean(curves, axis=0)


def word_importance(
    model: keras.Model | Callable,
    tokens: Any,
    labels: Any,
    *,
    k: int = 5,
    unknown_id: int = 1,
    batch_size: int = 64,
) -> list[np.ndarray]:
    r"""Importance of each window of k words, for each text.

    With $s^w$ the text whose window w is replaced by the unknown word,

    $$\delta^w = |\log P(y \mid s^w) - \log P(y \mid s)|, \qquad
      \mathrm{nwi}^w = \frac{\delta^w - \min_v \delta^v}{\max_v \delta^v}$$

    Windows start at words 0, k, 2k, and so on; if k does not divide the
    length, a last window covers the last k words. So each word is replaced,
    and each window has k words. (The source leaves that open. It also
    divides only the first term of the difference by the maximum of $\delta$;
    here both are divided.) If no window changes the probability, all
    importances are 0. Probabilities below 1.2e-38, the smallest of
    float32, are raised to it, so that logarithms are finite.

    All copies of all texts run in batches of one shape, in inference mode.

    Args:
        model: A `keras.Model`, which does not change, or a function, from
            token ids `(batch, time)` to class probabilities
            `(batch, classes)`, such as `lambda ids: model([ids, ids != 0])`
            for a model that takes a mask.
        tokens: Lists of int ids, or an array `(batch, time)` of them, in
            which a text ends before the zeros at the end of its row. Models
            get 0 after the end of a text.
        labels: Ints `(batch,)`, the class y of each text.
        k: Positive int, number of words in a window.
        unknown_id: Id of the unknown word.
        batch_size: Positive int, number of copies run at once.

    Returns:
        A float64 array `(windows,)` for each text.

    Raises:
        ValueError: If there is no text, a text is shorter than k, an id or
            label is out of range, or the model does not give probabilities.

    Source: algorithm 1.
    """
    k = checks.check_positive_int("k", k)
    batch_size = checks.check_positive_int("batch_size", batch_size)
    unknown_id = checks.check_not_negative_int("unknown_id", unknown_id)
    tokens, lengths = _padded(tokens)
    labels = check_labels(labels, len(tokens))
    starts = [_window_starts(i, n, k) for i, n in enumerate(lengths)]
    counts = [len(row) for row in starts]
    # Each text unchanged, with a window past its end, then its copies.
    texts = np.repeat(np.arange(len(tokens)), np.add(counts, 1))
    windows = np.concatenate([[tokens.shape[1], *row] for row in starts])
    batches = _batches(tokens, texts, windows, k, unknown_id, batch_size)
    run, models = model, []
    if isinstance(model, keras.Model):
        # `predict_on_batch` gives a row once for each replica of a strategy.
        run, models = functools.partial(model, training=False), [model]
        run = run if model.run_eagerly else tf.function(run, autograph=False)
    with state_restored(*models):
        found = [
            _label_probabilities(run, copies, labels[rows])
            for copies, rows in batches
        ]
    probabilities = np.concatenate(found)[: len(texts)]
    logs = np.log(np.maximum(probabilities, np.finfo("float32").tiny))
    ends = np.cumsum(np.add(counts, 1))
    rows = np.split(logs, ends[:-1])
    changes = [np.abs(row[1:] - row[0]) for row in rows]
    return [(x - x.min()) / (x.max() or 1.0) for x in changes]


def _window_starts(i: int, length: int, k: int) -> list[int]:
    if length < k:
        raise ValueError(
            "Argument `k` must be at most the number of words of each text. "
            f"Received: k={k}, and text {i} of {length} words"
        )
    starts = list(range(0, length - k + 1, k))
    return starts if length % k == 0 else [*starts, int(length) - k]


def _batches(
    tokens: np.ndarray,
    texts: np.ndarray,
    windows: np.ndarray,
    k: int,
    unknown_id: int,
    batch_size: int,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Copies of texts in batches of one size, and the index of their texts."""
    steps = np.arange(tokens.shape[1])
    rest = -len(texts) % batch_size
    texts, windows = np.pad(texts, (0, rest)), np.pad(windows, (0, rest))
    for first in range(0, len(texts), batch_size):
        rows = texts[first : first + batch_size]
        starts = windows[first : first + batch_size, None]
        replaced = (starts <= steps) & (steps < starts + k)
        yield np.where(replaced, unknown_id, tokens[rows]), rows


def _label_probabilities(
    run: Callable, copies: np.ndarray, labels: np.ndarray
) -> np.ndarray:
    probabilities = run(copies.astype("int32"))
    if keras.tree.is_nested(probabilities):
        raise ValueError(
            "Argument `model` must give one array of class probabilities. "
            f"Received: a model that gives a {type(probabilities).__name__}"
        )
    probabilities = np.asarray(probabilities).astype("float64")
    if probabilities.ndim != 2 or len(probabilities) != len(copies):
        raise ValueError(
            "Argument `model` must give class probabilities (batch, classes). "
            f"Received: an output of shape {probabilities.shape} for "
            f"{len(copies)} texts"
        )
    sums = probabilities.sum(axis=1)
    within = (probabilities >= 0).all() and (probabilities <= 1 + 1e-6).all()
    if not within or not (np.abs(sums - 1) <= SUM_TOLERANCE).all():
        raise ValueError(
            "Argument `model` must give class probabilities, not logits: "
            "numbers between 0 and 1 that sum to 1 in each row. Received: "
            f"from {probabilities.min()} to {probabilities.max()}, sums from "
            f"{sums.min()} to {sums.max()}"
        )
    check_labels(labels, len(labels), probabilities.shape[1])
    return probabilities[np.arange(len(labels)), labels]


def _padded(tokens: Any) -> tuple[np.ndarray, np.ndarray]:
    """Ids `(batch, time)`, 0 past each text's end, and the texts' lengths."""
    lengths = None
    if not hasattr(tokens, "shape"):
        lengths = np.array([len(text) for text in tokens], dtype="int64")
        width = lengths.max(initial=0)
        tokens = [np.pad(text, (0, width - len(text))) for text in tokens]
    tokens = np.asarray(tokens)
    if tokens.ndim != 2 or not len(tokens) or tokens.dtype.kind not in "iu":
        raise ValueError(
            "Argument `tokens` must hold the int ids of at least one text, "
            "(batch, time) or a list of lists. Received: tokens of shape "
            f"{tokens.shape} and dtype {tokens.dtype}"
        )
    if lengths is None:
        ends = np.arange(1, tokens.shape[1] + 1)
        lengths = np.max(np.where(tokens != 0, ends, 0), axis=1, initial=0)
    return tokens, lengths
