"""How an answer comes about while a sequence is read: by step, and by unit.

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
    is_int = isinstance(steps, (int, np.integer)) and not isinstance(
        steps, bool
    )
    if not is_int or not 0 <= steps <= time:
        raise ValueError(
            f"Argument `steps` must be an int from 0 to {time}. "
            f"Received: steps={steps!r}"
        )
    read = np.arange(time) <= np.arange(steps)[:, None]
    read = read.reshape(*read.shape, *[1] * (sequence.ndim - 1))
    return np.where(read, sequence, np.asarray(padding, sequence.dtype))


def weighted_units(states: Any, weights: Any, bias: float = 0.0) -> np.ndarray:
    r"""Share of each unit in a logit, at every step.

    $$l_{t,u} = h_{t,u} w_u + b / U, \qquad \sum_u l_{t,u} = h_t^T w + b$$

    with U units. Where a classifier reads the last state of a layer that reads
    forwards, the sum at the last step is its logit, and the sum at step t is
    the logit if the sequence ended there.

    Args:
        states: Hidden states h, `(time, units)`, or `(..., units)`.
        weights: w of the last layer, `(units,)` or `(units, 1)`.
        bias: b.

    Returns:
        Float64 array of the shape of `states`.

    Raises:
        ValueError: If there is not one weight for each unit.

    Example:

    >>> weighted_units([[1.0, 2.0]], [3.0, -1.0], bias=1.0).tolist()
    [[3.5, -1.5]]
    """
    states = np.asarray(states, "float64")
    weights = np.asarray(weights, "float64")
    units = states.shape[-1] if states.ndim else 0
    if not units or weights.shape not in ((units,), (units, 1)):
        raise ValueError(
            "Argument `weights` must have one number for each unit of "
            f"`states`. Received: weights.shape={weights.shape}, "
            f"states.shape={states.shape}"
        )
    return states * weights.reshape(units) + float(bias) / units
