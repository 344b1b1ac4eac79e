"""Openness, the share of open gates (open rate), by position and context.

Source: "Focused Hierarchical RNNs for Conditional Sequence Processing",
figure 3.
"""

from typing import Any

import numpy as np

from keras_seqmech.analysis.token_arrays import check_mask


def openness_by_position(gates: Any, mask: Any = None) -> np.ndarray:
    """Mean of the gates at each position.

    Args:
        gates: Array `(batch, time)`, from 0 (closed) to 1 (open): the `"gates"`
            of a layer, or its `"probabilities"`.
        mask: Boolean array `(batch, time)`, True at real steps; others do not
            count.

    Returns:
        float64 array `(time,)`, NaN where no row has a real position.

    Raises:
        ValueError: If an argument is not allowed.

    Example:

    >>> openness_by_position([[1, 0, 1], [1, 0, 0]])
    array([1. , 0. , 0.5])
    """
    gates, mask = _check(gates, mask)
    counts = mask.sum(axis=0)
    sums = np.where(mask, gates, 0).sum(axis=0)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def openness_by_context(
    gates: Any, contexts: Any, mask: Any = None
) -> dict[Any, np.ndarray]:
    """Mean of the gates at each position, for each context.

    Args:
        gates: As in `openness_by_position`.
        contexts: A number or name of the context of each row, `(batch,)`.
        mask: As in `openness_by_position`.

    Returns:
        For each context, in ascending order, an array `(time,)`.

    Raises:
        ValueError: If an argument is not allowed.

    Example:

    >>> openness_by_context([[1, 0], [1, 1], [0, 1]], contexts=[2, 1, 2])
    {1: array([1., 1.]), 2: array([0.5, 0.5])}
    """
    gates, mask = _check(gates, mask)
    contexts = np.asarray(contexts)
    if contexts.shape != gates.shape[:1]:
        raise ValueError(
            "Argument `contexts` must have one value for each row of `gates`, "
            f"{gates.shape[0]}. Received: contexts of shape {contexts.shape}"
        )
    return {
        context: openness_by_position(
            gates[contexts == context], mask[contexts == context]
        )
        for context in np.unique(contexts).tolist()
    }


def _check(gates: Any, mask: Any) -> tuple[np.ndarray, np.ndarray]:
    gates = np.asarray(gates, "float64")
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
    return gates, mask
