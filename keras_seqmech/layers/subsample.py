"""A shorter sequence of the steps that are likely worth keeping."""

import keras
from keras import ops

from keras_seqmech.layers import drawn_decisions
from keras_seqmech.layers import validation
from keras_seqmech.ops import drawn_emission
from keras_seqmech.ops import emission as emission_ops
from keras_seqmech.ops import relaxation

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

    - The initial bias of what makes $e$. From 0, half of the steps are
      emitted: of 200 outputs the one at 150 is there with probability 1e-13,
      and so is its gradient. From about +3 the layer starts nearly as a copy,
      which all but the last outputs reach, and learns what to leave out; with
      a small `max_length` U take about logit(U / T).
    - `length_weight` times $T\,KL(r \,\|\, \bar e)$, meaned over the batch,
      joins the loss in training; r is `length_target` and $\bar e$ the mean
      probability of the row's T steps. Its gradient to a logit is $\bar e -
      r$ where probabilities are alike: no saturation stops it.

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
            steps drawn, as output $s_n (1 + e_n - \mathrm{stop}(e_n))$. A step
            that was emitted passes on the gradient of its factor, one that was
            not passes none; what its emission does to the places of later
            steps is not seen. Biased, and of low variance.
        return_emission: Whether to put out a dict after the outputs:
            `"emission"` $p(y_m = s_n)$, `"length_distribution"` (of 0, ..., U
            - 1 and of U or more outputs) and `"output_mask"`, P(length > m).
            Of decided steps they are 0 or 1. With `estimator="reinforce"` also
            the `"log_probability"` of what was decided, 0 where nothing was.
        track_statistics: Whether to keep the metric `<name>_length`, the mean
            number of steps emitted, expected or drawn, before any are left
            out; it appears in `history`.
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
            (ValueError); in graphs it is clipped, NaN to 0.
        mask: Tensor `(batch, time)`, any pattern. Boolean: True where a step
            is real. Float: how surely it is there, the `"output_mask"` of a
            layer below, in any of its modes. If None, the mask that Keras
            attached to `sequence`, if it did.
        training: Whether the estimator decides, or `inference`.

    Output shape:
        `(batch, U, features)`; with `return_emission` a tuple of that and the
        dict: `(batch, U, time)`, `(batch, U + 1)`, `(batch, U)`, and
        `(batch, time)` of the log-probability, all float32 or wider.

    Masking: masked steps are not emitted, do not count, and what stands there
    reaches neither outputs nor gradients; rows without a real step give
    zeros. Outputs carry no Keras mask, as in expectation none is True or
    False: hand on `"output_mask"`.

    Stacking: a second layer takes the first's outputs, probabilities computed
    from them, and `mask=decisions["output_mask"]`. A missing step is a zero
    vector already, so the mask does not change outputs in expectation; it
    makes the second's length and mask right. They are exact where the second's
    probabilities do not depend on what the first emitted.

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

    In a model, with probabilities that start at 0.95:

    >>> steps = keras.Input((100, 8))
    >>> states = keras.layers.LSTM(16, return_sequences=True)(steps)
    >>> e = keras.layers.Dense(
    ...     1, "sigmoid", bias_initializer=keras.initializers.Constant(3.0),
    ...     dtype="float32")(states)
    >>> e = keras.layers.Reshape((100,))(e)
    >>> ExpectedSubsample(50, length_target=0.4, length_weight=0.05)(
    ...     states, e).shape
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
        if mode == "expectation":
            emitted = emission
            outputs, decisions = self._expect(
                sequence, emission, mask, presence, length
            )
        else:
            keep = self._decide(emission, mode)
            emitted = ops.cast(keep, dtype)
            outputs, decisions = self._compact(
                sequence, emission, keep, presence, length, mode
            )
        if training and self.length_weight:
            divergence = emission_ops.rate_divergence(
                emission, self.length_target, presence
            )
            self.add_loss(self.length_weight * _batch_mean(divergence))
        if training and mode == "reinforce":
            total = ops.sum(decisions["log_probability"], axis=1)
            drawn_decisions.report(self, total)
        if self.length_metric is not None:
            if presence is not None:
                emitted = emitted * presence
            self.length_metric.update_state(ops.sum(emitted, axis=1))
        if not self.return_emission:
            return outputs
        return outputs, decisions

    def _expect(self, sequence, emission, mask, presence, length):
        real = None if presence is None else presence > 0
        outputs = emission_ops.expected_subsample(
            sequence, emission, length, real
        )
        if not self.return_emission:
            return outputs, {}
        matrix = emission_ops.emission_matrix(emission, length)
        if mask is None or not _is_float(mask):
            lengths = emission_ops.length_distribution(emission, length)
            output_mask = emission_ops.output_mask(lengths)
        else:
            matrix = matrix * presence[:, None]
            output_mask = emission_ops.expected_subsample(
                presence[:, :, None], emission, length
            )[:, :, 0]
            lengths = emission_ops.length_of(output_mask)
        return outputs, self._decisions(
            matrix, lengths, output_mask, ops.zeros_like(emission)
        )

    def _decide(self, emission, mode):
        if mode == "threshold":
            return emission > 0.5
        noise = relaxation.logistic_noise(
            ops.shape(emission), self.seed_generator, self.score_dtype
        )
        return drawn_emission.draw(emission, noise)

    def _compact(self, sequence, emission, keep, presence, length, mode):
        chances = emission
        if mode != "straight_through":
            chances = ops.stop_gradient(emission)
        outputs, indices, real = drawn_emission.compact(
            sequence, chances, keep, length
        )
        log_probability = None
        if self.estimator == "reinforce":
            log_probability = drawn_emission.log_probability(
                emission, keep, length
            )
        if not self.return_emission:
            return outputs, {"log_probability": log_probability}
        output_mask = ops.cast(real, self.score_dtype)
        if presence is not None:
            output_mask = drawn_emission.take(
                presence[:, :, None], keep, indices, real
            )[:, :, 0]
        matrix = ops.one_hot(
            indices, ops.shape(emission)[1], dtype=self.score_dtype
        )
        return outputs, self._decisions(
            matrix * output_mask[:, :, None],
            emission_ops.length_of(output_mask),
            output_mask,
            log_probability,
        )

    def _decisions(self, matrix, lengths, output_mask, log_probability):
        decisions = {
            "emission": matrix,
            "length_distribution": lengths,
            "output_mask": output_mask,
        }
        if self.estimator == "reinforce":
            decisions["log_probability"] = log_probability
        return decisions

    def _check_call(self, sequence, emission_probabilities, mask):
        validation.check_sequences("sequence.shape", sequence.shape)
        validation.check_mask(
            "emission_probabilities", emission_probabilities, sequence.shape
        )
        validation.check_mask("mask", mask, sequence.shape)

    @property
    def score_dtype(self) -> str:
        """The dtype of probabilities and noise."""
        return relaxation.score_dtype(self.compute_dtype)

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
        return outputs, self._decisions(
            (batch_size, length, time),
            (batch_size, None if length is None else length + 1),
            (batch_size, length),
            (batch_size, time),
        )

    def compute_output_spec(
        self, sequence, emission_probabilities, mask=None, training=False
    ):
        self._check_call(sequence, emission_probabilities, mask)
        shapes = self.compute_output_shape(sequence.shape)
        specs = keras.tree.map_shape_structure(
            lambda shape: keras.KerasTensor(shape, dtype=self.score_dtype),
            shapes,
        )
        if not self.return_emission:
            return keras.KerasTensor(shapes, dtype=self.compute_dtype)
        outputs, decisions = specs
        outputs = keras.KerasTensor(outputs.shape, dtype=self.compute_dtype)
        return outputs, decisions

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


def _is_float(x):
    return keras.backend.is_float_dtype(
        keras.backend.standardize_dtype(x.dtype)
    )


def _batch_mean(values):
    """Mean over the batch, 0 if empty, in the dtype that Keras adds up in."""
    values = ops.cast(values, keras.config.floatx())
    count = ops.cast(ops.maximum(ops.shape(values)[0], 1), values.dtype)
    return ops.sum(values) / count
