"""Layers that decide: what each does with its decisions."""

import math
from typing import Any
from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from keras_seqmech.core import checks
from keras_seqmech.core.decisions import choices
from keras_seqmech.core.decisions import reports
from keras_seqmech.core.decisions.statistics import DecisionStatistics
from keras_seqmech.core.numerics import score_dtype
from keras_seqmech.typing import Tensor


class Ramp(NamedTuple):
    r"""A value that changes over a part of training.

    $$v = v_1 + (v_0 - v_1)\,(1 - s)^p$$

    with s the share of that part which has passed. For p = 1 the value changes
    linearly, for larger p fast at first and then more and more slowly (as in
    `keras.optimizers.schedules.PolynomialDecay`).

    Attributes:
        initial: $v_0$, its value until `begin`.
        final: $v_1$, its value from `end` on.
        begin: Share of training at which it begins to change, from 0 to 1.
        end: Share at which it arrives.
        power: p, above 0.
    """

    initial: float
    final: float
    begin: float = 0.0
    end: float = 1.0
    power: float = 1.0

    def __call__(self, share: float) -> float:
        """The value at a share of training."""
        if share >= self.end:
            return self.final
        passed = max(0.0, share - self.begin) / (self.end - self.begin)
        left = (1 - passed) ** self.power
        return self.final + (self.initial - self.final) * left


# A weight of what is read beyond that of float16 counts as this one.
LARGEST_WEIGHT = 65504.0

# What a layer that decides declares as its `decision_ramps`: how
# `ExploreThenCommit` schedules its temperature and the weights of its auxiliary
# losses, by name. Those without a ramp are left alone.
EXPLORE_THEN_COMMIT = {
    "entropy": Ramp(1.0, 0.0, 0.0, 0.6, power=3),
    "reading": Ramp(0.0, 0.02, 0.2, 0.6),
    "indecision": Ramp(0.0, 0.1, 0.6, 0.8),
    "temperature": Ramp(1.0, 0.5, 0.6, 0.9),
}


class TakesWeight(keras.layers.Layer):
    """A layer that may be given the weight of what is read.

    Attributes:
        takes_weight: Whether it was built with one.
    """

    takes_weight: bool = False

    @property
    def score_dtype(self) -> str:
        """The dtype of logits, probabilities, decisions and noise."""
        return score_dtype(self.compute_dtype)

    def add_weight_kernel(self, weight_shape: Any) -> None:
        """Adds the scalar kernel of the weight, if one is given."""
        self.takes_weight = weight_shape is not None
        if self.takes_weight:
            self.weight_kernel = self.add_weight(
                name="weight_kernel",
                shape=(),
                initializer="zeros",
                autocast=False,
            )

    def add_log_weight(self, logits: Tensor, weight: Tensor | None) -> Tensor:
        """Logits `(batch, time)` and the kernel times the weight's log."""
        if weight is None:
            return logits
        slope = ops.cast(self.weight_kernel, logits.dtype)
        return logits + slope * as_log_weight(weight, logits.dtype)[:, None]

    def check_weight(self, weight: Any, sequence: Tensor) -> Tensor | None:
        """The weight `(batch,)` of a call, or None.

        Another shape is refused, NaN and what is below 0, and a weight where
        there was none before.
        """
        if weight is not None and not hasattr(weight, "shape"):
            weight = np.array(weight)
        if self.built and (weight is None) == self.takes_weight:
            raise ValueError(
                "Argument `weight` must be a tensor or array in all calls, or "
                "None in all, and be given to the layer itself: a "
                "`Bidirectional` or `KeepMask` around it takes none. "
                f"Received: weight={weight!r}, in a layer that was built "
                f"{'with' if self.takes_weight else 'without'} one"
            )
        if weight is None:
            return None
        shape = tuple(weight.shape)
        if len(shape) != 1 or len({*shape, sequence.shape[0]} - {None}) > 1:
            raise ValueError(
                "Argument `weight` must be of shape (batch,), one number an "
                "example, such as from `ReadingWeight`. Received: "
                f"weight.shape={shape}"
            )
        if isinstance(weight, keras.KerasTensor):
            return weight
        weight = ops.convert_to_tensor(weight)
        weight = checks.assert_not_negative("weight", weight)
        return checks.assert_rows("weight", weight, sequence)


class Decides(TakesWeight):
    """A layer that decides.

    It has an `estimator` and `penalty_weights`, a `PenaltyWeights`.
    """

    statistics: DecisionStatistics | None = None

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """The layer's metrics but for `statistics`, which lists its own.

        `keras.Model.metrics` asks every layer at any depth, and each answers
        with those of the layers within it, too: they would be listed twice.
        """
        if self.statistics is None:
            return super().metrics
        own = {id(metric) for metric in self.statistics.metrics}
        return [x for x in super().metrics if id(x) not in own]

    @property
    def ramps(self) -> dict[str, Ramp]:
        """Ramps of `ExploreThenCommit` where no weight is given."""
        return EXPLORE_THEN_COMMIT

    @property
    def decision_ramps(self) -> dict[str, Ramp]:
        """Ramps of `ExploreThenCommit` for the layer.

        With a given weight, `reading` ends at 1.
        """
        if not self.takes_weight:
            return self.ramps
        reading = self.ramps["reading"]._replace(final=1.0)
        return {**self.ramps, "reading": reading}

    def conclude(
        self: Any,
        decision: choices.Decision,
        mask: Tensor | None,
        weight: Tensor | None,
        training: bool,
        *counted: Any,
    ) -> None:
        """Learns from what a call decided, in training, and counts it.

        Args:
            decision: What was decided.
            mask: Boolean mask of the real steps, `(batch, time)`; None if all
                are.
            weight: Tensor `(batch,)`, each example's weight of what is read,
                or None.
            training: Whether the auxiliary losses are added.
            *counted: Further arguments of `count`, which is called if
                statistics are kept.
        """
        if training:
            self.learn(decision, mask, weight)
        if self.statistics is not None:
            self.count(decision, mask, *counted)

    def learn(
        self: Any,
        decision: choices.Decision,
        mask: Tensor | None,
        weight: Tensor | None = None,
    ) -> None:
        """Adds the auxiliary losses, and reports the log-probabilities."""
        if weight is not None:
            weight = held_weight(weight)
        reading, uncertainty = self.penalty_weights.losses(
            decision, mask, weight
        )
        # With one value nothing is decided, so a missing report loses nothing.
        decides = decision.values > 1
        if decides:
            losses = reading + uncertainty
            self.penalty_weights.add_to(self, losses)
            if self.statistics is not None:
                self.statistics.count_penalty(losses)
        is_drawn = decision.log_probability is not None
        if is_drawn and (decides or reports.current() is not None):
            total = ops.sum(decision.log_probability, axis=1)
            reports.report_log_probability(self, total, reading)


class DecidesSteps(Decides):
    """A layer that decides at each step, yes or no.

    Attributes:
        inferences: What its `inference` may be.
    """

    inferences: tuple[str, ...] = choices.GATE_INFERENCES

    @property
    def inference(self) -> str:
        """The mode of inference. Assign to it to change it.

        A model's next call follows it. What was traced before stays as it was:
        after a `predict`, call `model.make_predict_function(force=True)`, after
        an `evaluate` `model.make_test_function(force=True)`.
        """
        return self._inference

    @inference.setter
    def inference(self, inference: str) -> None:
        self._inference = checks.check_choice(
            "inference", inference, self.inferences
        )

    def count(
        self: Any, decision: choices.Decision, mask: Tensor | None
    ) -> None:
        """Counts the decisions of a batch."""
        # As at inference: drawn gates differ at equal probabilities, too.
        choice, _ = choices.open_gates(decision.probabilities, self.inference)
        self.statistics(decision, choice, mask)


def held_weight(weight: Tensor) -> Tensor:
    """The weight from 0 to `LARGEST_WEIGHT`; 0 for NaN, which XLA lets by."""
    weight = ops.where(weight > 0, weight, ops.zeros_like(weight))
    return ops.minimum(weight, LARGEST_WEIGHT)


def as_log_weight(weight: Tensor, dtype: str) -> Tensor:
    r"""$\log_{10} 100 w$, as decisions see it: -1 to 1 for usual weights."""
    weight = ops.maximum(held_weight(ops.cast(weight, dtype)), 1e-8)
    return ops.log(100 * weight) / math.log(10)
