"""Openness, the share of open gates (open rate), by position.

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

    Example:

    >>> openness_by_position([[1, 0, 1], [1, 0, 0]])
    array([1. , 0. , 0.5])
    """
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
    counts = mask.sum(axis=0)
    sums = np.where(mask, gates, 0).sum(axis=0)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
