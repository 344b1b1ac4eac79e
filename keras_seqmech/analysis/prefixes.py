"""How an answer comes about while a sequence is read.

Source: "RNNs for arXiv/viXra title classification", on interpretation.
"""

from typing import Any

import numpy as np


def prefixes(
    sequence: Any, padding: float = 0, steps: int | None = None
) -> Any:
    r"""All beginnings of a sequence, padded to its length.

    A model's outputs for these rows are its answers after each step, whatever
    it reads out:

    $$p_t = f(x_1, \dots, x_t)$$

    Args:
        sequence: Array `(time,)` of ids, or `(time, ...)`.
        padding: The value of steps not yet read; the model must mask it.
        steps: How many steps are real, if not all: the rest is padding.

    Returns:
        An array `(steps, time, ...)`; row t holds the first t + 1 steps.

    Raises:
        ValueError: If `sequence` is a single number, or `steps` is no int from
            0 to its length.

    Example:

    >>> prefixes([7, 8, 9, 0], steps=3).tolist()
    [[7, 0, 0, 0], [7, 8, 0, 0], [7, 8, 9, 0]]
    """
    sequence = np.asarray(sequence)
    if not sequence.ndim:
        raise ValueError(
            "Argument `sequence` must have a time axis. Received: "
            f"sequence={sequence!r}"
        )
    time = len(sequence)
    steps = time if steps is None else steps
    is_int = isinstance(steps, (int, np.integer))
    if not is_int or not 0 <= steps <= time:
        raise ValueError(
            f"Argument `steps` must be an int from 0 to {time}. "
            f"Received: steps={steps!r}"
        )
    read = np.arange(time) <= np.arange(steps)[:, None]
    read = read.reshape(*read.shape, *[1] * (sequence.ndim - 1))
    return np.where(read, sequence, np.asarray(padding, sequence.dtype))
