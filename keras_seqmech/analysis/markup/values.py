"""Checks of what `show` is given: tokens, and one number for each."""

from collections.abc import Mapping
from typing import Any

import numpy as np

# Rounding of sums of float32 probabilities.
TOLERANCE = 1e-4


def token_list(tokens: Any) -> list:
    """Tokens of a string, a sequence, an array or a tensor `(time,)`."""
    if hasattr(tokens, "__array__"):
        tokens = np.asarray(tokens)
        if tokens.ndim != 1:
            raise ValueError(
                "Argument `tokens` must have the shape (time,). "
                f"Received: tokens of shape {tokens.shape}"
            )
        tokens = tokens.tolist()
    if not len(tokens):
        raise ValueError(
            "Argument `tokens` must have at least one token. "
            f"Received: tokens={tokens!r}"
        )
    return list(tokens)


def rows(
    name: str, given: Any, count: int, largest: float
) -> dict[str, np.ndarray]:
    """Numbers `(time,)`, float64, by the names of the rows.

    Args:
        name: Name of the argument, for errors.
        given: Numbers `(time,)`, or a mapping from names to such numbers.
        count: Number of tokens.
        largest: Largest allowed number; none may be below 0.
    """
    if not isinstance(given, Mapping):
        return {"": _numbers(name, given, count, largest)}
    if not given:
        raise ValueError(
            f"Argument `{name}` must have at least one row. "
            f"Received: {name}={given!r}"
        )
    return {
        str(key): _numbers(f"{name}[{key!r}]", part, count, largest)
        for key, part in given.items()
    }


def _numbers(name: str, given: Any, count: int, largest: float) -> np.ndarray:
    try:
        array = np.asarray(given, "float64")
    except (TypeError, ValueError):
        raise ValueError(
            f"Argument `{name}` must hold numbers. Received: {name}={given!r}"
        ) from None
    if array.shape != (count,):
        raise ValueError(
            f"Argument `{name}` must have a number for each of the {count} "
            f"tokens, (time,). Received: {name} of shape {array.shape}"
        )
    inside = (array >= -TOLERANCE) & (array <= largest + TOLERANCE)
    if not (np.isfinite(array) & inside).all():
        raise ValueError(
            f"Argument `{name}` must hold finite numbers from 0 to "
            f"{largest:g}. Received: {name} from {array.min()} to "
            f"{array.max()}"
        )
    return np.clip(array, 0, largest)
