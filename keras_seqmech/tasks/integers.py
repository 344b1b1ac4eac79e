"""Arrays of ids, as tasks are given them."""

from typing import Any

import numpy as np


def check_integers(
    name: str, values: Any, rank: int, least: int, most: int
) -> np.ndarray:
    """Refuses anything but an array of integers of a rank and a range."""
    array = np.asarray(values)
    fits = array.ndim == rank and np.issubdtype(array.dtype, np.integer)
    given = f"of shape {array.shape} and type {array.dtype}"
    if fits and array.size:
        given = f"from {array.min()} to {array.max()}"
        fits = least <= array.min() and array.max() <= most
    if not fits:
        raise ValueError(
            f"Argument `{name}` must be an array of integers from {least} to "
            f"{most}, of rank {rank}. Received: {name} {given}"
        )
    return array
