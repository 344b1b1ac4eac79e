"""How far decisions differ, depend on their tokens, and are certain.

Decisions are sizes of receptive fields, gates, or whether a step is kept.
"""

from typing import Any

import numpy as np

from keras_seqmech.analysis.token_arrays import check_mask
from keras_seqmech.analysis.token_arrays import check_probabilities
from keras_seqmech.analysis.token_arrays import flatten_tokens
from keras_seqmech.analysis.token_arrays import flatten_values
from keras_seqmech.layers import validation


def decision_information(
    decisions: Any, tokens: Any, mask: Any = None, min_count: int = 1
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
    validation.check_positive_int("min_count", min_count)
    _, ids, _ = flatten_tokens(tokens, mask)
    values = flatten_values("decisions", tokens, decisions, mask)
    frequent = np.bincount(ids)[ids] >= min_count if len(ids) else []
    ids, hard = ids[frequent], _hard(values)[frequent]
    if not len(ids):
        raise ValueError(
            "Arguments `tokens`, `mask` and `min_count` must leave at least "
            f"one step. Received: none, with min_count={min_count}"
        )
    return (
        _entropy(hard, corrected=True)
        + _entropy(ids, corrected=True)
        - _entropy(np.stack([hard, ids]), corrected=True)
    )


def decision_entropy(decisions: Any, mask: Any = None) -> float:
    r"""Entropy of hard decisions over steps, in nats.

    $H(D) = -\sum_i \hat p_i \log \hat p_i$ with the share $\hat p_i$ of steps
    that have the decision i: 0 if all decisions are the same.

    Args:
        decisions: `(batch, time)`: ints, or numbers that are rounded to the
            nearest int.
        mask: Boolean array `(batch, time)`, True at real steps.

    Returns:
        The entropy, a float.

    Raises:
        ValueError: If a shape does not fit, a decision is not finite, or there
            is no real step.

    Example:

    >>> round(decision_entropy([[1, 2, 2, 1], [1, 1, 2, 2]]), 4)
    0.6931
    """
    values = np.asarray(decisions, dtype="float64")
    if values.ndim != 2:
        raise ValueError(
            "Argument `decisions` must have the shape (batch, time). "
            f"Received: decisions.shape={values.shape}"
        )
    values = values[_real_steps(mask, values.shape)]
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
            `(batch, time, S)`, of sizes.
        mask: Boolean array `(batch, time)`, True at real steps.
        threshold: Number from 0 to 1.

    Returns:
        The share, a float from 0 to 1.

    Raises:
        ValueError: If an argument does not fit, or there is no real step.

    Example:

    >>> decided_share([[0.05, 0.5, 0.99, 0.8]])
    0.5
    """
    threshold = validation.check_share("threshold", threshold)
    probabilities = np.asarray(probabilities, dtype="float64")
    if probabilities.ndim not in (2, 3):
        raise ValueError(
            "Argument `probabilities` must have the shape (batch, time) or "
            "(batch, time, S). "
            f"Received: probabilities.shape={probabilities.shape}"
        )
    real = probabilities[_real_steps(mask, probabilities.shape[:2])]
    check_probabilities(
        "probabilities",
        real,
        "hold numbers from 0 to 1, those of sizes with a sum of 1",
    )
    chosen = np.maximum(real, 1 - real) if real.ndim == 1 else real.max(axis=-1)
    return float(np.mean(chosen > threshold))


def _real_steps(mask: Any, shape: tuple[int, ...]) -> np.ndarray:
    real = check_mask(mask, shape)
    if not real.any():
        raise ValueError(
            "Argument `mask` must leave at least one real step. "
            f"Received: none of shape {shape}"
        )
    return real


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
