"""How much decisions depend on their tokens.

Decisions are sizes of receptive fields, gates, or whether a step is kept.
"""

from typing import Any

import numpy as np

from keras_seqmech.analysis.token_arrays import check_mask
from keras_seqmech.analysis.token_arrays import check_tokens
from keras_seqmech.analysis.token_arrays import check_values
from keras_seqmech.analysis.token_arrays import free_steps
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

    A size is cut where the end of the sequence, or a masked step, leaves fewer
    positions to read. Cut sizes depend on where they stand, also if the same
    size is chosen everywhere. So with `max_size` all steps whose window is not
    wholly real are left out: not only those that would have chosen more, which
    would leave too many small sizes.

    Args:
        decisions: `(batch, time)`: ints, or numbers that are rounded to the
            nearest int.
        tokens: Array `(batch, time)` of ids or strings.
        mask: Boolean array `(batch, time)`, True at real steps.
        min_count: Leave out the steps of tokens that occur at fewer steps.
        max_size: For sizes, the largest that the layer can choose: steps that
            cannot choose every size are left out, those with fewer than
            `max_size - 1` real steps right after them. 1, as for gates, leaves
            out none.

    Returns:
        The information, a float.

    Raises:
        ValueError: If shapes differ, a decision is not finite, or no step is
            left.

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
    tokens = check_tokens(tokens)
    real = check_mask(mask, tokens.shape)
    values = check_values("decisions", decisions, tokens, real)
    free = free_steps(real, max_size)[real]
    _, ids, counts = np.unique(
        tokens[real][free], return_inverse=True, return_counts=True
    )
    frequent = (counts >= min_count)[ids]
    ids, hard = ids[frequent], np.rint(values[free][frequent])
    if not len(ids):
        raise ValueError(
            "Arguments `tokens`, `mask`, `max_size` and `min_count` must "
            "leave at least one step. Received: none, with "
            f"max_size={max_size}, min_count={min_count}"
        )
    return _entropy(hard) + _entropy(ids) - _entropy(np.stack([hard, ids]))


def _entropy(values: np.ndarray) -> float:
    """Entropy of values, or of the columns of two rows of them."""
    _, counts = np.unique(values, axis=-1, return_counts=True)
    shares = counts / counts.sum()
    entropy = -float(np.sum(shares * np.log(shares)))
    return entropy + (len(counts) - 1) / (2 * counts.sum())
