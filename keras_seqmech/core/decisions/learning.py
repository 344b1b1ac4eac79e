"""Layers that decide: what they learn from their decisions, and from what.

In training, a layer adds auxiliary losses, weighed by `DecisionPenalties`, and
reports log-probabilities; `Ramp`s say how its weights change. It may be given
the weight of what is read, and may keep statistics.
"""

import dataclasses
import math
from typing import Any
from typing import NamedTuple

import keras
import tensorflow as tf
from keras import ops

from keras_seqmech.core import checks
from keras_seqmech.core.decisions import choices
from keras_seqmech.core.decisions import reports
from keras_seqmech.core.decisions.statistics import DecisionStatistics
from keras_seqmech.core.layers import add_loss
from keras_seqmech.core.layers import add_scalar
from keras_seqmech.core.layers import batch_mean
from keras_seqmech.core.numerics import score_dtype
from keras_seqmech.typing import Tensor

TARGETS_OF = ("batch", "row", "row_above")
WEIGHTS = ("reading", "target_weight", "entropy", "indecision")


@keras.saving.register_keras_serializable(package="keras_seqmech")
@dataclasses.dataclass(frozen=True)
class DecisionPenalties:
    r"""Auxiliary losses of a layer's decisions: their initial weights.

    In training a layer that decides adds

    $$w_r\,\overline{a} + w_t\,D(\overline{g}, g^*) + w_e\,\overline{c}
      + w_i\,\overline{d},$$

    where a bar is a mean over the real steps of a batch (of each replica's
    part of it, under `tf.distribute`, as Keras averages losses):

    | field | mean of | for sizes | for gates and kept steps |
    | --- | --- | --- | --- |
    | `reading`, $w_r$ | $a$, what is read | size - 1, read ahead | share |
    | `target`, $g^*$ | $g$, what has the target | size | share |
    | `entropy`, $w_e$ | $c$, certainty | log S - entropy | log 2 - entropy |
    | `indecision`, $w_i$ | $d$, indecision | entropy / log S | $4p(1 - p)$ |

    with entropies in nats, and the share of open gates or of kept steps.

    A penalty on what is *read* leaves decisions that are worth it. *Entropy*
    is exploration: without it, decisions settle on the first choice that
    helps, before others have learned to be useful. A penalty on *indecision*,
    late in training, makes decisions hard.

    No term is below 0 but for rounding, so the `loss` in `history` is at least
    that of the task; `val_loss` is without them. Log S stays the reference at
    the end of a sequence, where fields cannot have every size.

    A layer keeps the weights in non-trainable float32 variables of
    `layer.penalty_weights`, named as the fields are here, so that
    `keras_seqmech.ExploreThenCommit` or a `Schedule` changes them without
    retracing; they are kept in saves.

    Args:
        reading: Weight of what is read, at least 0.
        target: Target of the mean: from 1 to `max_size` for sizes, from 0 to
            1 for shares; or None.
        target_weight: Weight of the distance from `target`, at least 0.
        target_of: What has the target. `"batch"`: the mean of the batch, whose
            rows may differ, $D = |\overline{g} - g^*|$. `"row"`: the mean of
            each row, $D$ the mean of $|\overline{g}_i - g^*|$ over rows, each
            weighted by its number of real steps. `"row_above"`: as `"row"`, but
            only what is above the target, $\mathrm{ReLU}(\overline{g}_i -
            g^*)$: for gates, the sparsity term $\beta\,\mathrm{ReLU}(\sum_t b_t
            - \gamma T)$ of "Focused Hierarchical RNNs for Conditional Sequence
            Processing" for $\gamma$ the target and $\beta$ the weight divided
            by the mean number of steps.
        entropy: Weight of the mean certainty, which keeps entropy high; at
            least 0.
        indecision: Weight of the mean indecision, at least 0.

    Raises:
        ValueError: If an argument is not allowed, or there is a
            `target_weight` without a target.

    Example:

    >>> DecisionPenalties(target=0.25, target_weight=1.0).target_of
    'batch'
    """

    reading: float = 0.0
    target: float | None = None
    target_weight: float = 0.0
    target_of: str = "batch"
    entropy: float = 0.0
    indecision: float = 0.0

    def __post_init__(self) -> None:
        numbers = WEIGHTS if self.target is None else (*WEIGHTS, "target")
        for name in numbers:
            checks.check_not_negative(name, getattr(self, name))
        checks.check_choice("target_of", self.target_of, TARGETS_OF)
        if self.target_weight and self.target is None:
            raise ValueError(
                "Argument `target` must be given for `target_weight` to act "
                "on. Received: target=None, "
                f"target_weight={self.target_weight}"
            )

    def get_config(self) -> dict[str, Any]:
        return {
            name: value
            if value is None or name == "target_of"
            else float(value)
            for name, value in dataclasses.asdict(self).items()
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "DecisionPenalties":
        return cls(**config)


def batch_shares(values: Tensor, present: Tensor | None = None) -> Tensor:
    r"""Contribution of each row to the mean over real steps of a batch.

    $B / N \sum_t r_t v_{it}$, $N = \sum_{it} r_{it}$ and B the number of rows:
    the mean of the shares is the mean over real steps.

    Values and `present`, r, are `(batch, time)`: a boolean mask; None if all
    steps are real. Zeros if no step is real.
    """
    if present is None:
        return ops.mean(values, axis=1)
    # A product would keep NaN at masked steps.
    values = ops.where(present, values, ops.zeros_like(values))
    rows = ops.cast(ops.shape(values)[0], values.dtype)
    count = ops.maximum(ops.sum(ops.cast(present, values.dtype)), 1)
    return ops.sum(values, axis=1) * (rows / count)


class PenaltyWeights(keras.layers.Layer):
    """The weights of `DecisionPenalties` as variables of a layer.

    They are attributes named as the fields are, once the layer is built.

    Args:
        penalties: The `DecisionPenalties` that they start from, its
            serialized form, or None for the weights 0.
        least: Least value that a target may have.
        most: Largest value that a target may have.

    Raises:
        ValueError: If `penalties` is not a `DecisionPenalties`, or its target
            is not allowed.
    """

    def __init__(self, penalties: Any, least: float = 0, most: float = 1):
        initial = _deserialized(penalties)
        target = initial.target
        if target is not None and not least <= target <= most:
            raise ValueError(
                f"Argument `penalties` must have a target from {least} to "
                f"{most}, or None. Received: penalties={initial}"
            )
        super().__init__(name="penalty_weights")
        self.initial = initial
        self.target = target

    def build(self, input_shape: Any = None) -> None:
        for name in WEIGHTS:
            setattr(
                self, name, add_scalar(self, name, getattr(self.initial, name))
            )

    @property
    def is_targeted(self) -> bool:
        """True if the distance from a target has a weight above 0 now."""
        if self.target is None:
            return False
        return float(ops.convert_to_numpy(self.target_weight)) > 0

    def losses(
        self,
        decision: choices.Decision,
        present: Tensor | None,
        weight: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Losses of the examples of a batch, with the weights as they are.

        Args:
            decision: What was decided.
            present: That of `batch_shares`.
            weight: Tensor `(batch,)`: factors of `reading`, one an example;
                1 if None.

        Returns:
            Two tensors `(batch,)`, zeros in a batch without a real step: the
            terms of `reading` and `target`, which depend on what was drawn,
            and those of `entropy` and `indecision`.
        """
        amount = decision.weighed
        weights = (ops.cast(getattr(self, x), amount.dtype) for x in WEIGHTS)
        reading, target_weight, entropy, indecision = weights
        # The step itself is not read ahead.
        ahead = amount - 1 if decision.is_size else amount
        loss = reading * batch_shares(ahead, present)
        if weight is not None:
            loss *= ops.cast(weight, loss.dtype)
        if self.target is not None:
            loss += target_weight * self._distance(amount, present)
        uncertainty = indecision * decision.indecision
        uncertainty += entropy * decision.certainty
        return loss, batch_shares(uncertainty, present)

    def add_to(self, layer: keras.layers.Layer, losses: Tensor) -> None:
        """Adds the mean over the batch to the losses of a layer."""
        add_loss(
            layer,
            batch_mean(losses),
            {name: getattr(self, name) for name in WEIGHTS},
            any(getattr(self.initial, name) for name in WEIGHTS),
        )

    def _distance(self, values: Tensor, present: Tensor | None) -> Tensor:
        """Distances of the rows, whose mean is that from the target."""
        target = self.target * batch_shares(ops.ones_like(values), present)
        above = batch_shares(values, present) - target
        if self.initial.target_of == "row":
            return ops.abs(above)
        if self.initial.target_of == "row_above":
            return ops.relu(above)
        # The batch's distance is linear on either side of the target, so that
        # its rows have shares in it.
        return ops.stop_gradient(ops.sign(ops.mean(above))) * above


def _deserialized(penalties: Any) -> DecisionPenalties:
    if penalties is None:
        return DecisionPenalties()
    if isinstance(penalties, dict) and "class_name" in penalties:
        penalties = keras.saving.deserialize_keras_object(penalties)
    if not isinstance(penalties, DecisionPenalties):
        raise ValueError(
            "Argument `penalties` must be a `keras_seqmech.DecisionPenalties` "
            f"or None. Received: penalties={penalties!r}"
        )
    return penalties


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
        return logits + slope * as_log_weight(weight, logits.dtype)

    def check_weight(self, weight: Any, sequence: Tensor) -> Tensor | None:
        """The weight `(batch,)` of a call, or None.

        Another shape is refused, NaN and what is below 0, and a weight where
        there was none before.
        """
        if weight is not None and not hasattr(weight, "shape"):
            weight = checks.as_array("weight", weight)
        if self.built and (weight is None) == self.takes_weight:
            raise ValueError(
                "Argument `weight` must be a tensor or array in all calls, or "
                "None in all, and be given to the layer itself: a wrapper "
                "around it, such as `Bidirectional`, takes none. "
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
        dtype = tf.as_dtype(weight.dtype)
        if not (dtype.is_floating or dtype.is_integer):
            raise ValueError(
                "Argument `weight` must hold real numbers. "
                f"Received: weight.dtype={dtype.name}"
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
        """Counts what a call decided, and learns from it in training.

        It adds the auxiliary losses, and reports the log-probabilities.

        Args:
            decision: What was decided.
            mask: Boolean mask of the real steps, `(batch, time)`; None if all
                are.
            weight: Tensor `(batch,)`, each example's weight of what is read,
                or None.
            training: Whether to learn.
            *counted: Further arguments of `count`, which is called if
                statistics are kept.
        """
        if self.statistics is not None:
            self.count(decision, mask, *counted)
        if not training:
            return
        if weight is not None:
            weight = held_weight(weight)
        reading, uncertainty = self.penalty_weights.losses(
            decision, mask, weight
        )
        # With one value nothing is decided, so a missing report loses nothing.
        decides = decision.values != 1
        if decides:
            losses = reading + uncertainty
            self.penalty_weights.add_to(self, losses)
            if self.statistics is not None:
                self.statistics.count_penalty(losses)
        is_drawn = decision.log_probability is not None
        if is_drawn and (decides or reports.current() is not None):
            total = ops.sum(decision.log_probability, axis=1)
            reports.report_log_probability(self, total, reading)


class HasInference:
    """What decides at inference in one of several modes.

    Attributes:
        inferences: What its `inference` may be.
    """

    inferences: tuple[str, ...]

    @property
    def inference(self) -> str:
        """The mode of inference. Assign to it to change it.

        A model's next call follows it. What was traced before stays as it was:
        after a `predict`, call `model.make_predict_function(force=True)`, after
        an `evaluate`, or a `fit` with validation data,
        `model.make_test_function(force=True)`. Make a `StreamingModel` anew.
        """
        return self._inference

    @inference.setter
    def inference(self, inference: str) -> None:
        self._inference = checks.check_choice(
            "inference", inference, self.inferences
        )


class DecidesSteps(HasInference, Decides):
    """A layer that decides at each step, yes or no."""

    inferences: tuple[str, ...] = choices.GATE_INFERENCES

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


def as_log_weight(weight: Tensor | None, dtype: str) -> Tensor | None:
    r"""$\log_{10} 100 w$, `(batch, 1)`, as decisions see it: -1 to 1 for usual
    weights. None for None."""
    if weight is None:
        return None
    weight = ops.maximum(held_weight(ops.cast(weight, dtype)), 1e-8)
    return ops.log(100 * weight)[:, None] / math.log(10)
