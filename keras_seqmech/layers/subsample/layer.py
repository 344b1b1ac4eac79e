"""A shorter sequence of the steps that are likely worth keeping."""

import keras
from keras import ops

from keras_seqmech.layers import log_probabilities
from keras_seqmech.layers import validation
from keras_seqmech.layers.added_losses import batch_mean
from keras_seqmech.ops.decisions import sampling
from keras_seqmech.ops.emission import drawn as drawn_emission
from keras_seqmech.ops.emission import expectation as emission_ops
from keras_seqmech.ops.precision import score_dtype

INFERENCES = ("expectation", "sample", "threshold")
ESTIMATORS = ("expectation", "straight_through", "reinforce")


@keras.saving.register_keras_serializable(package="keras_seqmech")
class ExpectedSubsample(keras.layers.Layer):
    r"""Keeps each step of a sequence with its probability, in expectation.

    Step n is emitted with probability $e_n$; those emitted are the outputs
    $y_0, y_1, \dots$ With $q_n(m)$ the probability that m of the first n steps
    were emitted,

    $$q_{n+1}(m) = q_n(m)(1 - e_n) + q_n(m - 1) e_n, \quad
      p(y_m = s_n) = e_n q_n(m), \quad y_m = \sum_n p(y_m = s_n) s_n,$$

    the zero vector standing for an output that is not there.

    Gradients vanish for outputs that are hardly ever there, and with $e (1 -
    e)$ where a sigmoid saturates. Two remedies:

    - The initial bias of what makes $e$: about logit(U / T), or +3 if U is T.
      Too low, and late outputs have no gradient (from 0, of 200 outputs the
      one at 150 is there with probability 1e-13); too high, and U outputs are
      full before late steps, which then have none.
    - `length_weight` times $T\,KL(r \,\|\, \bar e)$, meaned over the batch,
      joins the loss in training; r is `length_target` and $\bar e$ the mean
      probability of the row's T steps. Its gradient to a logit is $\bar e -
      r$ where probabilities are alike, until they are rounded to 1 (from
      logits of 15 on): no other saturation stops it.

    Args:
        max_length: U, positive int, the number of outputs; later ones are
            left out, and outputs past the last are zeros. The number of steps
            if None.
        inference: What to put out at inference. `"expectation"`: as above.
            `"threshold"`: the steps with $e > 0.5$, one after the other, then
            zeros. `"sample"`: steps drawn, likewise; only then is a served
            model random.
        estimator: What to put out in training. `"expectation"`: as above, with
            its exact gradient. `"reinforce"`: steps drawn, as `"sample"`, with
            no gradient to $e$; `keras_seqmech.PolicyGradientModel` learns $e$
            from their log-probabilities, without bias. `"straight_through"`:
            steps drawn; the gradient to $e_n$ is what the draw with step n
            would cost more than that without it, later steps a place further
            back, by the slope of the loss at the outputs drawn. Of low
            variance, and without bias where the loss is linear in them.
        return_emission: Whether to put out a dict after the outputs:
            `"emission"` $p(y_m = s_n)$, `"length_distribution"` (of 0, ..., U
            - 1 and of U or more outputs) and `"output_mask"`, P(length > m).
            Of decided steps they are 0 or 1. With `estimator="reinforce"` also
            the `"log_probability"` of what was decided, 0 where nothing was.
        track_statistics: Whether `history` has `<name>_length`, the mean number
            of steps emitted, expected or drawn, before any are left out.
        length_target: r, above 0 and below 1.
        length_weight: Cost of leaving the target, which it needs; 0.01 to 0.1
            of the loss per step is a start.
        seed: Int, seed of the noise.
        **kwargs: Base layer keyword arguments, such as `name` and `dtype`.

    Call arguments:
        sequence: Tensor `(batch, time, features)`.
        emission_probabilities: Tensor `(batch, time)` with entries in [0, 1];
            it stays in float32 or wider, so let it come so, from a layer of
            dtype float32. What is no probability is refused in eager execution
            (ValueError); in graphs it is clipped, NaN to 0. Sizes known only
            there are checked when run, but not by XLA.
        mask: Tensor `(batch, time)`, any pattern. Boolean: True where a step
            is real. Float: how surely it is there, the `"output_mask"` of a
            layer below, in any of its modes; numbers must fall, but for
            zeros. If None, the mask that Keras attached to `sequence`.
        training: Whether the estimator decides, or `inference`.

    Output shape:
        `(batch, U, features)`; with `return_emission` a tuple of that and the
        dict: `(batch, U, time)`, `(batch, U + 1)`, `(batch, U)`, and
        `(batch, time)` of the log-probability, all float32 or wider.

    Masking: masked steps are not emitted, do not count, and what stands there
    reaches neither outputs nor gradients; rows without a real step give
    zeros. Outputs carry no Keras mask: in expectation none is True or False.

    Stacking: a second layer takes the first's outputs, probabilities computed
    from them, and `mask=decisions["output_mask"]`, which makes its length and
    mask right; a missing step is a zero vector anyway. All is exact where the
    second's probabilities do not depend on what the first emitted.

    Cost: in expectation, work grows with `time * U * features`, and memory
    with `time * features` and a few numbers for 64 steps of `time * U`; the
    matrix `"emission"` is made only if asked for and, in compiled models,
    used. Decided steps cost `time * features`.

    Example:

    >>> import keras, numpy as np
    >>> from keras_seqmech import ExpectedSubsample
    >>> x = np.array([[[1.0], [2.0], [4.0]]])
    >>> e = np.array([[0.5, 1.0, 0.5]])
    >>> ExpectedSubsample(max_length=2)(x, e).numpy()[0, :, 0]
    array([1.5, 2. ], dtype=float32)
    >>> ExpectedSubsample(inference="threshold")(x, e).numpy()[0, :, 0]
    array([2., 0., 0.], dtype=float32)

    In a model, whose probabilities start at 1/2:

    >>> states = keras.Input((100, 16))
    >>> e = keras.layers.Dense(1, "sigmoid", dtype="float32")(states)
    >>> ExpectedSubsample(50, length_target=0.4, length_weight=0.05)(
    ...     states, e[:, :, 0]).shape
    (None, 50, 16)

    Source: "Training a Subsampling Mechanism in Expectation", equation 1 and
    section 3, whose last paragraph names the vanishing gradients and, for long
    sequences, decided steps.
    """

    def __init__(
        self,
        max_length: int | None = None,
        inference: str = "expectation",
        estimator: str = "expectation",
        return_emission: bool = False,
        track_statistics: bool = False,
        length_target: float | None = None,
        length_weight: float = 0.0,
        seed: int | None = None,
        **kwargs,
    ):
        if max_length is not None:
            max_length = validation.check_positive_int("max_length", max_length)
        validation.check_choice("inference", inference, INFERENCES)
        validation.check_choice("estimator", estimator, ESTIMATORS)
        if length_target is not None:
            length_target = validation.check_open_share(
                "length_target", length_target
            )
        length_weight = validation.check_not_negative(
            "length_weight", length_weight
        )
        if length_weight and length_target is None:
            raise ValueError(
                "Argument `length_target` must be given, above 0 and below "
                "1, for `length_weight` to act on. Received: "
                f"length_target=None, length_weight={length_weight}"
            )
        # Probabilities would be rounded to the compute dtype.
        super().__init__(autocast=False, **kwargs)
        self.max_length = max_length
        self.inference = inference
        self.estimator = estimator
        self.return_emission = validation.check_bool(
            "return_emission", return_emission
        )
        self.track_statistics = validation.check_bool(
            "track_statistics", track_statistics
        )
        self.length_target = length_target
        self.length_weight = length_weight
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)
        self.length_metric = None
        if track_statistics:
            self.length_metric = keras.metrics.Mean(f"{self.name}_length")
        self.supports_masking = True

    def call(self, sequence, emission_probabilities, mask=None, training=False):
        self._check_call(sequence, emission_probabilities, mask)
        dtype = self.score_dtype
        if mask is None:
            # Of two tensors Keras hands on no `mask`.
            mask = getattr(sequence, "_keras_mask", None)
        emission_ops.check_steps(sequence, emission_probabilities, mask)
        presence = real = None
        if mask is not None:
            presence = emission_ops.probabilities("mask", mask, None, dtype)
            real = presence > 0
        emission = emission_ops.probabilities(
            "emission_probabilities", emission_probabilities, real, dtype
        )
        sequence = ops.cast(sequence, self.compute_dtype)
        length = self.max_length or ops.shape(emission)[1]
        mode = self.estimator if training else self.inference
        if training and self.length_weight:
            divergence = emission_ops.rate_divergence(
                emission, self.length_target, presence
            )
            self.add_loss(self.length_weight * batch_mean(divergence))
        if mask is not None and "float" not in str(mask.dtype):
            # What is not there is not emitted, and nothing is in doubt.
            presence = None
        if mode == "expectation":
            emitted = emission
            outputs, decisions = self._expect(
                sequence, emission, presence, real, length
            )
        else:
            keep = self._decide(emission, mode)
            emitted = ops.cast(keep, dtype)
            outputs, decisions = self._compact(
                sequence, emission, keep, presence, length, mode
            )
        if training and mode == "reinforce":
            total = ops.sum(decisions["log_probability"], axis=1)
            log_probabilities.report(self, total)
        if self.length_metric is not None:
            if presence is not None:
                emitted = emitted * presence
            self.length_metric.update_state(ops.sum(emitted, axis=1))
        return (outputs, decisions) if self.return_emission else outputs

    def _expect(self, sequence, emission, presence, real, length):
        outputs = emission_ops.expected_subsample(
            sequence, emission, length, real
        )
        decisions = {}
        if self.return_emission:
            decisions = emission_ops.decisions(emission, length, presence)
        if self.estimator == "reinforce":
            decisions["log_probability"] = ops.zeros_like(emission)
        return outputs, decisions

    def _decide(self, emission, mode):
        if mode == "threshold":
            return emission > 0.5
        noise = sampling.logistic_noise(
            ops.shape(emission), self.seed_generator, self.score_dtype
        )
        return drawn_emission.draw(emission, noise)

    def _compact(self, sequence, emission, keep, presence, length, mode):
        chances = emission
        if mode != "straight_through":
            chances = ops.stop_gradient(emission)
        outputs, *places = drawn_emission.compact(
            sequence, chances, keep, length
        )
        decisions = {}
        if self.return_emission:
            decisions = drawn_emission.decisions(
                keep, *places, self.score_dtype, presence
            )
        if self.estimator == "reinforce":
            decisions["log_probability"] = drawn_emission.log_probability(
                emission, keep, length
            )
        return outputs, decisions

    def _check_call(self, sequence, emission_probabilities, mask):
        validation.check_sequences("sequence.shape", sequence.shape)
        validation.check_mask(
            "emission_probabilities", emission_probabilities, sequence.shape
        )
        validation.check_mask("mask", mask, sequence.shape)

    @property
    def score_dtype(self) -> str:
        """The dtype of probabilities and noise."""
        return score_dtype(self.compute_dtype)

    def compute_mask(self, sequence, mask=None):
        return None

    def compute_output_shape(
        self, sequence_shape, emission_probabilities_shape=None
    ):
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
        self, sequence, emission_probabilities, mask=None, training=False
    ):
        self._check_call(sequence, emission_probabilities, mask)
        shapes = self.compute_output_shape(sequence.shape)
        outputs = shapes[0] if self.return_emission else shapes
        outputs = keras.KerasTensor(outputs, dtype=self.compute_dtype)
        if not self.return_emission:
            return outputs
        return outputs, {
            name: keras.KerasTensor(shape, dtype=self.score_dtype)
            for name, shape in shapes[1].items()
        }

    def get_config(self):
        return {
            **super().get_config(),
            "max_length": self.max_length,
            "inference": self.inference,
            "estimator": self.estimator,
            "return_emission": self.return_emission,
            "track_statistics": self.track_statistics,
            "length_target": self.length_target,
            "length_weight": self.length_weight,
            "seed": self.seed,
        }
