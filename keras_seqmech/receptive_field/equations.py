r"""The equations of an adaptive receptive field, and its options.

Notation, for one step t: window positions $i = 1..S$, selection $I$ (one-hot
or relaxed) over sizes, validity $v_i$ (1 where the position exists and is not
masked). `RFCell` applies the equations to one window of each row, the fast
loop to all steps at once: the leading axes of all tensors are free, unless
noted.

Source: "An Informative Adaptive Receptive Field Model for Recurrent Neural
Networks": equation 1 (`FieldEquations.size_logits`), 2 (`inner_states`), 3
(`FieldEquations.gate`), 4 (`forget`), 6 (`soft_summary`) and 8
(`keep_weights`). Sizes are drawn, equation 7, in
`keras_seqmech.core.decisions.categorical`. The fast loop has equations 3 and 6
once more, with their products hoisted.
"""

import dataclasses
from collections.abc import Callable
from collections.abc import Sequence
from functools import partial
from typing import Any
from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from keras_seqmech.core import checks
from keras_seqmech.core import numerics
from keras_seqmech.core.decisions import categorical
from keras_seqmech.core.decisions.sampling import ESTIMATORS
from keras_seqmech.core.numerics import finite
from keras_seqmech.typing import Tensor

SUMMARIES = ("mean", "last")
GATED = ("memory", "output", "all")
SIZE_SOURCES = ("input", "field")


@dataclasses.dataclass(frozen=True)
class FieldOptions:
    """The arguments of `RFCell` besides the cell, as objects.

    `checked` makes them from what users give; `RFCell` describes them.
    """

    max_size: int
    field_units: int | None
    summary: str
    estimator: str
    temperature: float
    activation: Any
    gated: str
    size_from: str
    unit_forget_bias: bool
    forget_strength: float | None
    kernel_initializer: Any
    recurrent_initializer: Any
    kernel_regularizer: Any
    sample_at_inference: bool
    seed: int | None

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Names of the arguments."""
        return tuple(field.name for field in dataclasses.fields(cls))

    @classmethod
    def checked(cls, **arguments: Any) -> "FieldOptions":
        """Checks arguments and gets the objects that they name.

        Raises:
            ValueError: If one is not allowed.
        """
        rules: dict[str, Callable[[str, Any], Any]] = {
            "max_size": checks.check_positive_int,
            "field_units": _check_units,
            "summary": partial(checks.check_choice, allowed=SUMMARIES),
            "estimator": partial(checks.check_choice, allowed=ESTIMATORS),
            "temperature": checks.check_positive,
            "activation": check_activation,
            "gated": partial(checks.check_choice, allowed=GATED),
            "size_from": partial(checks.check_choice, allowed=SIZE_SOURCES),
            "unit_forget_bias": checks.check_bool,
            "forget_strength": _check_strength,
            "kernel_initializer": checks.get_initializer,
            "recurrent_initializer": checks.get_initializer,
            "kernel_regularizer": checks.get_regularizer,
            "sample_at_inference": checks.check_bool,
        }
        made = {
            name: check(name, arguments[name]) for name, check in rules.items()
        }
        return cls(**{**arguments, **made})

    def get_config(self) -> dict[str, Any]:
        """The arguments as plain Python objects."""
        values = {name: getattr(self, name) for name in self.names()}
        return {
            **values,
            "activation": keras.activations.serialize(self.activation),
            "kernel_initializer": keras.initializers.serialize(
                self.kernel_initializer
            ),
            "recurrent_initializer": keras.initializers.serialize(
                self.recurrent_initializer
            ),
            "kernel_regularizer": keras.regularizers.serialize(
                self.kernel_regularizer
            ),
        }


def _check_units(name: str, value: Any) -> int | None:
    return None if value is None else checks.check_positive_int(name, value)


def _check_strength(name: str, value: Any) -> float | None:
    return None if value is None else checks.check_share(name, value)


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

    Returns:
        Tensor `(..., S)`, between 0 and 1.
    """
    size = selection.shape[-1]
    tails = np.tril(np.ones((size, size)))
    return ops.matmul(selection, ops.cast(tails, selection.dtype)) * validity


def arrived(keep: Tensor) -> Tensor:
    r"""What has arrived when a step leaves, in order.

    $$k_{t,i} = 1 - (1 - q_{t,i})(1 - k_{t-1,i+1})$$

    Args:
        keep: Tensor `(batch, time, S)`: q, how much of each position a step
            asks for.

    Returns:
        Tensor of that shape: k, which includes what steps before asked for.
        Of probabilities it is the probability, if steps choose independently.
    """
    *asked, last = ops.split(keep, keep.shape[-1], axis=-1)
    result = [last]
    for own in reversed(asked):
        before = ops.pad(result[0][:, :-1], ((0, 0), (1, 0), (0, 0)))
        result.insert(0, 1 - (1 - own) * (1 - before))
    return ops.concatenate(result, axis=-1)


def emission_delays(size: Tensor, validity: Tensor) -> Tensor:
    """Steps that each step waits for in a stream, in order.

    Args:
        size: Tensor `(batch, time)`: positions really read.
        validity: Boolean tensor `(batch, time, S)`: which positions are real.

    Returns:
        Tensor of the shape and dtype of `size`, 0 at masked steps.
    """
    valid = ops.cast(validity, size.dtype)
    is_read = ops.cumsum(valid, axis=-1) < size[..., None] + 0.5
    own = valid[..., :1]
    keep = arrived(ops.cast(is_read, size.dtype) * valid * own) * valid * own
    distances = np.arange(valid.shape[-1])
    # The maximum of an empty batch needs an initial value.
    waited = keep * ops.cast(distances, size.dtype)
    return ops.max(waited, axis=-1, initial=0)


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


class FieldWeights(NamedTuple):
    """The weights of a field.

    Attributes:
        kernel: $W_m$.
        bias: $b_m$.
        forget_kernel: $W_F$.
        forget_bias: $b_F$.
        recurrent_kernel: $U_m$. This and what follows is None where S is 1.
        size_kernel: Kernel of the size scores, $W_{sx}$, or w of the stop
            logits.
        size_recurrent_kernel: $W_{sh}$, or v repeated for each stop logit.
        size_bias: b of the stop logits; None for equation 1.
        forget_strength: a, how much the gate may forget; None for all.
    """

    kernel: Tensor
    bias: Tensor
    forget_kernel: Tensor
    forget_bias: Tensor
    recurrent_kernel: Tensor = None
    size_kernel: Tensor = None
    size_recurrent_kernel: Tensor = None
    size_bias: Tensor = None
    forget_strength: Tensor = None


@dataclasses.dataclass(frozen=True)
class FieldEquations:
    """Equations 1 to 8, as one call applies them.

    Attributes:
        options: The options of the `RFCell`.
        weights: Its weights in the dtypes they are used in: that of the data,
            and for sizes float32 or wider.
        temperature: Temperature of the relaxed sample.
        training: Whether the estimator acts; else sizes are hard.
    """

    options: FieldOptions
    weights: FieldWeights
    temperature: Tensor
    training: bool

    @property
    def reads_softly(self) -> bool:
        """Whether the inner network itself reads softly (eq. 6).

        Where the size comes from the inner states, these are read whole, and
        the relaxed sample mixes summaries.
        """
        return (
            self.training
            and self.options.estimator == "relaxed"
            and self.options.size_from == "input"
        )

    @property
    def mixes(self) -> bool:
        """Whether the selection gets a gradient through the summaries."""
        return self.training and self.options.estimator != "reinforce"

    def offsets(self, inputs: Tensor) -> Tensor:
        """$W_m x + b_m$ (eq. 2)."""
        product = numerics.product(inputs, self.weights.kernel)
        return product + self.weights.bias

    def states(
        self, offsets: Sequence[Tensor], validity: Tensor
    ) -> list[Tensor]:
        """$m_1..m_S$ of whole windows (eq. 2)."""
        return inner_states(
            offsets,
            self.weights.recurrent_kernel,
            validity,
            self.options.activation,
        )

    def summaries(
        self, states: Sequence[Tensor], validity: Tensor
    ) -> list[Tensor]:
        """What a field of each size has read."""
        return run_summaries(states, validity, self.options.summary)

    def size_scores(self, current: Tensor, states: Sequence[Tensor]) -> Tensor:
        """The part of the size scores that does not depend on $h_{t-1}$.

        Args:
            current: $x_t$.
            states: $m_1..m_S$; read for `size_from="field"` alone.

        Returns:
            $W_{sx} x_t$, S wide (eq. 1); or $w m_i + b_i$, S - 1 wide.
        """
        kernel = self.weights.size_kernel
        if self.options.size_from == "input":
            return numerics.product(ops.cast(current, kernel.dtype), kernel)
        products = [
            numerics.product(ops.cast(state, kernel.dtype), kernel)
            for state in states[:-1]
        ]
        return ops.concatenate(products, axis=-1) + self.weights.size_bias

    def position_mask(self, validity: Tensor) -> categorical.ValueMask | None:
        """Where a field can end; None for eq. 1, which does not need it."""
        if self.options.size_from == "input":
            return None
        dtype = self.weights.size_kernel.dtype
        return categorical.value_mask(validity, dtype)

    def size_logits(
        self, scores: Tensor, mask: categorical.ValueMask | None
    ) -> Tensor:
        """Logits of the sizes from their scores, $h_{t-1}$'s part included."""
        if mask is None:
            return scores
        return categorical.log_probabilities(scores, mask)

    def sample(
        self, logits: Tensor, seed_generator: keras.random.SeedGenerator
    ) -> Tensor:
        """Draws sizes, relaxed (eq. 7) or one-hot, `(batch, S)`."""
        estimator = self.options.estimator if self.training else "reinforce"
        return categorical.sample(
            finite(logits), self.temperature, estimator, seed_generator
        )

    def select(self, logits: Tensor, noise: Tensor | None) -> Tensor:
        """Selects sizes by noise that was drawn before, as `sample` does.

        Args:
            logits: Tensor `(batch, S)`.
            noise: Gumbel noise of that shape, or None for no draw.

        Returns:
            Tensor `(batch, S)`.
        """
        scores = finite(logits)
        if noise is None and self.options.size_from == "field":
            return categorical.first_stop(scores)
        scores = scores if noise is None else scores + noise
        if not self.training:
            return categorical.hard_one_hot(scores)
        return categorical.draw(
            scores, self.temperature, self.options.estimator
        )

    def selected(
        self, selection: Tensor, summaries: Sequence[Tensor]
    ) -> Tensor:
        """The summary of the selected size, `(batch, field_units)`."""
        combine = mix if self.mixes else pick
        return combine(selection, summaries)

    def gate(self, summary: Tensor) -> Tensor:
        """$F_t$ (eq. 3), or $1 - a (1 - F_t)$."""
        product = numerics.product(summary, self.weights.forget_kernel)
        pre_activation = product + self.weights.forget_bias
        if self.weights.forget_strength is None:
            return ops.sigmoid(pre_activation)
        return 1 - self.weights.forget_strength * ops.sigmoid(-pre_activation)
