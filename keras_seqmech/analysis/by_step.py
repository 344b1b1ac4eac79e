"""What layers decided, step by step: by token, by position, and in a stream.

Decisions are sizes of receptive fields, gates, or whether a step is kept, as
arrays `(batch, time)` beside tokens and a boolean mask of real steps.
"""

import reprlib
from collections.abc import Hashable
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import numpy as np

from keras_seqmech.core import checks


class TokenFieldSize(NamedTuple):
    """The mean field size at one token, and the number of its steps."""

    mean: float
    count: int  # type: ignore[assignment]  # A tuple has a method `count`.


def field_size_by_token(
    tokens: Any,
    sizes: Any,
    mask: Any = None,
    min_count: int = 1,
) -> dict[Hashable, TokenFieldSize]:
    r"""Mean field size at each token, $E(s_t \mid x_t = w)$.

    Args:
        tokens: Array `(batch, time)` of ids or strings.
        sizes: Field sizes, `(batch, time)`.
        mask: Boolean array `(batch, time)`, True where a token counts.
        min_count: Least number of steps of a token; others are left out.

    Returns:
        Dict from token to `TokenFieldSize(mean, count)`.

    Raises:
        ValueError: If shapes differ, or a size is not finite.

    Example:

    >>> field_size_by_token([["a", "b"], ["a", "c"]], [[1, 2], [3, 1]])["a"]
    TokenFieldSize(mean=2.0, count=2)

    Source: "An Informative Adaptive Receptive Field Model for Recurrent Neural
    Networks", figure 3.
    """
    checks.check_positive_int("min_count", min_count)
    tokens = check_tokens(tokens)
    real = check_mask(mask, tokens.shape)
    values = check_values("sizes", sizes, tokens, real)
    names, ids, counts = np.unique(
        tokens[real], return_inverse=True, return_counts=True
    )
    totals = np.bincount(ids, weights=values, minlength=len(names))
    return {
        name: TokenFieldSize(float(total / count), int(count))
        for name, total, count in zip(names.tolist(), totals, counts)
        if count >= min_count
    }


def label_entropy_by_token(
    tokens: Any,
    labels: Any,
    mask: Any = None,
    min_count: int = 1,
) -> dict[Hashable, float]:
    r"""Entropy of the labels of the texts with a token, $H(Y \mid w \in x)$.

    The empirical entropy in nats, between 0 (the token decides the label) and
    the logarithm of the number of classes. A text counts once, however often
    the token occurs in it.

    Args:
        tokens: Array `(batch, time)` of ids or strings.
        labels: Ints `(batch,)`, the label of each text.
        mask: Boolean array `(batch, time)`, True where a token counts.
        min_count: Least number of texts with a token; others are left out.

    Returns:
        Dict from token to entropy.

    Raises:
        ValueError: If shapes differ, or a label is not a class.

    Example:

    >>> texts = [["good", "film"], ["bad", "film"]]
    >>> entropies = label_entropy_by_token(texts, [1, 0])
    >>> round(entropies["film"], 4), entropies["good"]
    (0.6931, 0.0)

    Source: "An Informative Adaptive Receptive Field Model for Recurrent Neural
    Networks", figure 3.
    """
    checks.check_positive_int("min_count", min_count)
    tokens = check_tokens(tokens)
    real = check_mask(mask, tokens.shape)
    _, classes = np.unique(
        check_labels(labels, len(tokens)), return_inverse=True
    )
    names, ids = np.unique(tokens[real], return_inverse=True)
    words, texts = np.unique(np.stack([ids, np.nonzero(real)[0]]), axis=1)
    counts = np.bincount(words, minlength=len(names))
    (words, _), joint = np.unique(
        np.stack([words, classes[texts]]), axis=1, return_counts=True
    )
    shares = joint / counts[words]
    entropies = np.abs(
        np.bincount(words, shares * np.log(shares), minlength=len(names))
    )
    return {
        name: float(entropy)
        for name, entropy, count in zip(names.tolist(), entropies, counts)
        if count >= min_count
    }


def openness_by_position(gates: Any, mask: Any = None) -> np.ndarray:
    """Mean of the gates at each position.

    Args:
        gates: Array `(batch, time)`, from 0 (closed) to 1 (open): the `"gates"`
            of a layer, or its `"probabilities"`.
        mask: Boolean array `(batch, time)`, True at real steps; others do not
            count.

    Returns:
        float64 array `(time,)`, NaN where no row has a real position.

    Example:

    >>> openness_by_position([[1, 0, 1], [1, 0, 0]])
    array([1. , 0. , 0.5])

    Source: "Focused Hierarchical RNNs for Conditional Sequence Processing",
    figure 3.
    """
    gates = as_array("gates", gates, "float64")
    if gates.ndim != 2:
        raise ValueError(
            "Argument `gates` must have the shape (batch, time). "
            f"Received: gates of shape {gates.shape}"
        )
    mask = check_mask(mask, gates.shape)
    real = gates[mask]
    if not ((real >= 0) & (real <= 1)).all():
        raise ValueError(
            "Argument `gates` must hold numbers from 0 to 1. Received: "
            f"numbers from {real.min()} to {real.max()}"
        )
    counts = mask.sum(axis=0)
    sums = np.where(mask, gates, 0).sum(axis=0)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def emission_delay(sizes: Any, mask: Any = None) -> np.ndarray:
    r"""Number of further steps that each step waits for in a stream.

    Steps leave in order, each once the positions that it reads have arrived:

    $$e_t = \max(e_{t-1},\; t + s_t - 1), \quad \text{delay}_t = e_t - t,$$

    where no step waits past the last real one. A step also waits for those
    before it. So the delay is more than the size less 1 in a
    `ReceptiveFieldRNN`, and equal to it in a `LookAhead`, whose sizes count
    what has arrived meanwhile. These are the delays of rows that are streamed
    alone. A stream that is given masked steps, between real steps or after
    them, may wait longer: it cannot know that they are masked.

    Args:
        sizes: Array `(batch, time)` of the numbers of positions read, as
            returned with `return_field=True` at inference; rounded to the
            nearest int.
        mask: Boolean array `(batch, time)`, True at real steps.

    Returns:
        int64 array `(batch, time)`, 0 at masked steps. `delays[mask]` are those
        of the real steps, for their mean and 95th percentile.

    Raises:
        ValueError: If shapes differ, or a size at a real step is not a finite
            number of at least 1.

    Example:

    >>> emission_delay([[1, 3, 1, 1, 2]]).tolist()
    [[0, 2, 1, 0, 0]]
    """
    sizes = as_array("sizes", sizes, "float64")
    if sizes.ndim != 2:
        raise ValueError(
            "Argument `sizes` must have the shape (batch, time). "
            f"Received: sizes.shape={sizes.shape}"
        )
    real = check_mask(mask, sizes.shape)
    values = np.rint(check_values("sizes", sizes, sizes, real))
    if (values < 1).any():
        raise ValueError(
            "Argument `sizes` must hold numbers of at least 1 at real steps. "
            f"Received: sizes with {values.min():g}"
        )
    values = np.minimum(values, sizes.shape[1]).astype(int)
    delays = np.zeros(sizes.shape, int)
    end = 0
    for row, steps in enumerate(map(np.flatnonzero, real)):
        own = values[end : end + len(steps)]
        end += len(steps)
        # The last of the real steps that a field reads.
        last = np.minimum(np.arange(len(steps)) + own - 1, len(steps) - 1)
        delays[row, steps] = np.maximum.accumulate(steps[last]) - steps
    return delays


def check_mask(mask: Any, shape: Sequence[int]) -> np.ndarray:
    """A boolean mask of a shape `(batch, time)`; all True for None."""
    if mask is None:
        return np.ones(shape, dtype=bool)
    checks.check_mask("mask", mask, shape)
    return np.asarray(mask, dtype=bool)


def as_array(name: str, values: Any, dtype: Any = None) -> np.ndarray:
    """An array of numbers; refuses what is none, naming the argument."""
    try:
        return np.asarray(values, dtype)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Argument `{name}` must be an array of numbers. "
            f"Received: {name}={reprlib.repr(values)}"
        ) from error


def check_labels(
    labels: Any, batch_size: int, num_classes: int | None = None
) -> np.ndarray:
    """Labels as an int array; refuses labels that are not classes."""
    labels = as_array("labels", labels)
    if labels.shape != (batch_size,) or labels.dtype.kind not in "iu":
        raise ValueError(
            f"Argument `labels` must hold one int for each of {batch_size} "
            f"texts. Received: labels of shape {labels.shape} and dtype "
            f"{labels.dtype}"
        )
    too_large = num_classes is not None and (labels >= num_classes).any()
    if too_large or (labels < 0).any():
        below = "" if num_classes is None else f" and below {num_classes}"
        raise ValueError(
            f"Argument `labels` must hold classes, of at least 0{below}. "
            f"Received: labels from {labels.min()} to {labels.max()}"
        )
    return labels


def check_tokens(tokens: Any) -> np.ndarray:
    """Tokens as an array `(batch, time)`."""
    try:
        array = np.asarray(tokens)
    except ValueError:  # Rows of different lengths.
        array = np.zeros(0)
    if array.ndim != 2:
        raise ValueError(
            "Argument `tokens` must have the shape (batch, time), with a "
            f"`mask` where texts differ in length. Received: tokens={tokens!r}"
        )
    return array


def check_values(
    name: str, values: Any, tokens: np.ndarray, real: np.ndarray
) -> np.ndarray:
    """Finite numbers at the real steps of tokens, in order."""
    values = as_array(name, values, "float64")
    if values.shape != tokens.shape:
        raise ValueError(
            f"Argument `{name}` must have the shape {tokens.shape} of "
            f"`tokens`. Received: {name}.shape={values.shape}"
        )
    values = values[real]
    infinite = values[~np.isfinite(values)]
    if len(infinite):
        raise ValueError(
            f"Argument `{name}` must hold finite numbers. "
            f"Received: {name} with {infinite[0]}"
        )
    return values
