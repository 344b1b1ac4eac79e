"""How far decisions differ, depend on their tokens, and are certain.

Decisions are sizes of receptive fields, gates, or whether a step is kept.

A size is cut where the end of the sequence, or a masked step, leaves fewer
positions to read. Cut sizes differ and depend on where they stand, also if
the same size is chosen everywhere. So all steps whose window of `max_size`
positions is not wholly real are left out: not only those that would have
chosen more, which would leave too many small sizes.
"""

from typing import Any

import numpy as np

from keras_seqmech.analysis.token_arrays import check_mask
from keras_seqmech.analysis.token_arrays import check_probabilities
from keras_seqmech.analysis.token_arrays import flatten_tokens
from keras_seqmech.analysis.token_arrays import flatten_values
from keras_seqmech.analysis.token_arrays import free_steps
from keras_seqmech.analysis.token_arrays import is_array
from keras_seqmech.core import checks


def decision_information(
    decisions: Any,
    tokens: Any,
    mask: Any = None,
    min_count: int = 1,
    max_size: int = 1,
) -> float:
    r"""Mutual information of a decision and its token, in nats.

    $$I(D; X) = H(D) + H(X) - H(D, X)$$

    with the Miller-Madow estimate of each entropy, over N steps and the m
    values that occur in them with shares $\hat p_i$:

    $$H = -\sum_i \hat p_i \log \hat p_i + \frac{m - 1}{2 N}$$

    0 means that decisions do not depend on the token, H(D) that the token
    determines them. Without the correction, tokens with few steps would look
    informative. The correction needs tokens that occur several times, see
    `min_count`; and the estimate may be slightly below 0.

    Args:
        decisions: `(batch, time)`: ints, or numbers that are rounded to the
            nearest int; for lists of tokens, at least as many a text as it has
            tokens.
        tokens: Ids `(batch, time)`, or a list of lists of tokens of any
            hashable kind, one list a text.
        mask: Boolean array `(batch, time)`, True at real steps. Only with ids.
        min_count: Leave out the steps of tokens that occur at fewer steps.
        max_size: For sizes, the largest that the layer can choose: steps that
            cannot choose every size are left out, those with fewer than
            `max_size - 1` real steps right after them. 1, as for gates, leaves
            out none.

    Returns:
        The information, a float.

    Raises:
        ValueError: If shapes or lengths differ, a decision is not finite, or
            no step is left.

    Example:

    >>> import numpy as np
    >>> tokens = np.array([[5, 7] * 500])
    >>> gates = (tokens == 7).astype("float32")
    >>> round(float(decision_information(gates, tokens)), 2)  # log(2)
    0.69

    Source: G. Miller, "Note on the bias of information estimates", 1955.
    """
    checks.check_positive_int("min_count", min_count)
    checks.check_positive_int("max_size", max_size)
    _, ids, _ = flatten_tokens(tokens, mask)
    values = flatten_values("decisions", tokens, decisions, mask)
    free = _free_tokens(tokens, mask, max_size)
    ids, values = ids[free], values[free]
    frequent = np.bincount(ids)[ids] >= min_count if len(ids) else []
    ids, hard = ids[frequent], _hard(values)[frequent]
    if not len(ids):
        raise ValueError(
            "Arguments `tokens`, `mask`, `max_size` and `min_count` must "
            "leave at least one step. Received: none, with "
            f"max_size={max_size}, min_count={min_count}"
        )
    return (
        _entropy(hard, corrected=True)
        + _entropy(ids, corrected=True)
        - _entropy(np.stack([hard, ids]), corrected=True)
    )


def decision_entropy(
    decisions: Any, mask: Any = None, max_size: int = 1
) -> float:
    r"""Entropy of hard decisions over steps, in nats.

    $H(D) = -\sum_i \hat p_i \log \hat p_i$ with the share $\hat p_i$ of steps
    that have the decision i: 0 if all decisions are the same.

    Args:
        decisions: `(batch, time)`: ints, or numbers that are rounded to the
            nearest int.
        mask: Boolean array `(batch, time)`, True at real steps.
        max_size: For sizes, the largest that the layer can choose; see
            `decision_information`.

    Returns:
        The entropy, a float.

    Raises:
        ValueError: If an argument does not fit, a decision is not finite, or
            no step is left.

    Example:

    >>> round(decision_entropy([[1, 2, 2, 1], [1, 1, 2, 2]]), 4)
    0.6931
    """
    checks.check_positive_int("max_size", max_size)
    values = np.asarray(decisions, dtype="float64")
    if values.ndim != 2:
        raise ValueError(
            "Argument `decisions` must have the shape (batch, time). "
            f"Received: decisions.shape={values.shape}"
        )
    values = values[_free_steps(mask, values.shape, max_size)]
    if not np.isfinite(values).all():
        raise ValueError(
            "Argument `decisions` must hold finite numbers. "
            f"Received: decisions with {values[~np.isfinite(values)][0]}"
        )
    return _entropy(_hard(values))


def decided_share(
    probabilities: Any, mask: Any = None, threshold: float = 0.9
) -> float:
    """Share of steps whose decision is certain.

    A decision is certain if the probability of the most probable choice is
    above a threshold.

    Args:
        probabilities: `(batch, time)`, of an open gate or a kept step; or
            `(batch, time, S)`, of sizes, where steps that cannot choose every
            size are left out, as `decision_information` does with `max_size`.
        mask: Boolean array `(batch, time)`, True at real steps.
        threshold: Number from 0 to 1.

    Returns:
        The share, a float from 0 to 1.

    Raises:
        ValueError: If an argument does not fit, or no step is left.

    Example:

    >>> decided_share([[0.05, 0.5, 0.99, 0.8]])
    0.5
    """
    threshold = checks.check_share("threshold", threshold)
    probabilities = np.asarray(probabilities, dtype="float64")
    if probabilities.ndim not in (2, 3):
        raise ValueError(
            "Argument `probabilities` must have the shape (batch, time) or "
            "(batch, time, S). "
            f"Received: probabilities.shape={probabilities.shape}"
        )
    max_size = probabilities.shape[2] if probabilities.ndim == 3 else 1
    free = probabilities[_free_steps(mask, probabilities.shape[:2], max_size)]
    check_probabilities(
        "probabilities",
        free,
        "hold numbers from 0 to 1, those of sizes with a sum of 1",
    )
    chosen = np.maximum(free, 1 - free) if free.ndim == 1 else free.max(axis=-1)
    return float(np.mean(chosen > threshold))


def _free_steps(mask: Any, shape: tuple[int, ...], max_size: int) -> np.ndarray:
    free = free_steps(check_mask(mask, shape), max_size)
    if not free.any():
        raise ValueError(
            "Argument `mask` must leave at least one real step, followed by "
            f"{max_size - 1} others where sizes are up to {max_size}. "
            f"Received: none of shape {shape}"
        )
    return free


def _free_tokens(tokens: Any, mask: Any, max_size: int) -> np.ndarray:
    """Which of the steps of `flatten_tokens` can choose every size."""
    if is_array(tokens):
        real = check_mask(mask, tokens.shape)
        return free_steps(real, max_size)[real]
    left = [i for text in tokens for i in range(len(text), 0, -1)]
    return np.array(left, dtype="int64") >= max_size


def _hard(values: np.ndarray) -> np.ndarray:
    # Kept as floats, so that numbers beyond 64 bits stay distinct.
    return np.rint(values)


def _entropy(values: np.ndarray, corrected: bool = False) -> float:
    """Entropy of values, or of the columns of two rows of them."""
    _, counts = np.unique(values, axis=-1, return_counts=True)
    shares = counts / counts.sum()
    entropy = abs(float(np.sum(shares * np.log(shares))))
    if corrected:
        entropy += (len(counts) - 1) / (2 * counts.sum())
    return entropy
