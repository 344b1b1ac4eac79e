"""The equations of a field over given weights.

`RFCell` applies them to one window of each row, the fast loop to all steps at
once: the leading axes of all tensors are free, unless noted. Reading a window,
equations 2, 6 and 8, is in `keras_seqmech.receptive_field.fields`.
"""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import keras
from keras import ops

from keras_seqmech.core import numerics
from keras_seqmech.core.decisions import categorical
from keras_seqmech.core.numerics import finite
from keras_seqmech.receptive_field import fields
from keras_seqmech.receptive_field.options import FieldOptions
from keras_seqmech.typing import Tensor


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
        return fields.inner_states(
            offsets,
            self.weights.recurrent_kernel,
            validity,
            self.options.activation,
        )

    def summaries(
        self, states: Sequence[Tensor], validity: Tensor
    ) -> list[Tensor]:
        """What a field of each size has read."""
        return fields.run_summaries(states, validity, self.options.summary)

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
        combine = fields.mix if self.mixes else fields.pick
        return combine(selection, summaries)

    def gate(self, summary: Tensor) -> Tensor:
        """$F_t$ (eq. 3), or $1 - a (1 - F_t)$."""
        product = numerics.product(summary, self.weights.forget_kernel)
        pre_activation = product + self.weights.forget_bias
        if self.weights.forget_strength is None:
            return ops.sigmoid(pre_activation)
        return 1 - self.weights.forget_strength * ops.sigmoid(-pre_activation)
