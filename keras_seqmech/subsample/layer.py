"""A shorter sequence of the steps that are likely worth keeping."""

from collections.abc import Sequence
from typing import Any
from typing import TypeAlias

import keras
from keras import ops

from keras_seqmech.core import checks
from keras_seqmech.core import masks
from keras_seqmech.core.decisions import choices
from keras_seqmech.core.decisions import reports
from keras_seqmech.core.decisions.learning import EXPLORE_THEN_COMMIT
from keras_seqmech.core.decisions.learning import DecidesSteps
from keras_seqmech.core.decisions.learning import DecisionPenalties
from keras_seqmech.core.decisions.learning import PenaltyWeights
from keras_seqmech.core.decisions.learning import Ramp
from keras_seqmech.core.decisions.statistics import DecisionStatistics
from keras_seqmech.core.layers import SequenceLayer
from keras_seqmech.core.layers import output_specs
from keras_seqmech.subsample import drawn
from keras_seqmech.subsample import expectation
from keras_seqmech.typing import Size
from keras_seqmech.typing import Tensor

EMISSION = "emission_probabilities"
SUBSAMPLE_ESTIMATORS = ("expectation", "straight_through", "reinforce")


# Outputs `(batch, U, features)` of a call; how many times each step is emitted,
# `(batch, time)`, in expectation or 0 or 1; and the dict of `return_emission`.
Subsampled: TypeAlias = tuple[Tensor, Tensor, dict[str, Tensor]]


class LogitDeviation(keras.metrics.Metric):
    """Standard deviation of the logits of probabilities; 0 without one.

    Probabilities count as between 1e-6 and 1 - 1e-6.
    """

    def __init__(self, name: str):
        super().__init__(name=name, dtype="float64")
        # Number of logits, their sum, and that of their squares.
        self.moments = self.add_variable(
            (3,), "zeros", dtype=self.dtype, name="moments"
        )

    def update_state(self, probabilities: Tensor, real: Tensor | None) -> None:
        """Adds probabilities `(batch, time)`, at real steps."""
        p = ops.clip(ops.cast(probabilities, self.dtype), 1e-6, 1 - 1e-6)
        logits = ops.log(p / (1 - p))
        count = ops.ones_like(p) if real is None else ops.cast(real, self.dtype)
        moments = [ops.sum(count * logits**power) for power in range(3)]
        self.moments.assign(self.moments + ops.stack(moments))

    def result(self) -> Tensor:
        count, total, squares = ops.unstack(self.moments)
        count = ops.maximum(count, 1)
        variance = squares / count - (total / count) ** 2
        return ops.sqrt(ops.maximum(variance, 0))


class _EmissionStatistics(DecisionStatistics):
    """Metrics of kept steps.

    Beside those of all decisions, `<prefix>_length`, how many a row emits, and
    `<prefix>_logit_deviation`, the standard deviation of logits.
    """

    def __init__(self, prefix: str):
        super().__init__(prefix, "kept", "emission_entropy", choices=2)
        self.length = self.mean("length")
        self.logit_deviation = LogitDeviation(f"{prefix}_logit_deviation")

    def call(self, decision: choices.Decision, *counted: Tensor | None) -> None:
        super().call(decision, *counted)
        _, real = counted
        if not self.is_counting:
            return
        self.length.update_state(ops.sum(decision.read, axis=1))
        self.logit_deviation.update_state(decision.probabilities, real)


@keras.saving.register_keras_serializable(package="keras_seqmech")
class ExpectedSubsample(DecidesSteps, SequenceLayer):
    r"""Keeps the steps of a sequence that matter, each with a probability.

    Step n is emitted with probability $e_n$; those emitted are the outputs
    $y_0, y_1, \dots$ With $q_n(m)$ the probability that m of the first n steps
    were emitted,

    $$q_{n+1}(m) = q_n(m)(1 - e_n) + q_n(m - 1) e_n, \quad
      p(y_m = s_n) = e_n q_n(m), \quad y_m = \sum_n p(y_m = s_n) s_n,$$

    where a missing output is the zero vector. These expectations, or steps that
    are drawn or chosen, are what training and inference return.

    Gradients of the expectation vanish for outputs that hardly ever exist, and
    with $e (1 - e)$ where a sigmoid saturates; with equal probabilities the
    expected output is an average over dozens of steps. So start from
    probabilities that differ and keep about the right share, as
    `EmissionProbabilities` does: too low, and late outputs have no gradient;
    too high, and all U outputs are used before the late steps, which then have
    no gradient.

    Args:
        max_length: U, positive int, the number of outputs; later ones are
            left out, and outputs past the last are zeros. The number of steps
            if None.
        inference: What inference returns. `"threshold"`: the steps with $e >
            0.5$, one after the other, then zeros. `"expectation"`: as above.
            `"running_sum"`: the steps where the rounded sum of $e$ so far
            (halves up) rises, then zeros: as many as $e$ sums to, also where
            all are alike; with equal $e = 1/k$ every k-th. `"sample"`: steps
            drawn, then zeros; only then is a served model random. The
            attribute of that name can be set, of a loaded layer too; see there
            for what was traced before.
        estimator: What training returns. `"straight_through"`: steps drawn;
            the gradient to $e_n$ is the difference, to first order, between
            the loss with step n emitted and without it, later steps a place
            further back. The estimate has low variance, and no bias where the
            loss is linear in the outputs. `"expectation"`, the source's: as
            above, with its exact gradient. `"reinforce"`: steps drawn, with no
            gradient to $e$; `keras_seqmech.PolicyGradientModel` learns $e$
            from their log-probabilities, without bias.
        return_emission: Whether to return a dict after the outputs:
            `"emission"` $p(y_m = s_n)$, `"length_distribution"` (of 0, ...,
            U - 1 and of U or more outputs) and `"output_mask"`, P(length >
            m). With hard decisions they are 0 or 1, without a gradient. As a
            mask give `output_mask > 0.5`: `keras.layers.LSTM` takes every float
            above 0 for True. With `estimator="reinforce"` also the
            `"log_probability"` of each decision, 0 at steps without one.
        track_statistics: Whether to keep metrics, which appear in `history`:
            `<name>_penalty`, in training, the auxiliary losses in `loss`;
            `<name>_length`, the mean number of steps emitted, before any are
            left out; and over real steps `<name>_kept`, the share of them;
            `<name>_emission_entropy`, in nats; `<name>_logit_deviation`, the
            standard deviation of the logits, between 1 and 4 at a good
            start; `<name>_certain`, the share of the kept ones that are so
            with a probability above 0.9; and `<name>_choice_entropy`, that of
            the hard decisions.
        penalties: Auxiliary losses of the decisions, a
            `keras_seqmech.DecisionPenalties`; None for no losses. Its
            `indecision`, raised late in training, brings the expected outputs
            close to those of the threshold.
        seed: Int, seed of the noise.
        **kwargs: Base layer keyword arguments, such as `name` and `dtype`.

    Call arguments:
        sequence: Tensor `(batch, time, features)`.
        emission_probabilities: Tensor `(batch, time)` with entries in [0, 1],
            in float32 or wider, as `EmissionProbabilities` or a layer of dtype
            float32 returns it. Eager execution refuses other values
            (ValueError); graphs clip them, NaN to 0.
        mask: Boolean tensor `(batch, time)`, any pattern, True where a step is
            real.
        weight: Tensor `(batch,)`, each example's weight of what is read, which
            its `EmissionProbabilities` have seen. Required in every call if the
            layer was built with it.
        training: Whether the estimator decides, or `inference`.
        sequence_mask: What Keras fills in for `mask` beside further tensors;
            without effect if that is given.

    Output shape:
        `(batch, U, features)`; with `return_emission` a tuple of that and the
        dict: `(batch, U, time)`, `(batch, U + 1)`, `(batch, U)`, and
        `(batch, time)` of the log-probability, all float32 or wider.

    Masking: masked steps are not emitted and do not count, and their values
    reach neither outputs nor gradients; rows without a real step give zeros.
    Outputs carry no Keras mask: in expectation they exist with a probability.

    Cost: in expectation, work grows with `time * U * features`, and memory
    with `time * features`, plus a few times U for each 64 steps; the
    matrix `"emission"` is made only if asked for and, in compiled models,
    used. Hard decisions cost `time * features`.

    Example:

    >>> import keras, numpy as np
    >>> from keras_seqmech import EmissionProbabilities, ExpectedSubsample
    >>> from keras_seqmech import DecisionPenalties
    >>> x = np.array([[[1.0], [2.0], [4.0]]])
    >>> e = np.array([[0.5, 1.0, 0.5]])
    >>> ExpectedSubsample(2, inference="expectation")(x, e).numpy()[0, :, 0]
    array([1.5, 2. ], dtype=float32)
    >>> ExpectedSubsample(max_length=2)(x, e).numpy()[0, :, 0]
    array([2., 0.], dtype=float32)

    In a model that is to keep a quarter of the steps:

    >>> states = keras.Input((100, 16))
    >>> e = EmissionProbabilities(share=0.25)(states)
    >>> quarter = DecisionPenalties(target=0.25, target_weight=1.0)
    >>> ExpectedSubsample(50, penalties=quarter)(states, e).shape
    (None, 50, 16)

    Source: "Training a Subsampling Mechanism in Expectation", equation 1 and
    section 3, whose last paragraph names the vanishing gradients and, for long
    sequences, hard decisions.
    """

    inferences = ("expectation", *choices.GATE_INFERENCES)

    def __init__(
        self,
        max_length: int | None = None,
        inference: str = "threshold",
        estimator: str = "straight_through",
        return_emission: bool = False,
        track_statistics: bool = False,
        penalties: DecisionPenalties | None = None,
        seed: int | None = None,
        **kwargs: Any,
    ):
        if max_length is not None:
            max_length = checks.check_positive_int("max_length", max_length)
        # Probabilities would be rounded to the compute dtype.
        super().__init__(autocast=False, **kwargs)
        self.max_length = max_length
        self.inference = inference
        self.estimator = checks.check_choice(
            "estimator", estimator, SUBSAMPLE_ESTIMATORS
        )
        self.return_emission = checks.check_bool(
            "return_emission", return_emission
        )
        self.track_statistics = checks.check_bool(
            "track_statistics", track_statistics
        )
        self.penalty_weights = PenaltyWeights(penalties)
        self.penalties = self.penalty_weights.initial
        self.seed = checks.check_seed(seed)
        self.seed_generator = keras.random.SeedGenerator(self.seed)
        if track_statistics:
            self.statistics = _EmissionStatistics(self.name)

    def build(
        self,
        sequence_shape: Sequence[int | None],
        emission_probabilities_shape: Sequence[int | None] | None = None,
        weight_shape: Any = None,
    ) -> None:
        self.check_shape(sequence_shape)
        self.takes_weight = weight_shape is not None
        self.penalty_weights.build()

    def call(
        self,
        sequence: Tensor,
        emission_probabilities: Tensor,
        mask: Tensor | None = None,
        weight: Tensor | None = None,
        training: bool = False,
        sequence_mask: Tensor | None = None,
    ) -> Any:
        mask = masks.given(mask, sequence_mask)
        sequence, emission, mask = choices.check_probabilities(
            EMISSION, sequence, emission_probabilities, mask
        )
        weight = self.check_weight(weight, sequence)
        sequence, mask = checks.assert_steps(sequence, mask)
        sequence = ops.cast(sequence, self.compute_dtype)
        emission = choices.probabilities_by_step(
            EMISSION, emission, sequence, mask
        )
        mode = self.estimator if training else self.inference
        length = self.max_length or ops.shape(emission)[1]
        if mode == "expectation":
            sequence = ops.cast(sequence, self.score_dtype)
            sequence = masks.zero_masked(sequence, mask)
            outputs, emitted, shown = self._expect(sequence, emission, length)
        else:
            outputs, emitted, shown = self._decide(
                sequence, emission, length, mode
            )
        if training or self.statistics is not None:
            is_drawn = self.estimator == "reinforce"
            decision = choices.decided_steps(
                emission,
                emitted,
                drawn.kept(emitted, self.max_length) if is_drawn else emission,
                shown.get("log_probability"),
            )
            self.conclude(decision, mask, weight, training)
        return reports.with_decisions(
            self, [outputs], shown, self.return_emission
        )

    def _expect(
        self, sequence: Tensor, emission: Tensor, length: Size
    ) -> Subsampled:
        outputs, matrix, lengths = expectation.expected_subsample(
            sequence, emission, length, distributions=self._shows_emission
        )
        shown: dict[str, Tensor] = {}
        if self._shows_emission:
            shown = {
                "emission": matrix,
                "length_distribution": lengths,
                "output_mask": expectation.output_mask(lengths),
            }
        if self.estimator == "reinforce":
            shown["log_probability"] = ops.zeros_like(emission)
        return ops.cast(outputs, self.compute_dtype), emission, shown

    def _decide(
        self, sequence: Tensor, emission: Tensor, length: Size, mode: str
    ) -> Subsampled:
        if mode in ("threshold", "running_sum"):
            keep, _ = choices.open_gates(emission, mode)
        else:
            keep = choices.hard_gates(emission, self.seed_generator)
        learned = mode == "straight_through"
        outputs, kept = drawn.compact(
            sequence,
            emission if learned else ops.stop_gradient(emission),
            keep,
            length,
        )
        shown = {}
        if self._shows_emission:
            shown = drawn.decisions(kept, self.score_dtype)
        if self.estimator == "reinforce":
            shown["log_probability"] = drawn.log_probability(
                emission, keep, length
            )
        return outputs, ops.cast(keep, self.score_dtype), shown

    @property
    def _shows_emission(self) -> bool:
        return self.return_emission or reports.is_recording()

    @property
    def ramps(self) -> dict[str, Ramp]:
        """Ramps of `ExploreThenCommit` for the penalties."""
        if self.estimator != "expectation":
            return EXPLORE_THEN_COMMIT
        # Nothing is drawn that could explore, and outputs that are not decided
        # average over many steps.
        return {
            "reading": EXPLORE_THEN_COMMIT["reading"],
            "indecision": Ramp(0.0, 0.3, 0.1, 0.4),
        }

    def compute_output_shape(
        self,
        sequence_shape: Sequence[int | None],
        emission_probabilities_shape: Sequence[int | None] | None = None,
        weight_shape: Any = None,
    ) -> Any:
        checks.check_sequences("sequence.shape", sequence_shape)
        batch_size, time, features = sequence_shape
        length = self.max_length or time
        outputs = (batch_size, length, features)
        if not self.return_emission:
            return outputs
        lengths = None if length is None else length + 1
        decisions = {
            "emission": (batch_size, length, time),
            "length_distribution": (batch_size, lengths),
            "output_mask": (batch_size, length),
        }
        if self.estimator == "reinforce":
            decisions["log_probability"] = (batch_size, time)
        return outputs, decisions

    def compute_output_spec(
        self,
        sequence: Tensor,
        emission_probabilities: Tensor,
        mask: Tensor | None = None,
        weight: Tensor | None = None,
        training: bool = False,
        sequence_mask: Tensor | None = None,
    ) -> Any:
        mask = masks.given(mask, sequence_mask)
        choices.check_probabilities(
            EMISSION, sequence, emission_probabilities, mask
        )
        self.check_weight(weight, sequence)
        shapes = self.compute_output_shape(sequence.shape)
        return output_specs(shapes, self.compute_dtype)

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "max_length": self.max_length,
            "inference": self.inference,
            "estimator": self.estimator,
            "return_emission": self.return_emission,
            "track_statistics": self.track_statistics,
            "penalties": keras.saving.serialize_keras_object(self.penalties),
            "seed": self.seed,
        }
