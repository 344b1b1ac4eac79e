"""A gate that chooses, given a context, which steps matter."""

import functools
import math
from typing import Any

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
from keras_seqmech.core.layers import add_kernel
from keras_seqmech.core.layers import add_scalar
from keras_seqmech.core.layers import output_specs
from keras_seqmech.core.numerics import finite
from keras_seqmech.typing import Tensor

# Larger context entries are clipped to this, so that products stay finite.
LARGEST_CONTEXT = 1e6
# Of the leaky ReLU, below 0.
NEGATIVE_SLOPE = 0.2


def bounded_context(context: Tensor) -> Tensor:
    """A context whose products with states and weights stay finite."""
    return ops.clip(context, -LARGEST_CONTEXT, LARGEST_CONTEXT)


class TakesContext(SequenceLayer):
    """A layer over sequences, with one context `(batch, features)` for each.

    Attributes:
        context_size: Features of the context, from `build_sizes` on.
    """

    context_size: Any = None

    def build_sizes(self, sequence_shape: Any, context_shape: Any) -> None:
        """Notes the features, after it refused shapes that do not fit."""
        self._check_shapes(sequence_shape, context_shape)
        self.features, self.context_size = sequence_shape[-1], context_shape[-1]

    def prepare_inputs(
        self, sequence: Tensor, context: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Checked sequences and contexts, and a boolean mask or None."""
        self._check_shapes(sequence.shape, getattr(context, "shape", None))
        checks.check_features("context.shape", context.shape, self.context_size)
        sequence, mask = self.prepare(sequence, mask)
        return sequence, checks.assert_rows("context", context, sequence), mask

    def _check_shapes(self, sequence_shape: Any, context_shape: Any) -> None:
        self.check_shape(sequence_shape)
        shape, batch_size = tuple(context_shape or ()), sequence_shape[0]
        batch_sizes = {*shape[:1], batch_size} - {None}
        if len(shape) != 2 or not shape[1] or len(batch_sizes) > 1:
            raise ValueError(
                "Argument `context` must be a tensor or array (batch, "
                "features), with a known number of features and the batch size "
                f"of the sequence, {batch_size}. "
                f"Received: context.shape={context_shape}"
            )


@keras.saving.register_keras_serializable(package="keras_seqmech")
class BoundaryGate(TakesContext, DecidesSteps):
    r"""Opens at the steps of a sequence that matter in a context.

    $$b_t \sim \mathrm{Bernoulli}(\sigma(\ell_t)), \quad
      \ell_t = w^T \mathrm{LReLU}(W z_t + b) + b_o, \quad
      z_t = [q \odot h_t, h_t, q]$$

    with $h_t$ the steps and q the context, which a kernel projects to the size
    of the steps if its own differs, and a slope of 0.2 of the leaky ReLU. Gates
    do not depend on each other. Of a weight $\omega$ of what is read, the logit
    has a further term, $w_\omega \log_{10} 100\omega$.

    Gates tend to collapse, to all open or all closed. The initial bias starts
    them open often enough to learn from. The `entropy` of the penalties keeps
    them undecided until the loss favours a decision (try 0.1 to 1, more while
    gates collapse); lower it while `reading` rises: a gate already near
    probability 1 when that sets in has almost no gradient to close. The
    source's sparsity term, `target_of="row_above"`, penalizes only the open
    gates above a share and never rewards closing all of them.

    If any of several steps would do, training may leave each of them open
    with a probability below one half, so that the threshold closes all. If
    `inference="sample"` is better, so may `"running_sum"` be, which opens as
    many gates without chance. Where gates are decided, the threshold is better:
    a hundred closed gates of probability 0.01 have the sum of an open one.

    Do not also weight the states by straight-through gates, as
    `ContextAttention("open")` does: opening a gate gains nothing while its
    state is not read, and reading the state nothing while the gate is closed.
    Read the states after every step (`ContextAttention("every")`).

    Args:
        units: Positive int, width of the hidden layer.
        estimator: How gates are learned. `"relaxed"`: soft gates in training
            (binary Concrete). `"straight_through"`: drawn hard, with the
            gradient of the soft ones. `"reinforce"`, the source's: drawn hard,
            without gradient; `keras_seqmech.PolicyGradientModel` learns them
            from their log-probabilities and each example's loss and penalty.
        temperature: Positive float, $\tau$ of the soft gates. Kept in a
            non-trainable variable of that name, for a `Schedule`.
        penalties: Auxiliary losses of the gates, a
            `keras_seqmech.DecisionPenalties`; None for no losses.
        initial_openness: Approximate initial probability of being open, above
            0 and below 1: the initial bias $b_o$ is its logit.
        kernel_initializer: Initializer of the kernels.
        kernel_regularizer: Regularizer of the kernels.
        inference: Which gates are open at inference. `"threshold"`: those
            with a probability above one half. `"sample"`: drawn, hard.
            `"running_sum"`: where the sum of the probabilities of the real
            steps so far, from 0 in each call, rounds to the next int (halves
            up), so that the number of open gates is the rounded sum.
        seed: Int, seed of the noise.
        return_gates: Whether to return a dict after the gates: `"gates"` and
            `"probabilities"` of being open, `(batch, time)`, and with
            `estimator="reinforce"` the `"log_probability"` of the gates as
            drawn. 0 at masked steps.
        track_statistics: Whether to keep metrics over real steps, which
            appear in `history`: `<name>_penalty`, in training, the auxiliary
            losses in `loss`; `<name>_openness`, the share of open gates;
            `<name>_gate_entropy`, in nats a gate; `<name>_certain`, the share
            of the open ones that are so with a probability above 0.9; and
            `<name>_choice_entropy`, that of the gates as inference decides
            them: 0 where all are open or all are closed.
        **kwargs: Base layer keyword arguments, such as `name` and `dtype`.

    Call arguments:
        sequence: Tensor `(batch, time, features)`.
        context: Tensor `(batch, context features)`. Entries beyond a million
            act as a million.
        mask: Boolean tensor `(batch, time)`, any pattern, True where a step is
            real.
        weight: Tensor `(batch,)`, the weight of what is read, from a
            `ReadingWeight`: one training for a whole range of them. Required in
            every call if the layer was built with it.
        training: Whether gates are drawn, from noise drawn once a call.
        sequence_mask: What Keras fills in for `mask` beside further tensors;
            without effect if that is given.

    Output shape:
        `(batch, time)`, float32 or wider; with `return_gates` a tuple of that
        and the dict.

    Masking: gates of masked steps are 0, and their values reach neither
    outputs nor gradients.

    Cost: a step takes one product with a `(features, units)` matrix of its
    row, float32 or wider; there is no loop over steps.

    Example:

    >>> import numpy as np
    >>> gate = BoundaryGate(8)
    >>> gate(np.ones((2, 5, 3)), np.ones((2, 4))).shape
    TensorShape([2, 5])

    Source: "Focused Hierarchical RNNs for Conditional Sequence Processing",
    the boundary gate and its training.
    """

    def __init__(
        self,
        units: int,
        estimator: str = "relaxed",
        temperature: float = 1.0,
        penalties: DecisionPenalties | None = None,
        initial_openness: float = 0.75,
        kernel_initializer: Any = "glorot_uniform",
        kernel_regularizer: Any = None,
        inference: str = "threshold",
        seed: int | None = None,
        return_gates: bool = False,
        track_statistics: bool = False,
        **kwargs: Any,
    ):
        check_bool = checks.check_bool
        super().__init__(**kwargs)
        self.units = checks.check_positive_int("units", units)
        self.estimator = checks.check_choice(
            "estimator", estimator, choices.ESTIMATORS
        )
        self.initial_temperature = checks.check_positive(
            "temperature", temperature
        )
        self.penalty_weights = PenaltyWeights(penalties)
        self.penalties = self.penalty_weights.initial
        self.initial_openness = checks.check_open_share(
            "initial_openness", initial_openness
        )
        self.kernel_initializer = checks.get_initializer(
            "kernel_initializer", kernel_initializer
        )
        self.kernel_regularizer = checks.get_regularizer(
            "kernel_regularizer", kernel_regularizer
        )
        self.inference = inference
        self.return_gates = check_bool("return_gates", return_gates)
        self.track_statistics = check_bool("track_statistics", track_statistics)
        self.seed = checks.check_seed(seed)
        self.seed_generator = keras.random.SeedGenerator(self.seed)
        self.context_kernel: keras.Variable | None = None
        self.temperature: keras.Variable | None = None
        if track_statistics:
            self.keep_statistics(self.name)

    def keep_statistics(self, prefix: str) -> None:
        """Adds the metrics of `track_statistics`, named with a prefix."""
        self.statistics = DecisionStatistics(
            prefix, "openness", "gate_entropy", choices=2
        )

    def build(
        self,
        sequence_shape: Any,
        context_shape: Any = None,
        weight_shape: Any = None,
    ) -> None:
        self.build_sizes(sequence_shape, context_shape)
        # Decisions are float32 or wider, and so are their weights.
        kernel = functools.partial(add_kernel, self, autocast=False)
        weight = functools.partial(self.add_weight, autocast=False)
        if self.context_size != self.features:
            self.context_kernel = kernel(
                "context_kernel", (self.context_size, self.features)
            )
        self.kernel = kernel("kernel", (3 * self.features, self.units))
        self.bias = weight((self.units,), "zeros", name="bias")
        self.output_kernel = kernel("output_kernel", (self.units, 1))
        logit = math.log(self.initial_openness / (1 - self.initial_openness))
        start = keras.initializers.Constant(logit)
        self.output_bias = weight((), start, name="output_bias")
        self.add_weight_kernel(weight_shape)
        self.temperature = add_scalar(
            self, "temperature", self.initial_temperature
        )
        self.penalty_weights.build()

    def call(
        self,
        sequence: Tensor,
        context: Tensor,
        mask: Tensor | None = None,
        weight: Tensor | None = None,
        training: bool = False,
        sequence_mask: Tensor | None = None,
    ) -> Any:
        mask = masks.given(mask, sequence_mask)
        sequence, context, real = self.prepare_inputs(sequence, context, mask)
        sequence = masks.zero_masked_forward(sequence, real)
        weight = self.check_weight(weight, sequence)
        logits = self.logits(sequence, context, weight)
        decision, _ = self.decide(logits, real, training)
        self.conclude(decision, real, weight, training)
        return reports.with_decisions(
            self, [decision.read], decision.shown("gates"), self.return_gates
        )

    def logits(
        self, sequence: Tensor, context: Tensor, weight: Tensor | None = None
    ) -> Tensor:
        r"""Logits of the gates of finite steps, given a context and a weight.

        The vectors z are never formed: with $W_1, W_2, W_3$ the parts of the
        kernel one below the other, each row of the batch has one matrix
        $\mathrm{diag}(q) W_1 + W_2$ for all its steps, and one vector $W_3^T
        q + b$. Logits are finite, float32 or wider.
        """
        sequence = ops.cast(sequence, self.score_dtype)
        context = bounded_context(ops.cast(context, self.score_dtype))
        if self.context_kernel is not None:
            context = bounded_context(ops.matmul(context, self.context_kernel))
        kernel, bias, output_kernel, output_bias = (
            ops.cast(weight, self.score_dtype)
            for weight in (
                self.kernel,
                self.bias,
                self.output_kernel,
                self.output_bias,
            )
        )
        gated, plain, offset = ops.split(kernel, 3, axis=0)
        matrices = context[:, :, None] * gated + plain
        offsets = ops.matmul(context, offset) + bias
        hidden = finite(ops.matmul(sequence, matrices) + offsets[:, None])
        hidden = ops.leaky_relu(hidden, NEGATIVE_SLOPE)
        logits = ops.matmul(hidden, output_kernel)[..., 0] + output_bias
        return finite(self.add_log_weight(logits, weight))

    def decide(
        self,
        logits: Tensor,
        mask: Tensor | None = None,
        training: bool = False,
        before: Tensor | None = None,
    ) -> tuple[choices.Decision, Tensor | None]:
        """Decides gates from their logits `(batch, time)`; 0 where masked.

        With `inference="running_sum"`, `before` is the sum before the first
        step, see `choices.running_sum`, and that after the last is returned.
        """
        probabilities = masks.zero_masked(ops.sigmoid(logits), mask)
        total = None
        if training or self.inference == "sample":
            gates = choices.draw_gates(
                logits,
                self.temperature,
                self.estimator if training else "reinforce",
                self.seed_generator,
            )
        else:
            gates, total = choices.open_gates(
                probabilities, self.inference, before
            )
            gates = ops.cast(gates, logits.dtype)
        decision = choices.decided_gates(logits, gates, self.estimator)
        return decision.map(lambda x: masks.zero_masked(x, mask)), total

    @property
    def ramps(self) -> dict[str, Ramp]:
        """Ramps of `ExploreThenCommit` where no weight is given.

        The share of open gates is small beside the loss of one answer.
        """
        return {
            **EXPLORE_THEN_COMMIT,
            "entropy": EXPLORE_THEN_COMMIT["entropy"]._replace(initial=0.5),
            "reading": EXPLORE_THEN_COMMIT["reading"]._replace(final=0.2),
        }

    @property
    def stream_refusal(self) -> str | None:
        """The reason why the layer cannot be streamed, or None."""
        return {
            "sample": "draws at inference",
            "running_sum": "sums over steps outside an encoder",
        }.get(self.inference)

    @property
    def is_soft(self) -> bool:
        """True if gates drawn in training have a gradient."""
        return self.estimator != "reinforce"

    def compute_output_spec(
        self,
        sequence: Tensor,
        context: Tensor,
        mask: Tensor | None = None,
        weight: Tensor | None = None,
        training: bool = False,
        sequence_mask: Tensor | None = None,
    ) -> Any:
        mask = masks.given(mask, sequence_mask)
        self.prepare_inputs(sequence, context, mask)
        self.check_weight(weight, sequence)
        shapes = self.compute_output_shape(sequence.shape, context.shape)
        return output_specs(shapes, self.score_dtype)

    def compute_output_shape(
        self, sequence_shape: Any, context_shape: Any, weight_shape: Any = None
    ) -> Any:
        shape = tuple(sequence_shape[:2])
        if not self.return_gates:
            return shape
        names = ("gates", "probabilities", "log_probability")
        return shape, dict.fromkeys(names[:2] if self.is_soft else names, shape)

    def get_config(self) -> dict[str, Any]:
        serialize = keras.saving.serialize_keras_object
        return {
            **super().get_config(),
            "units": self.units,
            "estimator": self.estimator,
            "temperature": self.initial_temperature,
            "penalties": serialize(self.penalties),
            "initial_openness": self.initial_openness,
            "kernel_initializer": serialize(self.kernel_initializer),
            "kernel_regularizer": serialize(self.kernel_regularizer),
            "inference": self.inference,
            "seed": self.seed,
            "return_gates": self.return_gates,
            "track_statistics": self.track_statistics,
        }
