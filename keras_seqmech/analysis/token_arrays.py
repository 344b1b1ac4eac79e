"""Tokens, their masks and labels, and what is measured at them, as arrays."""

from collections.abc import Hashable
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_seqmech.core import checks

SUM_TOLERANCE = 1e-2  # bfloat16 rounds a probability to about 3 digits.


def check_mask(mask: Any, shape: Sequence[int]) -> np.ndarray:
    """A boolean mask of a shape `(batch, time)`; all True for None."""
    if mask is None:
        return np.ones(shape, dtype=bool)
    checks.check_mask("mask", mask, shape)
    return np.asarray(mask, dtype=bool)


def free_steps(real: np.ndarray, max_size: int) -> np.ndarray:
    """The real steps whose window of `max_size` positions is wholly real.

    Args:
        real: Boolean array `(batch, time)`.
        max_size: Positive int.
    """
    length = real.shape[1]
    padded = np.pad(real, ((0, 0), (0, max_size - 1)))
    windows = [padded[:, i : i + length] for i in range(max_size)]
    return np.all(windows, axis=0)


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
        checks.check_positive_int("num_classes", num_classes)
    too_large = num_classes is not None and (labels >= num_classes).any()
    if too_large or (labels < 0).any():
        below = "" if num_classes is None else f" and below {num_classes}"
        raise ValueError(
            f"Argument `labels` must hold classes, of at least 0{below}. "
            f"Received: labels from {labels.min()} to {labels.max()}"
        )
    return labels


def check_probabilities(name: str, values: np.ndarray, expected: str) -> None:
    """Refuses numbers outside of 0 to 1, and rows that do not sum to 1.

    Args:
        name: Name of the argument, for the error.
        values: Numbers `(steps,)`, or rows of them, such as
            `(batch, classes)`.
        expected: What the argument must do, for the error.
    """
    sums = values.sum(axis=-1) if values.ndim == 2 else np.ones(len(values))
    within = (values >= 0).all() and (values <= 1 + 1e-6).all()
    if not within or not (np.abs(sums - 1) <= SUM_TOLERANCE).all():
        raise ValueError(
            f"Argument `{name}` must {expected}. Received: probabilities from "
            f"{values.min(initial=np.inf)} to {values.max(initial=-np.inf)}, "
            f"sums from {sums.min()} to {sums.max()}"
        )


def is_array(tokens: Any) -> bool:
    """Whether tokens are an array or a tensor, not a list of lists."""
    return hasattr(tokens, "ndim") or hasattr(tokens, "shape")


def flatten_tokens(
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
    """Numbers of the real steps, in the order of `flatten_tokens`."""
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
