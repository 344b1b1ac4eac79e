"""A gate that chooses, given a context, which steps matter."""

import math
from typing import Any

import keras
from keras import ops

from keras_seqmech.layers import validation
from keras_seqmech.layers.focused_encoder.bernoulli_gates import BernoulliGates
from keras_seqmech.ops import boundary_gate
from keras_seqmech.ops import masking


@keras.saving.register_keras_serializable(package="keras_seqmech")
class BoundaryGate(BernoulliGates):
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
    only, and never rewards closing all. Best let `Curriculum` lower the
    entropy's weight while it raises the sparsity's: a gate that is charged for
    once it is sure of being open has no gradient left to close by.

    Where several steps would do, drawn gates share the work: each is open in
    some of the draws, and none has a probability above one half, so that
    inference, which decides, finds all closed. `sample_at_inference=True`
    shows whether it is so; a cost of p (1 - p) a step on `"probabilities"`,
    raised late in training, makes gates decide themselves.

    A straight-through gate sees one change at a time. Let what follows read
    what the gates made, such as the states of `FocusedHierarchicalEncoder`
    after every step, rather than take the same gates once more as weights: a
    step that is not read and the reading of an old state gain nothing alone.

    Args:
        units: Positive int, width of the hidden layer.
        estimator: How gates are learned. `"reinforce"`: drawn hard, without
            gradient; `keras_seqmech.PolicyGradientModel` learns them from
            their log-probabilities and the row's sparsity term. `"relaxed"`:
            soft gates in training (binary Concrete). `"straight_through"`:
            drawn hard, with the gradient of the soft ones.
        temperature: Positive float, $\tau$ of the soft gates. This and the
            two weights are kept in non-trainable variables of these names, so
            that callbacks (`TemperatureAnnealing`, `Curriculum`) can change
            them without retracing.
        openness_target: $\gamma$, share of gates that may be open without
            cost, above 0 and up to 1.
        sparsity_weight: $\beta$ at the start, cost of each open gate above
            the target; without a target there is none.
        entropy_weight: $\eta$ at the start.
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
        super().__init__(
            estimator=estimator,
            temperature=temperature,
            openness_target=openness_target,
            sparsity_weight=sparsity_weight,
            entropy_weight=entropy_weight,
            sample_at_inference=sample_at_inference,
            seed=seed,
            return_gates=return_gates,
            track_statistics=track_statistics,
            **kwargs,
        )
        self.units = validation.check_positive_int("units", units)
        self.initial_openness = validation.check_open_share(
            "initial_openness", initial_openness
        )
        self.negative_slope = validation.check_not_negative(
            "negative_slope", negative_slope
        )
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.kernel_regularizer = keras.regularizers.get(kernel_regularizer)

    def build(self, sequence_shape, context_shape):
        validation.check_sequences("sequence.shape", sequence_shape)
        validation.check_context("context.shape", context_shape, sequence_shape)
        size, context_size = sequence_shape[-1], context_shape[-1]

        def kernel(name, rows, columns):
            return self.add_wide_weight(
                name,
                (rows, columns),
                initializer=validation.fresh(self.kernel_initializer),
                regularizer=self.kernel_regularizer,
            )

        self.context_kernel = None
        if context_size != size:
            self.context_kernel = kernel("context_kernel", context_size, size)
        self.kernel = kernel("kernel", 3 * size, self.units)
        self.bias = self.add_wide_weight("bias", (self.units,), "zeros")
        self.output_kernel = kernel("output_kernel", self.units, 1)
        odds = self.initial_openness / (1 - self.initial_openness)
        self.output_bias = self.add_wide_weight(
            "output_bias", (), keras.initializers.Constant(math.log(odds))
        )
        self.add_scalars()

    def call(self, sequence, context, sequence_mask=None, training=False):
        self._check_call(sequence, context, sequence_mask)
        mask = None
        if sequence_mask is not None:
            mask = ops.cast(sequence_mask, "bool")
        logits = self._logits(masking.fill_masked(sequence, mask), context)
        return self.decide(logits, mask, training)

    def _logits(self, sequence, context):
        context = boundary_gate.bounded_context(
            ops.cast(context, self.score_dtype)
        )
        if self.context_kernel is not None:
            context = ops.matmul(context, self.context_kernel)
        weights = boundary_gate.GateWeights(
            self.kernel, self.bias, self.output_kernel, self.output_bias
        )
        return boundary_gate.boundary_logits(
            sequence, context, weights, self.negative_slope
        )

    def _check_call(self, sequence, context, sequence_mask):
        validation.check_sequences("sequence.shape", sequence.shape)
        validation.check_context("context.shape", context.shape, sequence.shape)
        validation.check_mask("sequence_mask", sequence_mask, sequence.shape)

    def compute_output_shape(self, sequence_shape, context_shape):
        return self.decision_shapes(tuple(sequence_shape[:2]))

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
            "initial_openness": self.initial_openness,
            "negative_slope": self.negative_slope,
            "kernel_initializer": serialize(self.kernel_initializer),
            "kernel_regularizer": serialize(self.kernel_regularizer),
        }
