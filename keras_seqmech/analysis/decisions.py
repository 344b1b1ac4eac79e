"""Field sizes and label entropies by token.

Source: "An Informative Adaptive Receptive Field Model for Recurrent Neural
Networks", section "Informational Receptive Field Experiments".
"""

from collections.abc import Hashable
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import numpy as np

from keras_seqmech.layers import validation


class TokenFieldSize(NamedTuple):
    """The mean field size at one token, and the number of its steps."""

    mean: float
    count: int  # type: ignore[assignment]  # A tuple has a method `count`.


def expected_field_size(probabilities: Any, mask: Any = None) -> np.ndarray:
    r"""Expected number of positions read at each step, $E(s_t)$.

    $$E(s_t) = \sum_i d_{t,i} \sum_{j \le i} v_{t+j-1}$$

    with $v$ 1 where a position exists and is not masked: of a field that runs
    past the end, or over a gap, only real positions are read. It changes
    smoothly in training, where the most probable size would jump.

    Args:
        probabilities: Array `(batch, time, S)` of size probabilities, from
            `ReceptiveFieldRNN(return_field=True)`.
        mask: Boolean array `(batch, time)`, True where a step is real.

    Returns:
        float64 array `(batch, time)`, 0 at masked steps.

    Example:

    >>> import numpy as np
    >>> expected_field_size(np.full((1, 3, 2), 0.5))
    array([[1.5, 1.5, 1. ]])
    """
    probabilities = np.asarray(probabilities, dtype="float64")
    if probabilities.ndim != 3:
        raise ValueError(
            "Argument `probabilities` must have the shape (batch, time, S). "
            f"Received: probabilities.shape={probabilities.shape}"
        )
    batch_size, length, max_size = probabilities.shape
    mask = check_mask(mask, (batch_size, length))
    counts = np.zeros((batch_size, length + max_size), dtype="int64")
    np.cumsum(mask, axis=1, out=counts[:, 1 : length + 1])
    counts[:, length + 1 :] = counts[:, length : length + 1]
    steps = np.arange(length)
    read = np.stack(
        [
            counts[:, steps + i] - counts[:, steps]
            for i in range(1, max_size + 1)
        ],
        axis=-1,
    )
    return (np.where(mask[..., None], probabilities, 0.0) * read).sum(-1)


def field_size_by_token(
    tokens: Any,
    sizes: Any,
    mask: Any = None,
    min_count: int = 1,
) -> dict[Hashable, TokenFieldSize]:
    r"""Mean field size at each token, $E(s_t \mid x_t = w)$.

    Args:
        tokens: Ids `(batch, time)`, or a list of lists of tokens of any
            hashable kind, one list a text.
        sizes: Field sizes, `(batch, time)`; for lists of tokens, at least as
            many sizes a text as it has tokens (further ones are padding).
        mask: Boolean array `(batch, time)`, True where a token counts. Only
            with ids.
        min_count: Leave out tokens that occur at fewer steps.

    Returns:
        Dict from token to `TokenFieldSize(mean, count)`.

    Raises:
        ValueError: If shapes or lengths differ, or a size is not finite.

    Example:

    >>> field_size_by_token([["a", "b"], ["a"]], [[1.0, 2.0], [3.0]])["a"]
    TokenFieldSize(mean=2.0, count=2)

    Source: figure 3 of the paper.
    """
    validation.check_positive_int("min_count", min_count)
    names, ids, texts = flatten(tokens, mask)
    values = flatten_values("sizes", tokens, sizes, mask)
    counts = np.bincount(ids, minlength=len(names))
    totals = np.bincount(ids, weights=values, minlength=len(names))
    return {
        name: TokenFieldSize(float(total / count), int(count))
        for name, total, count in zip(names, totals, counts)
        if count >= min_count
    }


def label_entropy_by_token(
    tokens: Any,
    labels: Any,
    num_classes: int | None = None,
    mask: Any = None,
    min_count: int = 1,
) -> dict[Hashable, float]:
    r"""Entropy of the labels of the texts with a token, $H(Y \mid w \in x)$.

    The empirical entropy in nats, between 0 (the token decides the label) and
    the logarithm of the number of classes. A text counts once, however often
    the token occurs in it.

    Args:
        tokens: Ids `(batch, time)`, or a list of lists of tokens.
        labels: Ints `(batch,)`, one a text.
        num_classes: Number of classes; if given, labels are checked to lie
            below it.
        mask: Boolean array `(batch, time)`, True where a token counts. Only
            with ids.
        min_count: Leave out tokens that occur in fewer texts.

    Returns:
        Dict from token to entropy.

    Raises:
        ValueError: If shapes or lengths differ, or a label is not a class.

    Example:

    >>> texts = [["good", "film"], ["bad", "film"]]
    >>> entropies = label_entropy_by_token(texts, [1, 0])
    >>> round(entropies["film"], 4), entropies["good"]
    (0.6931, 0.0)

    Source: figure 3 of the paper.
    """
    validation.check_positive_int("min_count", min_count)
    names, ids, texts = flatten(tokens, mask)
    labels = check_labels(labels, len(tokens), num_classes)
    words, texts = np.unique(np.stack([ids, texts]), axis=1)
    counts = np.bincount(words, minlength=len(names))
    _, classes = np.unique(labels, return_inverse=True)
    (words, _), joint = np.unique(
        np.stack([words, classes[texts]]), axis=1, return_counts=True
    )
    shares = joint / counts[words]
    entropies = np.abs(
        np.bincount(words, shares * np.log(shares), minlength=len(names))
    )
    return {
        name: float(entropy)
        for name, entropy, count in zip(names, entropies, counts)
        if count >= min_count
    }


def check_mask(mask: Any, shape: Sequence[int]) -> np.ndarray:
    """A boolean mask of a shape `(batch, time)`; all True for None."""
    if mask is None:
        return np.ones(shape, dtype=bool)
    validation.check_mask("mask", np.asarray(mask), shape)
    return np.asarray(mask, dtype=bool)


def check_labels(
    labels: Any, batch_size: int, num_classes: int | None
) -> np.ndarray:
    """Labels as an int array; refuses those that are no classes."""
    labels = np.asarray(labels)
    if not labels.size:
        labels = labels.astype("int64")
    if labels.shape != (batch_size,) or labels.dtype.kind not in "iu":
        raise ValueError(
            f"Argument `labels` must hold one int for each of {batch_size} "
            f"texts. Received: labels of shape {labels.shape} and dtype "
            f"{labels.dtype}"
        )
    if num_classes is not None:
        validation.check_positive_int("num_classes", num_classes)
    too_large = num_classes is not None and (labels >= num_classes).any()
    if too_large or (labels < 0).any():
        below = "" if num_classes is None else f" and below {num_classes}"
        raise ValueError(
            f"Argument `labels` must hold classes, of at least 0{below}. "
            f"Received: labels from {labels.min()} to {labels.max()}"
        )
    return labels


def is_array(tokens: Any) -> bool:
    """Whether tokens are an array or a tensor, not a list of lists."""
    return hasattr(tokens, "ndim") or hasattr(tokens, "shape")


def flatten(
    tokens: Any, mask: Any
) -> tuple[list[Hashable], np.ndarray, np.ndarray]:
    """Distinct tokens; and for each real step the token's and text's index."""
    if is_array(tokens):
        tokens = np.asarray(tokens)
        if tokens.ndim != 2:
            raise ValueError(
                "Argument `tokens` must have the shape (batch, time) or be a "
                f"list of lists. Received: tokens.shape={tokens.shape}"
            )
        mask = check_mask(mask, tokens.shape)
        texts = np.nonzero(mask)[0]
        names, ids = np.unique(tokens[mask], return_inverse=True)
        return names.tolist(), ids.reshape(-1), texts
    _check_ragged(tokens, mask)
    lengths = [len(text) for text in tokens]
    index: dict[Hashable, int] = {}
    steps = [index.setdefault(w, len(index)) for text in tokens for w in text]
    texts = np.repeat(np.arange(len(tokens)), lengths)
    return list(index), np.array(steps, dtype="int64"), texts


def _check_ragged(tokens: Sequence[Sequence[Hashable]], mask: Any) -> None:
    if mask is not None:
        raise ValueError(
            "Argument `mask` needs `tokens` of the shape (batch, time); lists "
            "of tokens have no padding. Received: a list of lists and a mask"
        )
    for i, text in enumerate(tokens):
        if isinstance(text, (str, bytes)) or not hasattr(text, "__len__"):
            raise ValueError(
                "Argument `tokens` must be a list of lists of tokens. "
                f"Received: tokens[{i}]={text!r}"
            )


def flatten_values(
    name: str, tokens: Any, values: Any, mask: Any
) -> np.ndarray:
    """Numbers of the real steps, in the order of `flatten`."""
    if is_array(tokens):
        values, shape = np.asarray(values, dtype="float64"), tokens.shape
        if values.shape != tuple(shape):
            raise ValueError(
                f"Argument `{name}` must have the shape {tuple(shape)} of "
                f"`tokens`. Received: {name}.shape={values.shape}"
            )
        return _check_finite(name, values[check_mask(mask, values.shape)])
    if len(values) != len(tokens):
        raise ValueError(
            f"Argument `{name}` must hold {name} for {len(tokens)} texts. "
            f"Received: len({name})={len(values)}"
        )
    for i, (text, row) in enumerate(zip(tokens, values)):
        if len(row) < len(text):
            raise ValueError(
                f"Argument `{name}` must hold a number for each token. "
                f"Received: {len(row)} {name} and {len(text)} tokens in text "
                f"{i}"
            )
    real = [x for text, row in zip(tokens, values) for x in row[: len(text)]]
    return _check_finite(name, np.array(real, dtype="float64"))


def _check_finite(name: str, values: np.ndarray) -> np.ndarray:
    infinite = values[~np.isfinite(values)]
    if len(infinite):
        raise ValueError(
            f"Argument `{name}` must hold finite numbers. "
            f"Received: {name} with {infinite[0]}"
        )
    return values
