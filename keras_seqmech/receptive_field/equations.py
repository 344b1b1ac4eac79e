r"""The equations of an adaptive receptive field.

Notation, for one step t: window positions $i = 1..S$, selection $I$ (one-hot
or relaxed) over sizes, validity $v_i$ (1 where the position exists and is not
masked). `RFCell` applies the equations to one window of each row, the fast
loop to all steps at once: the leading axes of all tensors are free, unless
noted.

Source: "An Informative Adaptive Receptive Field Model for Recurrent Neural
Networks": equation 1 (`FieldEquations.size_logits`), 2 (`inner_states`), 3
(`FieldEquations.gate`), 4 (`forget`), 6 (`soft_summary`) and 8
(`keep_weights`). Sizes are drawn, equation 7, in
`keras_seqmech.core.decisions.sampling`. The fast loop has equations 3 and 6
once more, with their products hoisted.
"""

from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_seqmech.core import checks
from keras_seqmech.core import numerics
from keras_seqmech.core.decisions import categorical
from keras_seqmech.core.numerics import finite
from keras_seqmech.typing import Tensor

SIZE_SOURCES = ("input", "field")


def check_activation(name: str, value: Any) -> Any:
    """Gets an activation; refuses one with weights."""
    activation = checks.get_activation(name, value)
    if isinstance(activation, keras.layers.Layer):
        raise ValueError(
            f"Argument `{name}` must be a function without weights, or the "
            f"name of one. Received: {name}={activation!r}"
        )
    return activation


def keep_weights(selection: Tensor, validity: Tensor) -> Tensor:
    r"""How much of each window position is read, $1 - mask_i$ (eq. 8).

    $$1 - \mathrm{mask}_i = 1 - \sum_{j<i} I_j = \sum_{j \ge i} I_j,$$

    and 0 where the position is not valid. The sum over i is the size of the
    field: the number of positions really read.

    Args:
        selection: Tensor `(..., S)`, rows sum to 1.
        validity: Tensor `(..., S)` of zeros and ones; broadcasts.
    """
    size = selection.shape[-1]
    tails = np.tril(np.ones((size, size)))
    return ops.matmul(selection, ops.cast(tails, selection.dtype)) * validity


def arrived(asked: Tensor) -> Tensor:
    r"""Availability of each position at in-order emission.

    $$k_{t,i} = 1 - (1 - q_{t,i})(1 - k_{t-1,i+1})$$

    with q `(batch, time, S)` the amount that each step reads of each position.
    It includes what earlier steps waited for. Where q are probabilities, k is
    the probability that a position is available, for independent choices.
    """
    *sooner, last = ops.split(asked, asked.shape[-1], axis=-1)
    result = [last]
    for own in reversed(sooner):
        before = ops.pad(result[0][:, :-1], ((0, 0), (1, 0), (0, 0)))
        result.insert(0, 1 - (1 - own) * (1 - before))
    return ops.concatenate(result, axis=-1)


def emission_delays(size: Tensor, validity: Tensor) -> Tensor:
    """Number of further steps that each step waits for, emitted in order.

    From the number `(batch, time)` of positions really read, and the boolean
    validity `(batch, time, S)`; 0 at masked steps.
    """
    valid = ops.cast(validity, size.dtype)
    is_read = ops.cumsum(valid, axis=-1) < size[..., None] + 0.5
    own = valid[..., :1]
    keep = arrived(ops.cast(is_read, size.dtype) * valid * own) * valid * own
    distances = np.arange(valid.shape[-1])
    # The maximum of an empty batch needs an initial value.
    waited = keep * ops.cast(distances, size.dtype)
    return ops.max(waited, axis=-1, initial=0)


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
    read = ops.sum(keep, axis=-1, keepdims=True)
    # The first valid position has weight 1, so only an empty field is below.
    mean = keep / ops.where(read > 0, read, ops.ones_like(read))
    mean = ops.cast(mean, first.dtype)
    keep = ops.cast(keep, first.dtype)
    state = first
    total = mean[:, :1] * state
    for i in range(1, keep.shape[-1]):
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
    """
    states = [activation(offsets[0])]
    for i, offset in enumerate(offsets[1:], start=1):
        new = activation(offset + ops.matmul(states[-1], recurrent_kernel))
        states.append(ops.where(validity[..., i : i + 1], new, states[-1]))
    return states


def forget(
    gate: Tensor, states: Sequence[Tensor], gated: Sequence[int]
) -> list[Tensor]:
    r"""Gates states, $h^f_{t-1} = F_t \odot h_{t-1}$ (eq. 4).

    The gate $F_t$ `(batch, width)` is as wide as the `gated` ones of the
    states together. All states `(batch, size)` are returned, in their order.
    """
    states = list(states)
    start = 0
    for i in gated:
        end = start + states[i].shape[-1]
        states[i] = gate[:, start:end] * states[i]
        start = end
    return states


class FieldEquations:
    """Equations 1 to 8, as one call applies them.

    The weights have the dtypes they are used in: that of the data, and for
    sizes float32 or wider.

    Args:
        cell: The built `RFCell`.
        training: Whether the estimator acts; else sizes are hard.
    """

    def __init__(self, cell: Any, training: bool):
        self.cell = cell
        self.training = training

        def data(variable: keras.Variable) -> Tensor:
            return ops.cast(variable, cell.compute_dtype)

        def score(variable: keras.Variable) -> Tensor:
            return ops.cast(variable, cell.score_dtype)

        # W_m, b_m, W_F, b_F, and a, how much the gate may forget; None: all.
        self.kernel = data(cell.field_kernel)
        self.bias = data(cell.field_bias)
        self.forget_kernel = data(cell.forget_kernel)
        self.forget_bias = data(cell.forget_bias)
        self.forget_strength = None
        if cell.forget_strength is not None:
            self.forget_strength = data(cell.forget_strength)
        # As a tensor: the gradient of a step within a loop reads no variable.
        self.temperature = tf.convert_to_tensor(cell.temperature)
        if cell.max_size == 1:
            return
        # U_m; of the size scores W_sx and W_sh, or of the stop logits w, v
        # repeated for each, and b.
        self.recurrent_kernel = data(cell.field_recurrent_kernel)
        if cell.size_from == "input":
            self.size_kernel = score(cell.size_kernel)
            self.size_recurrent_kernel = score(cell.size_recurrent_kernel)
        else:
            self.size_kernel = score(cell.stop_kernel)
            self.size_recurrent_kernel = ops.repeat(
                score(cell.stop_recurrent_kernel), cell.max_size - 1, axis=1
            )
            self.size_bias = score(cell.stop_bias)

    @property
    def reads_softly(self) -> bool:
        """Whether the inner network itself reads softly (eq. 6).

        Where the size comes from the inner states, these are read whole, and
        the relaxed sample mixes summaries.
        """
        return (
            self.training
            and self.cell.estimator == "relaxed"
            and self.cell.size_from == "input"
        )

    def offsets(self, inputs: Tensor) -> Tensor:
        """$W_m x + b_m$ (eq. 2)."""
        product = numerics.product(inputs, self.kernel)
        return product + self.bias

    def states(
        self, offsets: Sequence[Tensor], validity: Tensor
    ) -> list[Tensor]:
        """$m_1..m_S$ of whole windows (eq. 2)."""
        return inner_states(
            offsets,
            self.recurrent_kernel,
            validity,
            self.cell.activation,
        )

    def summaries(
        self, states: Sequence[Tensor], validity: Tensor
    ) -> list[Tensor]:
        """Summaries of fields of each size: entry s sums up $m_1..m_s$.

        That is the mean of the valid ones, or $m_s$. States are S tensors
        `(..., units)`, the validity is boolean, `(..., S)`, and broadcasts.
        """
        if self.cell.summary == "last":
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

    def size_scores(self, current: Tensor, states: Sequence[Tensor]) -> Tensor:
        """The part of the size scores that does not depend on $h_{t-1}$.

        Args:
            current: $x_t$.
            states: $m_1..m_S$; read for `size_from="field"` alone.

        Returns:
            $W_{sx} x_t$, S wide (eq. 1); or $w m_i + b_i$, S - 1 wide.
        """
        kernel = self.size_kernel
        if self.cell.size_from == "input":
            return numerics.product(ops.cast(current, kernel.dtype), kernel)
        products = [
            numerics.product(ops.cast(state, kernel.dtype), kernel)
            for state in states[:-1]
        ]
        return ops.concatenate(products, axis=-1) + self.size_bias

    def position_mask(self, validity: Tensor) -> categorical.ValueMask | None:
        """Where a field can end; None for eq. 1, which does not need it."""
        if self.cell.size_from == "input":
            return None
        dtype = self.size_kernel.dtype
        return categorical.value_mask(validity, dtype)

    def size_logits(
        self, scores: Tensor, mask: categorical.ValueMask | None
    ) -> Tensor:
        """Logits of the sizes from their scores, $h_{t-1}$'s part included."""
        if mask is None:
            return scores
        return categorical.log_probabilities(scores, mask)

    def sample(self, logits: Tensor) -> Tensor:
        """Draws sizes, relaxed (eq. 7) or one-hot, `(batch, S)`."""
        return categorical.sample(
            finite(logits),
            self.temperature,
            self.cell.estimator if self.training else "reinforce",
            self.cell.seed_generator,
        )

    def select(self, logits: Tensor, noise: Tensor | None) -> Tensor:
        """Selects sizes by Gumbel noise that was drawn before; None: no draw.

        With noise, as `sample` does.
        """
        scores = finite(logits)
        if noise is None and self.cell.size_from == "field":
            return categorical.first_stop(scores)
        scores = scores if noise is None else scores + noise
        if not self.training:
            return categorical.hard_one_hot(scores)
        return categorical.draw(scores, self.temperature, self.cell.estimator)

    def selected(
        self, selection: Tensor, summaries: Sequence[Tensor]
    ) -> Tensor:
        r"""The summary of the selected size, `(batch, field_units)`.

        In training, unless sizes are learned by policy gradient, it is
        $\sum_i I_i n_i$, with a gradient to the selection. Else summaries that
        are not selected have no effect, even if infinite.
        """
        result, *further = summaries
        if self.training and self.cell.estimator != "reinforce":
            selection = ops.cast(selection, result.dtype)
            result = selection[:, :1] * result
            for i, summary in enumerate(further, start=1):
                result = result + selection[:, i : i + 1] * summary
            return result
        # Split before they are compared: LiteRT does not split booleans.
        _, *shares = ops.split(selection, len(summaries), axis=1)
        for share, summary in zip(shares, further):
            result = ops.where(share > 0.5, summary, result)
        return result

    def gate(self, summary: Tensor) -> Tensor:
        """$F_t$ (eq. 3), or $1 - a (1 - F_t)$."""
        product = numerics.product(summary, self.forget_kernel)
        pre_activation = product + self.forget_bias
        if self.forget_strength is None:
            return ops.sigmoid(pre_activation)
        return 1 - self.forget_strength * ops.sigmoid(-pre_activation)
