"""Layers that decide: what each does with its decisions."""

import math
from typing import Any

import keras
from keras import ops

from keras_seqmech.core import checks
from keras_seqmech.core.decisions import bernoulli
from keras_seqmech.core.decisions import categorical
from keras_seqmech.core.decisions import reports
from keras_seqmech.core.decisions.decision import Decision
from keras_seqmech.core.decisions.ramps import EXPLORE_THEN_COMMIT
from keras_seqmech.core.decisions.ramps import Ramp
from keras_seqmech.core.decisions.statistics import DecisionStatistics
from keras_seqmech.core.decisions.statistics import KeepsStatistics
from keras_seqmech.typing import Tensor


class TakesWeight(keras.layers.Layer):
    """A layer that may be given the weight of what is read.

    Attributes:
        takes_weight: Whether it was built with one.
    """

    takes_weight: bool = False

    def check_weight(self, weight: Any, sequence: Tensor) -> Tensor | None:
        """The weight `(batch,)` of a call, or None.

        Another shape is refused, and one where there was none before.
        """
        if self.built and (weight is None) == self.takes_weight:
            raise ValueError(
                "Argument `weight` must be given in all calls or never, and to "
                "the layer itself: a `Bidirectional` or `KeepMask` around it "
                f"takes none. Received: weight={weight!r}, in a layer that was "
                f"built {'with' if self.takes_weight else 'without'} one"
            )
        if weight is None:
            return None
        weight = checks.as_tensor(weight)
        shape = tuple(weight.shape)
        if len(shape) != 1 or len({*shape, sequence.shape[0]} - {None}) > 1:
            raise ValueError(
                "Argument `weight` must be of shape (batch,), one number an "
                "example, such as from `ReadingWeight`. Received: "
                f"weight.shape={shape}"
            )
        return checks.assert_rows("weight", weight, sequence)


class Decides(TakesWeight, KeepsStatistics):
    """A layer that decides.

    It has an `estimator` and `penalty_weights`, a `PenaltyWeights`.
    """

    @property
    def ramps(self) -> dict[str, Ramp]:
        """How `ExploreThenCommit` schedules it where no weight is given."""
        return EXPLORE_THEN_COMMIT

    @property
    def decision_ramps(self) -> dict[str, Ramp]:
        """How `ExploreThenCommit` schedules the layer.

        Of a weight that is given, `reading` becomes the whole.
        """
        if not self.takes_weight:
            return self.ramps
        reading = self.ramps["reading"]._replace(final=1.0)
        return {**self.ramps, "reading": reading}

    def learn(
        self: Any,
        decision: Decision,
        present: Tensor | None,
        weight: Tensor | None = None,
    ) -> None:
        """Adds the auxiliary losses, and reports the log-probabilities.

        Args:
            decision: What was decided.
            present: The real steps, `(batch, time)`: a boolean mask, or the
                probability that a step exists; None if all do.
            weight: Tensor `(batch,)`, each example's weight of what is read,
                or None.
        """
        reading, uncertainty = self.penalty_weights.losses(
            decision, present, weight
        )
        # With one value nothing is decided, so a missing report loses nothing.
        decides = decision.values > 1
        if decides:
            self.penalty_weights.add_to(self, reading + uncertainty)
        is_drawn = decision.log_probability is not None
        if is_drawn and (decides or reports.current() is not None):
            total = ops.sum(decision.log_probability, axis=1)
            reports.report_log_probability(self, total, reading)


def as_log_weight(weight: Tensor, dtype: str) -> Tensor:
    r"""$\log_{10} 100 w$, as decisions see it: -1 to 1 for usual weights."""
    weight = ops.maximum(ops.cast(weight, dtype), 1e-8)
    return ops.log(100 * weight) / math.log(10)


class DecidesSizes(Decides):
    """A layer that decides sizes, up to its `max_size`."""

    def keep_statistics(self: Any) -> None:
        """Makes the metrics of `track_statistics=True`."""
        self.statistics = DecisionStatistics(
            self.name,
            "mean_size",
            "size_entropy",
            choices=self.max_size,
            is_size=True,
            name="statistics",
        )

    def count(
        self: Any,
        sizes: Decision,
        validity: Tensor,
        delay: Tensor,
        mask: Tensor | None,
    ) -> None:
        """Counts the sizes of a batch.

        Args:
            sizes: The sizes.
            validity: Boolean tensor `(batch, time, S)`: the real positions.
            delay: Tensor `(batch, time)`: what steps wait for in a stream.
            mask: Boolean tensor `(batch, time)` or None.
        """
        # Truncated windows are excluded; excluding only truncated choices
        # would bias the mean.
        free = ops.all(validity, axis=-1)
        choice = categorical.best(sizes.probabilities)
        self.statistics(sizes, choice, mask, free, delay)


class DecidesSteps(Decides):
    """A layer that decides at each step, yes or no.

    Attributes:
        inferences: What its `inference` may be.
    """

    inferences: tuple[str, ...] = bernoulli.INFERENCES

    @property
    def inference(self) -> str:
        """What inference does. Assign to it to change it.

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
        self: Any, steps: Decision, mask: Tensor | None, **more: Tensor | None
    ) -> None:
        """Counts the decisions of a batch, if statistics are kept.

        `more` are further arguments of the statistics.
        """
        if self.statistics is not None:
            # As at inference: drawn gates differ at equal probabilities, too.
            choice = bernoulli.choose(steps.probabilities, self.inference)
            self.statistics(steps, choice, mask, **more)
