r"""The adaptive receptive field: how a window is read, and what it gates.

Notation, for one step t: window positions $i = 1..S$, selection $I$ (one-hot
or relaxed) over sizes, validity $v_i$ (1 where the position exists and is not
masked).

Source: "An Informative Adaptive Receptive Field Model for Recurrent Neural
Networks": equation 2 (`inner_states`), 4 (`forget`), 6 (`soft_summary`) and 8
(`keep_weights`). Sizes are drawn, equations 1 and 7, in
`keras_seqmech.core.decisions.categorical`.
"""

from collections.abc import Callable
from collections.abc import Sequence

import numpy as np
from keras import ops

from keras_seqmech.typing import Tensor


def keep_weights(selection: Tensor, validity: Tensor) -> Tensor:
    r"""How much of each window position is read, $1 - mask_i$ (eq. 8).

    $$1 - \mathrm{mask}_i = 1 - \sum_{j<i} I_j = \sum_{j \ge i} I_j,$$

    and 0 where the position is not valid. The sum over i is the size of the
    field: the number of positions really read.

    Args:
        selection: Tensor `(..., S)`, rows sum to 1.
        validity: Tensor `(..., S)` of zeros and ones; broadcasts.

    Returns:
        Tensor `(..., S)`, between 0 and 1.
    """
    size = selection.shape[-1]
    tails = np.tril(np.ones((size, size)))
    return ops.matmul(selection, ops.cast(tails, selection.dtype)) * validity


def mean_weights(keep: Tensor) -> Tensor:
    """Weights of the mean over a field, `keep / sum(keep)`; 0 for no field.

    Args:
        keep: Tensor `(..., S)`, from `keep_weights`.

    Returns:
        Tensor `(..., S)`.
    """
    total = ops.sum(keep, axis=-1, keepdims=True)
    # The first valid position has weight 1, so only an empty field is below.
    return keep / ops.where(total > 0, total, ops.ones_like(total))


def soft_summary(
    first: Tensor,
    candidate: Callable[[int, Tensor], Tensor],
    keep: Tensor,
    summary: str,
) -> Tensor:
    r"""Reads a window under a soft mask (eq. 6) and sums it up.

    $$m_{i+1} = (1 - \mathrm{mask}_{i+1})\, c_{i+1}
               + \mathrm{mask}_{i+1}\, m_i, \quad m_0 = 0$$

    Args:
        first: $m_1$ `(batch, units)`; nothing masks the first position.
        candidate: Function `(i, m_i) -> c_{i+1}`, for `i = 1..S-1`: the inner
            network's new state from the window position after i and $m_i$.
        keep: Tensor `(batch, S)`, from `keep_weights`.
        summary: `"mean"` or `"last"`.

    Returns:
        Tensor `(batch, units)`: $m_S$, or the mean of all $m_i$ weighted by
        `keep`.
    """
    size = keep.shape[-1]
    mean = ops.cast(mean_weights(keep), first.dtype)
    keep = ops.cast(keep, first.dtype)
    state = first
    total = mean[:, :1] * state
    for i in range(1, size):
        new = candidate(i, state)
        state = state + keep[:, i : i + 1] * (new - state)
        total = total + mean[:, i : i + 1] * state
    return state if summary == "last" else total


def inner_states(
    offsets: Sequence[Tensor],
    recurrent_kernel: Tensor,
    validity: Tensor,
    activation: Callable[[Tensor], Tensor],
) -> list[Tensor]:
    r"""Reads whole windows (eq. 2).

    $$m_{i} = g(z_i + U_m m_{i-1}), \quad m_0 = 0,$$

    carried on unchanged over positions that are not valid.

    Args:
        offsets: S tensors `(..., units)`, $z_i = W_m x_{t+i-1} + b_m$.
        recurrent_kernel: $U_m$, `(units, units)`.
        validity: Boolean tensor `(..., S)`; broadcasts.
        activation: $g$.

    Returns:
        List of S tensors `(..., units)`, $m_1..m_S$.
    """
    states = [activation(offsets[0])]
    for i, offset in enumerate(offsets[1:], start=1):
        new = activation(offset + ops.matmul(states[-1], recurrent_kernel))
        states.append(ops.where(validity[..., i : i + 1], new, states[-1]))
    return states


def run_summaries(
    states: Sequence[Tensor], validity: Tensor, summary: str
) -> list[Tensor]:
    """Sums up each beginning of a window: what a field of each size has read.

    Args:
        states: S tensors `(..., units)`, from `inner_states`.
        validity: Boolean tensor `(..., S)`; broadcasts.
        summary: `"mean"` over the valid $m_1..m_s$, or `"last"`, $m_s$.

    Returns:
        List of S tensors `(..., units)`; entry s sums up $m_1..m_s$.
    """
    if summary == "last":
        return list(states)
    summaries = [states[0]]
    total = states[0]
    count = ops.ones_like(validity[..., :1], dtype="float32")
    for i, state in enumerate(states[1:], start=1):
        valid = validity[..., i : i + 1]
        total = total + ops.cast(valid, state.dtype) * state
        count = count + ops.cast(valid, count.dtype)
        summaries.append(total / ops.cast(count, state.dtype))
    return summaries


def mix(selection: Tensor, summaries: Sequence[Tensor]) -> Tensor:
    r"""Mixes summaries, $\sum_i I_i n_i$, with a gradient to the selection.

    Args:
        selection: Tensor `(batch, S)`, one-hot or relaxed.
        summaries: S tensors `(batch, units)`.

    Returns:
        Tensor `(batch, units)`.
    """
    selection = ops.cast(selection, summaries[0].dtype)
    result = selection[:, :1] * summaries[0]
    for i, summary in enumerate(summaries[1:], start=1):
        result = result + selection[:, i : i + 1] * summary
    return result


def pick(selection: Tensor, summaries: Sequence[Tensor]) -> Tensor:
    """Picks summaries; those not picked have no effect, even if infinite.

    Args:
        selection: One-hot tensor `(batch, S)`; it gets no gradient.
        summaries: S tensors `(batch, units)`.

    Returns:
        Tensor `(batch, units)`.
    """
    # Split before they are compared: LiteRT does not split booleans.
    _, *shares = ops.split(selection, len(summaries), axis=1)
    result, *further = summaries
    for share, summary in zip(shares, further):
        result = ops.where(share > 0.5, summary, result)
    return result


def forget(
    gate: Tensor, states: Sequence[Tensor], gated: Sequence[int]
) -> list[Tensor]:
    r"""Gates states, $h^f_{t-1} = F_t \odot h_{t-1}$ (eq. 4).

    Args:
        gate: $F_t$, `(batch, width)`, as wide as the gated states together.
        states: Tensors `(batch, size)`, of static sizes.
        gated: Which of the states the gate multiplies.

    Returns:
        All states, in their order.
    """
    states = list(states)
    start = 0
    for i in gated:
        end = start + states[i].shape[-1]
        states[i] = gate[:, start:end] * states[i]
        start = end
    return states
