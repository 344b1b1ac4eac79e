"""A pooling that stops early: the step of a sequence at which it is certain."""

import math
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from keras_seqmech.core import checks
from keras_seqmech.core import masks
from keras_seqmech.core.attention import weighted_sum
from keras_seqmech.core.decisions import choices
from keras_seqmech.core.decisions import reports
from keras_seqmech.core.decisions.learning import EXPLORE_THEN_COMMIT
from keras_seqmech.core.decisions.learning import Decides
from keras_seqmech.core.decisions.learning import DecisionPenalties
from keras_seqmech.core.decisions.learning import PenaltyWeights
from keras_seqmech.core.decisions.learning import Ramp
from keras_seqmech.core.decisions.statistics import DecisionStatistics
from keras_seqmech.core.layers import SequenceLayer
from keras_seqmech.core.layers import output_specs
from keras_seqmech.core.numerics import finite_gradient
from keras_seqmech.core.stream import State
from keras_seqmech.core.stream import Stepped
from keras_seqmech.core.stream import Tick
from keras_seqmech.core.stream import choose
from keras_seqmech.pooling.reductions import steps_at
from keras_seqmech.typing import Tensor

STOP = "stop_probabilities"
# Statistics count more steps as this many.
MOST_COUNTED = 1024
# Takes the place of a probability of 0 in logarithms.
LEAST = 1e-30


@keras.saving.register_keras_serializable(package="keras_seqmech")
class EarlyPooling(Decides, SequenceLayer):
    r"""The step of a sequence at which reading stops: one answer, early.

    After real step t reading stops with probability $\pi_t$, and the last real
    step takes what is left,

    $$p_t = \pi_t \prod_{j<t} (1 - \pi_j), \qquad y = \sum_t p_t h_t.$$

    Inference stops at the first step with $\pi_t > 1/2$: y is that step, and
    nothing after it matters. In a stream the answer leaves with that step.

    Pool the *answers* of each step rather than its states: with $h_t$ the
    probabilities of the classes after step t, y is the probability of a
    mixture, whose cross entropy is a likelihood. Train `h` at each step, too,
    with the sequence's label repeated, or steps that are seldom stopped at do
    not learn to answer. What says when to stop is a tensor:

    - a confidence that the request gives,
      `ops.cast(ops.max(h, -1) > confidence[:, None], "float32")`, which needs
      no training;
    - learned, `EmissionProbabilities(share=0.05)` of the logarithm of the
      largest probability, with a penalty on what is read and
      `ExploreThenCommit`, which makes it decided by the end of training.

    Args:
        penalties: Auxiliary losses of the decision, a
            `keras_seqmech.DecisionPenalties`; None for no losses. What is read
            is the number of further real steps after the first, expected.
        return_attention_scores: Whether to return, after the outputs, a dict
            of float32 or wider: `"attention_scores"`, p, `(batch, time)`, 0 or
            1 at inference; `"size"`, the real steps that were read, `(batch,)`,
            expected in training; and `"answered"`, `(batch,)`, the probability
            that a step or a limit stopped it, not the end of the sequence.
        track_statistics: Whether to keep metrics, which appear in `history`:
            `<name>_mean_size`, the steps read; `<name>_mean_delay` and
            `<name>_delay_percentile`, the mean and the 95th percentile of the
            further ones; `<name>_size_entropy`, in nats; `<name>_certain`, the
            share of rows one of whose steps has a p above 0.9;
            `<name>_choice_entropy`, that of the likeliest steps, these three
            of rows that no limit stops; and in training `<name>_penalty`, the
            auxiliary losses in `loss`. For the percentile and the likeliest
            step, those beyond 1,024 count as that.
        **kwargs: Base layer keyword arguments, such as `name` and `dtype`.

    Call arguments:
        sequence: Tensor `(batch, time, features)`, h.
        stop_probabilities: Tensor `(batch, time)` with entries in [0, 1],
            float32 or wider, causal if they are to be streamed. Eager execution
            refuses other values (ValueError); graphs clip them, NaN to 0.
        mask: Boolean tensor `(batch, time)`, any pattern, True where a step is
            real.
        weight: Tensor `(batch,)`, each example's weight of what is read, from a
            `ReadingWeight`: what a step must save of the answer's loss. Give it
            to what makes the stop probabilities, too. Required in every call if
            the layer was built with it.
        limit: Int tensor `(batch,)` or `(batch, time)`, such as from a
            `ReadingLimit`: how many further real steps are read at most after
            the first. None for no limit.
        training: Whether the output is expected.
        sequence_mask: What Keras fills in for `mask` beside further tensors;
            without effect if that is given.

    Output shape:
        `(batch, features)`; with `return_attention_scores` a tuple of that and
        the dict.

    Masking: masked steps are not read and do not count; the values there reach
    neither output nor gradient. A row without a real step gives zeros.

    Cost: one pass over the sequences.

    Example:

    >>> import numpy as np
    >>> h = np.array([[[0.5, 0.5], [0.1, 0.9], [0.0, 1.0]]])
    >>> sure = (h.max(axis=-1) > 0.8).astype("float32")
    >>> EarlyPooling()(h, sure).numpy()
    array([[0.1, 0.9]], dtype=float32)
    >>> EarlyPooling()(h, sure, limit=np.array([0])).numpy()
    array([[0.5, 0.5]], dtype=float32)

    Source: this package's own; the choice by stopping is that of Adaptive
    Computation Time and PonderNet (Banino and others, 2021).
    """

    def __init__(
        self,
        penalties: DecisionPenalties | None = None,
        return_attention_scores: bool = False,
        track_statistics: bool = False,
        **kwargs: Any,
    ):
        # Probabilities would be rounded to the compute dtype.
        super().__init__(autocast=False, **kwargs)
        self.penalty_weights = PenaltyWeights(
            penalties, least=1, most=float("inf")
        )
        self.penalties = self.penalty_weights.initial
        self.return_attention_scores = checks.check_bool(
            "return_attention_scores", return_attention_scores
        )
        self.track_statistics = checks.check_bool(
            "track_statistics", track_statistics
        )
        if track_statistics:
            self.statistics = DecisionStatistics(
                self.name,
                "mean_size",
                "size_entropy",
                choices=MOST_COUNTED,
                is_size=True,
                middle=1.5,
            )

    def build(
        self,
        sequence_shape: Sequence[int | None],
        stop_probabilities_shape: Sequence[int | None] | None = None,
        weight_shape: Any = None,
    ) -> None:
        self.check_shape(sequence_shape)
        self.features = sequence_shape[-1]
        self.takes_weight = weight_shape is not None
        self.penalty_weights.build()

    def call(
        self,
        sequence: Tensor,
        stop_probabilities: Tensor,
        mask: Tensor | None = None,
        weight: Tensor | None = None,
        limit: Tensor | None = None,
        training: bool = False,
        sequence_mask: Tensor | None = None,
    ) -> Any:
        mask = masks.given(mask, sequence_mask)
        sequence, stop, mask = self._checked(sequence, stop_probabilities, mask)
        weight = self.check_weight(weight, sequence)
        limit = checks.checked_limit(limit, sequence)
        sequence, mask = checks.assert_steps(sequence, mask)
        sequence = ops.cast(sequence, self.compute_dtype)
        stop = choices.probabilities_by_step(STOP, stop, sequence, mask)
        real = masks.real_steps(sequence, mask)
        counts = ops.cumsum(ops.cast(real, "int32"), axis=1)
        has_steps = free = counts[:, -1:] > 0
        is_last = real & (counts == counts[:, -1:])
        if limit is not None:
            held = real & (counts > limit)
            stop = _surely(held, stop)
            free &= ~ops.any(held & ~is_last, axis=1, keepdims=True)
        # The last real step is always stopped at.
        at_end = _surely(is_last, stop)
        places = ops.cast(counts, stop.dtype)
        if training:
            # An infinite gradient would be NaN where a sigmoid saturates.
            stop, at_end = (finite_gradient(x, 1e20) for x in (stop, at_end))
            reached = _reached(at_end)
            scores, answered = reached * at_end, reached * stop
            steps = masks.zero_masked_forward(sequence, mask)
            outputs = weighted_sum(scores, steps)
        else:
            first = ops.argmax(ops.cast(at_end > 0.5, "int32"), axis=1)
            outputs = steps_at(sequence, first[:, None], mask)[:, 0]
            scores = ops.one_hot(first, ops.shape(stop)[1], dtype=stop.dtype)
            scores = masks.zero_masked(scores, has_steps)
            answered = scores * ops.cast(stop > 0.5, stop.dtype)
        size = ops.sum(scores * places, axis=1)
        if training or self.statistics is not None:
            chances = scores if training else _reached(at_end) * at_end
            decision = _decided(chances, places, size)
            best = choices.best(decision.probabilities)
            likeliest = tf.gather(counts, best, batch_dims=1) - 1
            self.conclude(
                decision, has_steps, weight, training, likeliest, free
            )
        decisions = {
            "attention_scores": scores,
            "size": size,
            # Rounding adds up over many steps.
            "answered": ops.minimum(ops.sum(answered, axis=1), 1),
        }
        return reports.with_decisions(
            self, [outputs], decisions, self.return_attention_scores
        )

    def count(
        self: Any,
        decision: choices.Decision,
        mask: Tensor | None,
        likeliest: Tensor,
        free: Tensor,
    ) -> None:
        """Counts the decisions of a batch, one a row, free without a limit."""
        delay = ops.maximum(decision.read - 1, 0)
        self.statistics(decision, likeliest, mask, free=free, delay=delay)

    @property
    def ramps(self) -> dict[str, Ramp]:
        """Ramps of `ExploreThenCommit` where no weight is given."""
        return {
            "reading": Ramp(0.0, 0.02, 0.0, 0.5),
            "indecision": EXPLORE_THEN_COMMIT["indecision"],
        }

    # Scores of a sequence are those of its end.
    stream_unread = ("attention_scores",)

    def stream_state(self, batch_size: Tensor) -> State:
        """No step has been read, and the answer is zeros."""
        shape = (batch_size, self.features)
        return {
            "size": tf.zeros((batch_size,), "int32"),
            "answered": tf.zeros((batch_size,), "bool"),
            "output": tf.zeros(shape, self.compute_dtype),
        }

    def stream_step(
        self,
        state: State,
        tick: Tick,
        sequence: Tensor,
        stop_probabilities: Tensor,
        mask: Tensor | None = None,
        weight: Tensor | None = None,
        limit: Tensor | None = None,
    ) -> Stepped:
        """Reads the step, unless the row has its answer."""
        self.check_weight(weight, sequence)
        real = tick.real(mask) & ~state["answered"]
        size = state["size"] + ops.cast(real, "int32")
        stops = ops.cast(stop_probabilities[:, 0], self.score_dtype) > 0.5
        if limit is not None:
            stops |= size > checks.checked_limit(limit, sequence)[:, 0]
        answered = state["answered"] | (real & stops)
        output = choose(real, sequence[:, 0], state["output"])
        dtype = self.score_dtype
        decisions = {
            "attention_scores": ops.cast(real & stops, dtype)[:, None],
            "size": ops.cast(size, dtype),
            "answered": ops.cast(answered, dtype),
        }
        outputs = reports.with_decisions(
            self, [output], decisions, self.return_attention_scores
        )
        state = {"size": size, "answered": answered, "output": output}
        return Stepped(outputs, state)

    def _checked(self, sequence: Any, stop: Any, mask: Any) -> tuple:
        """The arguments of a call, as tensors."""
        given = choices.check_probabilities(STOP, sequence, stop, mask)
        self.check_shape(given[0].shape)
        return given

    def compute_output_shape(
        self,
        sequence_shape: Sequence[int | None],
        stop_probabilities_shape: Sequence[int | None] | None = None,
        weight_shape: Any = None,
    ) -> Any:
        checks.check_sequences("sequence.shape", sequence_shape)
        batch_size, time, features = sequence_shape
        outputs = (batch_size, features)
        if not self.return_attention_scores:
            return outputs
        by_row = dict.fromkeys(("size", "answered"), (batch_size,))
        return outputs, {"attention_scores": (batch_size, time), **by_row}

    def compute_output_spec(
        self,
        sequence: Tensor,
        stop_probabilities: Tensor,
        mask: Tensor | None = None,
        weight: Tensor | None = None,
        limit: Tensor | None = None,
        training: bool = False,
        sequence_mask: Tensor | None = None,
    ) -> Any:
        mask = masks.given(mask, sequence_mask)
        self._checked(sequence, stop_probabilities, mask)
        self.check_weight(weight, sequence)
        checks.checked_limit(limit, sequence)
        shapes = self.compute_output_shape(sequence.shape)
        return output_specs(shapes, self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "return_attention_scores": self.return_attention_scores,
            "track_statistics": self.track_statistics,
            "penalties": keras.saving.serialize_keras_object(self.penalties),
        }


def _surely(where: Tensor, probabilities: Tensor) -> Tensor:
    """Probabilities that are 1 at some steps."""
    return ops.where(where, ops.ones_like(probabilities), probabilities)


def _reached(stop: Tensor) -> Tensor:
    r"""$\prod_{j<t} (1 - \pi_j)$, that step t is read, `(batch, time)`."""
    # Small probabilities are lost in 1 - p, and log1p has no gradient at 1.
    small = ops.log1p(-ops.minimum(stop, 0.5))
    left = 1 - stop
    # Graphs would fold `1 - stop + LEAST`, and lose the gradient at 1.
    left += ops.where(left > 0, ops.zeros_like(left), LEAST)
    passed = ops.where(stop < 0.5, small, ops.log(left))
    return ops.exp(tf.cumsum(passed, axis=1, exclusive=True))


def _decided(scores: Tensor, places: Tensor, size: Tensor) -> choices.Decision:
    """The decisions of a call, one a row.

    Args:
        scores: Probabilities to stop at each step, `(batch, time)`.
        places: How many real steps are read by then, `(batch, time)`.
        size: How many were read, `(batch,)`.
    """
    nats = -ops.sum(scores * ops.log(ops.maximum(scores, LEAST)), axis=1)
    # Of one step there is no choice.
    most = ops.log(ops.maximum(places[:, -1], 1))
    indecision = nats / ops.maximum(most, math.log(2))
    return choices.Decision(
        scores[:, None],
        read=size[:, None],
        weighed=size[:, None],
        entropy=nats[:, None],
        indecision=indecision[:, None],
        most_entropy=most[:, None],
    )
