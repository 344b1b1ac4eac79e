"""Tokens, their masks and labels, and what is measured at them, as arrays."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_seqmech.core import checks


def check_mask(mask: Any, shape: Sequence[int]) -> np.ndarray:
    """A boolean mask of a shape `(batch, time)`; all True for None."""
    if mask is None:
        return np.ones(shape, dtype=bool)
    checks.check_mask("mask", mask, shape)
    return np.asarray(mask, dtype=bool)


def free_steps(real: np.ndarray, max_size: int) -> np.ndarray:
    """The real steps whose window of `max_size` positions is wholly real."""
    length = real.shape[1]
    padded = np.pad(real, ((0, 0), (0, max_size - 1)))
    windows = [padded[:, i : i + length] for i in range(max_size)]
    return np.all(windows, axis=0)


def check_labels(
    labels: Any, batch_size: int, num_classes: int | None = None
) -> np.ndarray:
    """Labels as an int array; refuses those that are no classes."""
    labels = np.asarray(labels)
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
    values = np.asarray(values, dtype="float64")
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
