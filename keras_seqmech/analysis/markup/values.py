"""What `show` is given, checked: one number a real step, in rows with names."""

from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

import numpy as np

# Rounding of sums of float32 probabilities.
TOLERANCE = 1e-4


class Row(NamedTuple):
    """One number for each real step.

    Attributes:
        name: Name of the row, such as a question; "" for none.
        values: float64 `(steps,)`.
    """

    name: str
    values: np.ndarray


def token_list(tokens: Any) -> list:
    """The tokens of a string, a sequence, an array or a tensor.

    An array or tensor may be a batch of one row, or one string.
    """
    if hasattr(tokens, "to_list"):  # a ragged tensor
        tokens = tokens.to_list()
        tokens = tokens[0] if _is_one_row(tokens) else tokens
    elif not isinstance(tokens, (str, bytes)) and hasattr(tokens, "__array__"):
        array = np.asarray(tokens)
        if array.ndim > 1 and (array.ndim > 2 or len(array) != 1):
            raise ValueError(
                "Argument `tokens` must have the shape (time,). "
                f"Received: tokens of shape {array.shape}"
            )
        tokens = (array[0] if array.ndim == 2 else array).tolist()
    if isinstance(tokens, bytes):
        tokens = tokens.decode("utf-8", errors="replace")
    try:
        return list(tokens)
    except TypeError:
        raise ValueError(
            "Argument `tokens` must be a string or a sequence of tokens. "
            f"Received: tokens={tokens!r}"
        ) from None


def _is_one_row(rows: list) -> bool:
    return len(rows) == 1 and isinstance(rows[0], list)


def real_steps(tokens: list, mask: Any) -> tuple[list, np.ndarray]:
    """Tokens of real steps, and the mask of all steps, bool `(time,)`."""
    real = np.ones(len(tokens), bool) if mask is None else np.asarray(mask)
    real = real[0] if real.ndim == 2 and len(real) == 1 else real
    if real.dtype.kind not in "biu" or real.ndim != 1:
        raise ValueError(
            "Argument `mask` must hold a bool or an integer for each step, "
            f"(time,). Received: mask={mask!r}"
        )
    real = real.astype(bool)
    if len(tokens) == len(real):
        tokens = [token for token, is_real in zip(tokens, real) if is_real]
    if len(tokens) != real.sum():
        raise ValueError(
            "Argument `tokens` must have one token for each step of `mask`, "
            f"{len(real)}, or for each real one, {real.sum()}. "
            f"Received: {len(tokens)} tokens"
        )
    if not tokens:
        raise ValueError(
            "Argument `tokens` must have at least one token at a real step. "
            f"Received: tokens={tokens!r}, mask={mask!r}"
        )
    return tokens, real


def rows(
    name: str, given: Any, real: np.ndarray, largest: float, summed: bool
) -> list[Row]:
    """The rows of one argument, at real steps.

    Args:
        name: Name of the argument, for errors.
        given: Numbers `(time,)` or `(rows, time)`, or a mapping from the names
            of rows to numbers `(time,)`.
        real: Bool `(time,)`.
        largest: The largest allowed number; none may be below 0.
        summed: Whether numbers `(..., time)` are one row, their sum.
    """
    parts = given if isinstance(given, Mapping) else {"": given}
    found = []
    for key, part in parts.items():
        argument = f"{name}[{key!r}]" if isinstance(given, Mapping) else name
        numbers = _numbers(argument, part, real, summed)
        _check_range(argument, numbers, largest)
        numbers = np.clip(numbers, 0, largest)
        several = len(numbers) > 1
        if several and isinstance(given, Mapping):
            raise ValueError(
                f"Argument `{argument}` must have the shape (time,). "
                f"Received: {argument} with {len(numbers)} rows"
            )
        names = map(str, range(1, len(numbers) + 1)) if several else [str(key)]
        found += [Row(*row) for row in zip(names, numbers)]
    if not found:
        raise ValueError(
            f"Argument `{name}` must have at least one row. "
            f"Received: {name}={given!r}"
        )
    return found


def _numbers(
    name: str, given: Any, real: np.ndarray, summed: bool
) -> np.ndarray:
    """float64 `(rows, real steps)`."""
    if hasattr(given, "to_list"):  # a ragged tensor
        given = given.to_list()
    try:
        array = np.asarray(given, "float64")
    except (TypeError, ValueError):
        raise ValueError(
            f"Argument `{name}` must hold numbers. Received: {name}={given!r}"
        ) from None
    if array.ndim not in (1, 2) or array.shape[-1] != len(real):
        raise ValueError(
            f"Argument `{name}` must have a number for each of the "
            f"{len(real)} steps, (time,) or (rows, time). "
            f"Received: {name} of shape {array.shape}"
        )
    array = np.atleast_2d(array)[:, real]
    return array.sum(axis=0, keepdims=True) if summed else array


def _check_range(name: str, numbers: np.ndarray, largest: float) -> None:
    inside = (numbers >= -TOLERANCE) & (numbers <= largest + TOLERANCE)
    if not (np.isfinite(numbers) & inside).all():
        allowed = (
            f"numbers from 0 to {largest:g}"
            if np.isfinite(largest)
            else "finite numbers of at least 0"
        )
        raise ValueError(
            f"Argument `{name}` must hold {allowed} at real steps. "
            f"Received: {name} from {numbers.min()} to {numbers.max()}"
        )
