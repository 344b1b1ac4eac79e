r"""An adaptive receptive field: equations 1 to 8, and the step they make.

Notation, for one step t: window positions $i = 1..S$, selection $I$ (one-hot
or relaxed) over sizes, validity $v_i$ (1 where the position exists and is not
masked). In paper's order:

| equation | here | when |
| --- | --- | --- |
| 1, sizes | `size_scores`; `size_logits` | hoisted; with the state |
| 2, inner network | `inner_states` | hoisted if sizes are hard |
| 3, gate | `field_step` | with the state |
| 4, forget | `forget` | with the state |
| 5, cell | `keras_seqmech.core.cells` | with the state |
| 6, soft inner network | `SoftReading` | its first two states hoisted |
| 7, draw | `Field.select`, `Field.sample` | with the state |
| 8, mask | `keep_weights` | with the state |

"Hoisted" is what does not depend on the state before the step: `hoist` computes
it, for one window of each row in `RFCell` and in a stream, for all steps at
once in the fast loop. `field_step` does the rest, one step at a time. The
leading axes of all tensors are free, unless noted.

Source: "An Informative Adaptive Receptive Field Model for Recurrent Neural
Networks".
"""

import dataclasses
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from keras_seqmech.core import checks
from keras_seqmech.core import numerics
from keras_seqmech.core.decisions import choices
from keras_seqmech.core.loop import Constant
from keras_seqmech.core.loop import Product
from keras_seqmech.core.numerics import finite
from keras_seqmech.typing import Tensor

SIZE_SOURCES = ("input", "field")


@dataclasses.dataclass(frozen=True)
class Field:
    """The settings and weights of an adaptive field, as one call uses them.

    Weights have the dtypes they are used in: that of the data, and for sizes
    float32 or wider. Those of sizes and of the inner network are None where
    `max_size` is 1.

    Attributes:
        max_size: The largest size S.
        size_from: What sizes are chosen from, `"input"` or `"field"`.
        summary: `"mean"` or `"last"`.
        estimator: How training passes gradients to the sizes.
        training: Whether the estimator acts; else sizes are hard.
        activation: $g$.
        temperature: The relaxed sample's temperature.
        kernel: $W_m$.
        bias: $b_m$.
        forget_kernel: $W_F$.
        forget_bias: $b_F$.
        recurrent_kernel: $U_m$.
        size_kernel: $W_{sx}$, or $w$ of stop logits.
        size_recurrent_kernel: $W_{sh}$, or $v$ of stop logits in each column.
        size_bias: $b$ of stop logits; None for eq. 1.
        weight_kernel: Kernel of the weight of what is read, or None.
    """

    max_size: int
    size_from: str
    summary: str
    estimator: str
    training: bool
    activation: Callable[[Tensor], Tensor]
    temperature: Tensor
    kernel: Tensor
    bias: Tensor
    forget_kernel: Tensor
    forget_bias: Tensor
    recurrent_kernel: Tensor = None
    size_kernel: Tensor = None
    size_recurrent_kernel: Tensor = None
    size_bias: Tensor = None
    weight_kernel: Tensor = None

    @property
    def reads_softly(self) -> bool:
        """True if the inner network itself reads softly (eq. 6).

        Where the size comes from the inner states, these are read whole, and
        the relaxed sample mixes summaries.
        """
        return (
            self.training
            and self.estimator == "relaxed"
            and self.size_from == "input"
        )

    def offsets(self, inputs: Tensor) -> Tensor:
        """$W_m x + b_m$ (eq. 2)."""
        return numerics.product(inputs, self.kernel) + self.bias

    def select(self, logits: Tensor, noise: Tensor | None) -> Tensor:
        """Selects sizes by Gumbel noise that was drawn before; None: no draw.

        With noise, relaxed (eq. 7) or one-hot, as the estimator says.
        """
        scores = finite(logits)
        if noise is None and self.size_from == "field":
            return choices.first_stop(scores)
        scores = scores if noise is None else scores + noise
        if not self.training:
            return choices.hard_one_hot(scores)
        return choices.sizes_of_scores(scores, self.temperature, self.estimator)

    def sample(
        self, logits: Tensor, seed_generator: keras.random.SeedGenerator
    ) -> Tensor:
        """Selects sizes as `select` does with noise, and draws it."""
        estimator = self.estimator if self.training else "reinforce"
        return choices.draw_sizes(
            finite(logits), self.temperature, estimator, seed_generator
        )


# What does not depend on the state: hoisted out of the loop.


class SoftReading(NamedTuple):
    r"""Operands of a soft field's inner network at a step (eq. 6).

    $$m_{i+1} = (1 - \mathrm{mask}_{i+1})\, c_{i+1}
               + \mathrm{mask}_{i+1}\, m_i, \quad
      c_{i+1} = g(z_{i+1} + U_m m_i), \quad m_0 = 0$$

    No mask touches $m_1$, so that $c_2$ is known beforehand; and $m_2$ lies
    between $m_1$ and $c_2$, and so does its product with $U_m$.

    Attributes:
        first: $m_1$.
        second: $c_2$.
        third_offset: $z_3 + U_m m_1$; None where S is below 3.
        third_slope: $U_m c_2 - U_m m_1$, likewise.
        later: For each i from 4 to S, a `Product` of $U_m$ and $z_i$.
        validity: Constant `(..., S)`: 1 where a position is real, else 0.
    """

    first: Any
    second: Any
    third_offset: Any
    third_slope: Any
    later: list[Any]
    validity: Any


class FieldOperands(NamedTuple):
    """Operands of a field at a step, hoisted; see `hoist`.

    Attributes:
        gate: The gate, where S is 1 and it is all that there is; else None.
        size: `Product` of $h_{t-1}$, plus the hoisted part of size scores.
        exist: `choices.ValueMask` of `Constant`s; None for eq. 1.
        noise: `Constant`, Gumbel noise `(..., S)`; None where none was drawn.
        reading: A `SoftReading`; or what a field of each size has read.
        forget: `Product` of what was read, plus $b_F$.
    """

    gate: Any = None
    size: Any = None
    exist: Any = None
    noise: Any = None
    reading: Any = None
    forget: Any = None


def inner_states(
    offsets: Sequence[Tensor],
    recurrent_kernel: Tensor | None,
    validity: Tensor,
    activation: Callable[[Tensor], Tensor],
) -> list[Tensor]:
    r"""Reads whole windows (eq. 2).

    $$m_{i} = g(z_i + U_m m_{i-1}), \quad m_0 = 0,$$

    carried on unchanged over later positions that are not valid.

    Args:
        offsets: S tensors `(..., units)`, $z_i = W_m x_{t+i-1} + b_m$.
        recurrent_kernel: $U_m$, `(units, units)`; None for one offset.
        validity: Boolean tensor `(..., S)`; broadcasts.
        activation: $g$.
    """
    states = [activation(offsets[0])]
    for i, offset in enumerate(offsets[1:], start=1):
        new = activation(offset + ops.matmul(states[-1], recurrent_kernel))
        states.append(ops.where(validity[..., i : i + 1], new, states[-1]))
    return states


def summaries(
    field: Field, states: Sequence[Tensor], validity: Tensor
) -> list[Tensor]:
    """Summaries of fields of each size: entry s sums up $m_1..m_s$.

    That is the mean of the valid ones, or $m_s$. States are S tensors `(...,
    units)`, the validity is boolean, `(..., S)`, and broadcasts.
    """
    if field.summary == "last":
        return list(states)
    found = [states[0]]
    total = states[0]
    count = ops.ones_like(validity[..., :1], dtype="float32")
    for i, state in enumerate(states[1:], start=1):
        valid = validity[..., i : i + 1]
        total = total + ops.cast(valid, state.dtype) * state
        count = count + ops.cast(valid, count.dtype)
        found.append(total / ops.cast(count, state.dtype))
    return found


def size_scores(
    field: Field,
    current: Tensor,
    states: Sequence[Tensor],
    log_weight: Tensor | None = None,
) -> Tensor:
    """The part of the size scores that does not depend on $h_{t-1}$.

    Args:
        field: The field.
        current: $x_t$.
        states: $m_1..m_S$; read for `size_from="field"` alone.
        log_weight: That of `hoist`.

    Returns:
        $W_{sx} x_t$, S wide (eq. 1); or $w m_i + b_i$, S - 1 wide.
    """
    kernel = field.size_kernel
    if field.size_from == "input":
        scores = numerics.product(ops.cast(current, kernel.dtype), kernel)
    else:
        products = [
            numerics.product(ops.cast(state, kernel.dtype), kernel)
            for state in states[:-1]
        ]
        scores = ops.concatenate(products, axis=-1) + field.size_bias
    if log_weight is None:
        return scores
    return scores + log_weight * field.weight_kernel


def hoist(
    field: Field,
    current: Tensor,
    offsets: Sequence[Tensor],
    validity: Tensor,
    noise: Tensor | None = None,
    log_weight: Tensor | None = None,
) -> FieldOperands:
    """Computes what does not depend on the state before the step.

    Args:
        field: The field.
        current: $x_t$, `(..., features)`.
        offsets: S tensors `(..., units)`, $z_i = W_m x_{t+i-1} + b_m$.
        validity: Boolean tensor `(..., S)`; broadcasts.
        noise: Gumbel noise `(..., S)` for sizes that are drawn.
        log_weight: The weight of what is read as decisions see it, `(...,
            1)`, or None.
    """
    if field.max_size == 1:
        product = numerics.product(
            field.activation(offsets[0]), field.forget_kernel
        )
        return FieldOperands(gate=ops.sigmoid(product + field.forget_bias))
    states: list[Tensor] = []
    reading: Any = None
    if field.reads_softly:
        reading = _soft_reading(field, offsets, validity)
    else:
        states = inner_states(
            offsets, field.recurrent_kernel, validity, field.activation
        )
        reading = summaries(field, states, validity)
    exist = None
    if field.size_from == "field":
        mask = choices.value_mask(validity, field.size_kernel.dtype)
        exist = choices.ValueMask(*map(Constant, mask))
    scores = size_scores(field, current, states, log_weight)
    return FieldOperands(
        size=Product(field.size_recurrent_kernel, [scores]),
        exist=exist,
        noise=None if noise is None else Constant(noise),
        reading=reading,
        forget=Product(field.forget_kernel, bias=field.forget_bias),
    )


def _soft_reading(
    field: Field, offsets: Sequence[Tensor], validity: Tensor
) -> SoftReading:
    kernel = field.recurrent_kernel
    first = field.activation(offsets[0])
    first_product = numerics.product(first, kernel)
    second = field.activation(offsets[1] + first_product)
    third_offset = third_slope = None
    if field.max_size > 2:
        third_offset = offsets[2] + first_product
        third_slope = numerics.product(second, kernel) - first_product
    return SoftReading(
        first,
        second,
        third_offset,
        third_slope,
        [Product(kernel, [offset]) for offset in offsets[3:]],
        Constant(ops.cast(validity, field.size_kernel.dtype)),
    )


# What depends on the state: a step.


class FieldChoice(NamedTuple):
    """Decision of a field at a step.

    Attributes:
        gate: $F_t$ `(batch, width)`.
        logits: Logits of the sizes, `(batch, S)`.
        selection: What was selected, `(batch, S)`.
    """

    gate: Tensor
    logits: Tensor
    selection: Tensor


def field_step(
    field: Field,
    operands: FieldOperands,
    hidden: Tensor,
    sample: Callable[[Tensor], Tensor] | None = None,
) -> FieldChoice:
    """Chooses a size, reads a field of that size, and makes the gate (eq. 3).

    Args:
        field: The field.
        operands: Those of `hoist`, at one step.
        hidden: $h_{t-1}$, `(batch, units)`.
        sample: Function of logits that draws a selection, where no noise was
            drawn beforehand; None where sizes are not drawn here.
    """
    if operands.gate is not None:
        # There is one size only.
        zeros = ops.zeros_like(operands.gate[:, :1])
        logits = ops.cast(zeros, numerics.score_dtype(zeros.dtype))
        return FieldChoice(operands.gate, logits, logits + 1)
    logits = size_logits(field, operands, hidden)
    if sample is None:
        selection = field.select(logits, operands.noise)
    else:
        selection = sample(logits)
    if field.reads_softly:
        read = _read_softly(field, operands.reading, selection)
    else:
        read = selected(field, operands.reading, selection)
    (pre_activation,) = operands.forget(read)
    return FieldChoice(ops.sigmoid(pre_activation), logits, selection)


def size_logits(
    field: Field, operands: FieldOperands, hidden: Tensor
) -> Tensor:
    """Logits of the sizes (eq. 1), or $\\log p(s = i)$ by stopping."""
    (scores,) = operands.size(ops.cast(hidden, field.size_kernel.dtype))
    if operands.exist is None:
        return scores
    return choices.stop_log_probabilities(scores, operands.exist)


def keep_weights(selection: Tensor, validity: Tensor) -> Tensor:
    r"""Share of each window position that is read, $1 - mask_i$ (eq. 8).

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


def _read_softly(
    field: Field, reading: SoftReading, selection: Tensor
) -> Tensor:
    """Reads a window under a soft mask (eq. 6) and sums it up.

    Returns:
        Tensor `(batch, units)`: $m_S$, or the mean of all $m_i$ weighted by
        how much of each position is kept.
    """
    keep = keep_weights(selection, reading.validity)
    read = ops.sum(keep, axis=-1, keepdims=True)
    # The first valid position has weight 1, so only an empty field is below.
    mean = keep / ops.where(read > 0, read, ops.ones_like(read))
    state = reading.first
    mean, keep = ops.cast(mean, state.dtype), ops.cast(keep, state.dtype)
    total = mean[:, :1] * state
    for i in range(1, field.max_size):
        if i == 1:
            new = reading.second
        elif i == 2:
            slope = keep[:, 1:2] * reading.third_slope
            new = field.activation(reading.third_offset + slope)
        else:
            (pre_activation,) = reading.later[i - 3](state)
            new = field.activation(pre_activation)
        state = state + keep[:, i : i + 1] * (new - state)
        total = total + mean[:, i : i + 1] * state
    return state if field.summary == "last" else total


def selected(
    field: Field, summaries: Sequence[Tensor], selection: Tensor
) -> Tensor:
    r"""The summary of the selected size, `(batch, units)`.

    In training, unless sizes are learned by policy gradient, it is $\sum_i I_i
    n_i$, with a gradient to the selection. Else summaries that are not selected
    have no effect, even if infinite.
    """
    result, *further = summaries
    if field.training and field.estimator != "reinforce":
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


def forget(gate: Tensor, states: Sequence[Tensor], gated: int) -> list[Tensor]:
    r"""Gates one of the states, $h^f_{t-1} = F_t \odot h_{t-1}$ (eq. 4)."""
    states = list(states)
    states[gated] = gate * states[gated]
    return states


def check_activation(name: str, value: Any) -> Any:
    """Gets an activation; refuses one with weights."""
    activation = checks.get_activation(name, value)
    if isinstance(activation, keras.layers.Layer):
        raise ValueError(
            f"Argument `{name}` must be a function without weights, or the "
            f"name of one. Received: {name}={activation!r}"
        )
    return activation
