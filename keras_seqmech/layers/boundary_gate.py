"""A gate that chooses, given a context, which steps matter."""

import math
from typing import Any

import keras
from keras import ops

from keras_seqmech.layers import drawn_decisions
from keras_seqmech.layers import validation
from keras_seqmech.ops import gates as gate_ops
from keras_seqmech.ops import masking
from keras_seqmech.ops import relaxation


@keras.saving.register_keras_serializable(package="keras_seqmech")
class BoundaryGate(keras.layers.Layer):
    r"""Opens at the steps of a sequence that matter in a context.

    $$b_t \sim \mathrm{Bernoulli}(\sigma(\ell_t)), \quad
      \ell_t = w^T \mathrm{LReLU}(W z_t + b) + b_o, \quad
      z_t = [q \odot h_t, h_t, q]$$

    with $h_t$ the steps and q the context, projected to their size by a
    kernel of its own where it has another. Gates do not depend on each other.

    In training the layer adds, meaned over the batch,

    $$\beta\,\mathrm{ReLU}(\textstyle\sum_t b_t - \gamma T)
      - \eta \textstyle\sum_t H(b_t)$$

    to the loss, T and the sums over real steps, H in nats: $\eta$ times the
    entropy of a row's gates taken together.

    Against the collapse to gates that are all open or all closed: the initial
    bias starts them open often enough to learn from; the entropy term keeps
    gates undecided until something speaks for a decision (try 0.001 to 0.1,
    larger while gates collapse); the target charges open gates above a share
    only, and never rewards closing all.

    Args:
        units: Positive int, width of the hidden layer.
        estimator: How gates are learned. `"reinforce"`: drawn hard, without
            gradient; `keras_seqmech.PolicyGradientModel` learns them from
            their log-probabilities and the row's sparsity term. `"relaxed"`:
            soft gates in training (binary Concrete). `"straight_through"`:
            drawn hard, with the gradient of the soft ones.
        temperature: Positive float, $\tau$ of the soft gates. Kept in a
            non-trainable variable of that name, so that callbacks can change
            it without retracing.
        openness_target: $\gamma$, share of gates that may be open without
            cost, above 0 and up to 1.
        sparsity_weight: $\beta$, cost of each open gate above the target,
            which it needs.
        entropy_weight: $\eta$.
        initial_openness: About the probability of being open at first, above
            0 and below 1: the initial bias $b_o$ is its logit.
        negative_slope: Of the LeakyReLU.
        kernel_initializer: Initializer of the kernels.
        kernel_regularizer: Regularizer of the kernels.
        sample_at_inference: Whether to draw gates at inference too, hard. By
            default gates are open where the probability is above one half.
        seed: Int, seed of the noise.
        return_gates: Whether to put out a dict after the gates: `"gates"` and
            `"probabilities"` of being open, `(batch, time)`, and with
            `estimator="reinforce"` the `"log_probability"` of what was
            decided. 0 at masked steps.
        track_statistics: Whether to keep the metrics `<name>_openness`, the
            share of open gates, and `<name>_gate_entropy`, in nats a gate,
            over real steps; they appear in `history`.
        **kwargs: Base layer keyword arguments, such as `name` and `dtype`.

    Call arguments:
        sequence: Tensor `(batch, time, features)`.
        context: Tensor `(batch, context features)`. Entries beyond a million
            act as a million.
        sequence_mask: Boolean tensor `(batch, time)`, any pattern, True where
            a step is real.
        training: Whether gates are drawn, from noise drawn once a call.

    Output shape:
        `(batch, time)`, float32 or wider; with `return_gates` a tuple of that
        and the dict.

    Masking: gates of masked steps are 0. What stands there reaches neither
    outputs nor gradients.

    Cost: one product with a `(features, units)` matrix of the row's own a
    step, float32 or wider; no loop over steps.

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
        estimator: str = "reinforce",
        temperature: float = 1.0,
        openness_target: float | None = None,
        sparsity_weight: float = 0.0,
        entropy_weight: float = 0.0,
        initial_openness: float = 0.75,
        negative_slope: float = 0.2,
        kernel_initializer: Any = "glorot_uniform",
        kernel_regularizer: Any = None,
        sample_at_inference: bool = False,
        seed: int | None = None,
        return_gates: bool = False,
        track_statistics: bool = False,
        **kwargs,
    ):
        units = validation.check_positive_int("units", units)
        validation.check_choice("estimator", estimator, gate_ops.ESTIMATORS)
        temperature = validation.check_positive("temperature", temperature)
        if openness_target is not None:
            openness_target = validation.check_positive_share(
                "openness_target", openness_target
            )
        sparsity_weight = validation.check_not_negative(
            "sparsity_weight", sparsity_weight
        )
        if sparsity_weight and openness_target is None:
            raise ValueError(
                "Argument `openness_target` must be given, above 0 and up to "
                "1, for `sparsity_weight` to act on. "
                "Received: openness_target=None, "
                f"sparsity_weight={sparsity_weight}"
            )
        super().__init__(**kwargs)
        self.units = units
        self.estimator = estimator
        self.initial_temperature = temperature
        self.openness_target = openness_target
        self.sparsity_weight = sparsity_weight
        self.entropy_weight = validation.check_not_negative(
            "entropy_weight", entropy_weight
        )
        self.initial_openness = validation.check_open_share(
            "initial_openness", initial_openness
        )
        self.negative_slope = validation.check_not_negative(
            "negative_slope", negative_slope
        )
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.kernel_regularizer = keras.regularizers.get(kernel_regularizer)
        self.sample_at_inference = validation.check_bool(
            "sample_at_inference", sample_at_inference
        )
        self.return_gates = validation.check_bool("return_gates", return_gates)
        self.track_statistics = validation.check_bool(
            "track_statistics", track_statistics
        )
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)
        self.temperature = None
        self.statistics = {}
        if track_statistics:
            self.keep_statistics(self.name)

    def keep_statistics(self, prefix: str) -> None:
        """Adds the metrics `<prefix>_openness` and `<prefix>_gate_entropy`."""
        self.statistics = {
            name: keras.metrics.Mean(f"{prefix}_{name}")
            for name in ("openness", "gate_entropy")
        }

    def build(self, sequence_shape, context_shape):
        validation.check_sequences("sequence.shape", sequence_shape)
        validation.check_context("context.shape", context_shape, sequence_shape)
        size, context_size = sequence_shape[-1], context_shape[-1]

        def weight(name, *shape, **options):
            # Decisions are float32 or wider, and so is what makes them.
            return self.add_weight(
                name=name, shape=shape, autocast=False, **options
            )

        def kernel(name, rows, columns):
            return weight(
                name,
                rows,
                columns,
                initializer=validation.fresh(self.kernel_initializer),
                regularizer=self.kernel_regularizer,
            )

        self.temperature = weight(
            "temperature",
            dtype="float32",
            initializer=keras.initializers.Constant(self.initial_temperature),
            trainable=False,
        )
        self.context_kernel = None
        if context_size != size:
            self.context_kernel = kernel("context_kernel", context_size, size)
        self.kernel = kernel("kernel", 3 * size, self.units)
        self.bias = weight("bias", self.units, initializer="zeros")
        self.output_kernel = kernel("output_kernel", self.units, 1)
        odds = self.initial_openness / (1 - self.initial_openness)
        self.output_bias = weight(
            "output_bias",
            initializer=keras.initializers.Constant(math.log(odds)),
        )

    def call(self, sequence, context, sequence_mask=None, training=False):
        self._check_call(sequence, context, sequence_mask)
        mask = None
        if sequence_mask is not None:
            mask = ops.cast(sequence_mask, "bool")
        logits = self._logits(sequence, context, mask)
        gates = self._choose(logits, training)
        log_probability = gate_ops.log_probability(logits, gates)
        entropy = gate_ops.entropy(logits)
        if mask is not None:
            gates, log_probability, entropy = (
                ops.where(mask, x, ops.zeros_like(x))
                for x in (gates, log_probability, entropy)
            )
        if training:
            self._add_losses(gates, log_probability, entropy, mask)
        if self.statistics:
            real = None if mask is None else ops.reshape(mask, -1)
            for metric, values in zip(
                self.statistics.values(), (gates, entropy)
            ):
                metric.update_state(ops.reshape(values, -1), real)
        if not self.return_gates:
            return gates
        probabilities = ops.sigmoid(logits)
        if mask is not None:
            probabilities = ops.where(mask, probabilities, 0)
        decisions = {"gates": gates, "probabilities": probabilities}
        if self.estimator == "reinforce":
            decisions["log_probability"] = log_probability
        return gates, decisions

    def _logits(self, sequence, context, mask):
        dtype = self.score_dtype
        context = ops.cast(context, dtype)
        if self.context_kernel is not None:
            context = ops.matmul(context, self.context_kernel)
        return gate_ops.boundary_logits(
            masking.fill_masked(sequence, mask),
            context,
            self.kernel,
            self.bias,
            self.output_kernel,
            self.output_bias,
            self.negative_slope,
        )

    def _choose(self, logits, training):
        if not (training or self.sample_at_inference):
            return gate_ops.decide(logits)
        noise = relaxation.logistic_noise(
            ops.shape(logits), self.seed_generator, self.score_dtype
        )
        estimator = self.estimator if training else "reinforce"
        return gate_ops.draw(logits, noise, self.temperature, estimator)

    def _add_losses(self, gates, log_probability, entropy, mask):
        cost = None
        if self.sparsity_weight:
            cost = self.sparsity_weight * gate_ops.excess(
                gates, mask, self.openness_target
            )
            self.add_loss(_batch_mean(cost))
        if self.entropy_weight:
            total = ops.sum(entropy, axis=1)
            self.add_loss(-self.entropy_weight * _batch_mean(total))
        if self.estimator == "reinforce":
            total = ops.sum(log_probability, axis=1)
            drawn_decisions.report(self, total, cost)

    def _check_call(self, sequence, context, sequence_mask):
        validation.check_sequences("sequence.shape", sequence.shape)
        validation.check_context("context.shape", context.shape, sequence.shape)
        validation.check_mask("sequence_mask", sequence_mask, sequence.shape)

    @property
    def score_dtype(self) -> str:
        """The dtype of logits, probabilities, gates and noise."""
        return relaxation.score_dtype(self.compute_dtype)

    def compute_output_shape(self, sequence_shape, context_shape):
        shape = tuple(sequence_shape[:2])
        if not self.return_gates:
            return shape
        names = ["gates", "probabilities"]
        if self.estimator == "reinforce":
            names.append("log_probability")
        return shape, dict.fromkeys(names, shape)

    def compute_output_spec(
        self, sequence, context, sequence_mask=None, training=False
    ):
        self._check_call(sequence, context, sequence_mask)
        return keras.tree.map_shape_structure(
            lambda shape: keras.KerasTensor(shape, dtype=self.score_dtype),
            self.compute_output_shape(sequence.shape, context.shape),
        )

    def get_config(self):
        serialize = keras.saving.serialize_keras_object
        return {
            **super().get_config(),
            "units": self.units,
            "estimator": self.estimator,
            "temperature": self.initial_temperature,
            "openness_target": self.openness_target,
            "sparsity_weight": self.sparsity_weight,
            "entropy_weight": self.entropy_weight,
            "initial_openness": self.initial_openness,
            "negative_slope": self.negative_slope,
            "kernel_initializer": serialize(self.kernel_initializer),
            "kernel_regularizer": serialize(self.kernel_regularizer),
            "sample_at_inference": self.sample_at_inference,
            "seed": self.seed,
            "return_gates": self.return_gates,
            "track_statistics": self.track_statistics,
        }


def _batch_mean(values):
    """Mean over the batch, 0 if empty, in the dtype that Keras adds up in."""
    values = ops.cast(values, keras.config.floatx())
    count = ops.cast(ops.maximum(ops.shape(values)[0], 1), values.dtype)
    return ops.sum(values) / count
