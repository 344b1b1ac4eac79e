r"""A choice among S values by stopping: is it this one, or a later one?

After value i, the choice stops with probability $\pi_i = \sigma(\ell_i)$, else
it goes on to the next:

$$p(s = i) = \pi_i \prod_{j<i} (1 - \pi_j), \quad i = 1..S$$

where the last value that exists takes what is left, and values that do not
exist take nothing. In logarithms nothing underflows, and they serve as the
logits of `categorical`. Everything here is float32 or wider.
"""

from typing import NamedTuple

import numpy as np
from keras import ops

from keras_seqmech.ops.precision import LARGEST_LOGIT
from keras_seqmech.ops.precision import finite
from keras_seqmech.typing import Tensor


class ValueMask(NamedTuple):
    """Which of the S values exist, and after which there is a choice.

    Attributes:
        log_mask: Tensor `(..., S)`: 0 where a value exists, else the log of a
            probability of 0, as a large negative number.
        is_choice: Tensor `(..., S - 1)`: 1 where a value exists and a later
            one does too, else 0.
    """

    log_mask: Tensor
    is_choice: Tensor


def value_mask(exist: Tensor, dtype: str) -> ValueMask:
    """Finds which values exist and after which there is a choice.

    Args:
        exist: Boolean tensor `(..., S)`, any pattern: which values exist.
        dtype: `"float32"` or `"float64"`, that of the logits.

    Returns:
        `ValueMask`.
    """
    size = exist.shape[-1]
    exist = ops.cast(exist, dtype)
    # Column i sums the entries j > i: how many values exist after i.
    later = np.tril(np.ones((size, size)), -1)[:, :-1]
    count_later = ops.matmul(exist, ops.cast(later, dtype))
    is_choice = exist[..., :-1] * ops.cast(count_later > 0, dtype)
    return ValueMask((exist - 1) * LARGEST_LOGIT, is_choice)


def log_probabilities(stop_logits: Tensor, mask: ValueMask) -> Tensor:
    r"""$\log p(s = i)$ for all i.

    Args:
        stop_logits: Tensor `(..., S - 1)`: $\ell_i$; those where there is no
            choice have no effect.
        mask: Which values exist, from `value_mask`; broadcasts.

    Returns:
        Tensor `(..., S)`: logits for `categorical`, whose probabilities sum
        to 1. Where no value exists, all are equal.
    """
    stop_logits = finite(stop_logits)
    stop = mask.is_choice * ops.log_sigmoid(stop_logits)
    go_on = mask.is_choice * ops.log_sigmoid(-stop_logits)
    size = mask.log_mask.shape[-1]
    # Column i sums log(1 - pi_j) over j < i: the values that were passed.
    before = np.triu(np.ones((size, size)), 1)[:-1]
    reached = ops.matmul(go_on, ops.cast(before, go_on.dtype))
    last = ops.zeros_like(stop[..., :1])
    return ops.concatenate([stop, last], axis=-1) + reached + mask.log_mask


def uniform_stop_logits(size: int) -> list[float]:
    r"""Stop logits that make S values equally likely, $-\log(S - i)$.

    Args:
        size: S.

    Returns:
        S - 1 floats.
    """
    return [-float(np.log(size - i)) for i in range(1, size)]
