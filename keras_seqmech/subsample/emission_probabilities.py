"""The probability of each step of a sequence to be kept."""

import math
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_seqmech.core import checks
from keras_seqmech.core import masks
from keras_seqmech.core.decisions.learning import TakesWeight
from keras_seqmech.core.layers import SequenceLayer
from keras_seqmech.core.numerics import finite
from keras_seqmech.typing import Tensor


@keras.saving.register_keras_serializable(package="keras_seqmech")
class EmissionProbabilities(TakesWeight, SequenceLayer):
    r"""The probability of each step to be kept by an `ExpectedSubsample`.

    $$e_t = \sigma\big(c\,(w^T h_t + b)\big), \qquad
      w_i \sim N(0, 3^2), \quad b = \operatorname{logit}(r) / c
      \quad\text{at the start,}$$

    a `keras.layers.Dense(1)` with a sigmoid, whose probabilities differ from
    the start (a wide kernel, logits times c), as far as states do, around the
    share r that is to be kept: where all are alike, an expected output is an
    average over dozens of steps, from which layers above learn nothing.

    For d features of standard deviation a, that of the logits is about
    $3 c \sqrt{d}\,a$, and should be between 1 and about 4: far above, the
    probabilities start at 0 and 1, where they have no gradient. States of an
    LSTM over a `keras.layers.Embedding` are too small for it, as its entries
    start within 0.05: give it an `embeddings_initializer` of standard
    deviation 1, or take a larger `scale`. Over such an embedding itself take a
    smaller one.

    Args:
        share: r, above 0 and below 1: at the start, the probability where
            $h_t = 0$, and about the median. To keep the share of kept steps
            near r in training, give the subsample's `penalties` a `target`.
        scale: c, a finite number above 0. The larger, the further from one
            half probabilities start.
        kernel_initializer: Initializer of w; normal with standard deviation 3
            if None.
        kernel_regularizer: Regularizer of w.
        **kwargs: Base layer keyword arguments, such as `name` and `dtype`.

    Call arguments:
        sequence: Tensor `(batch, time, features)`, such as the states of an
            LSTM.
        mask: Boolean tensor `(batch, time)`, True where a step is real, of any
            pattern; all steps if None.
        weight: Tensor `(batch,)`, the weight of what is read, from a
            `ReadingWeight`: one training for a whole range of them. Required in
            every call if the layer was built with it.
        sequence_mask: What Keras fills in for `mask` beside further tensors;
            without effect if that is given.

    Output shape:
        `(batch, time)`, float32 or wider whatever the dtype policy.

    Masking: the values at masked steps reach neither output nor gradient, and
    their probability is 0. The output carries no Keras mask.

    Cost: one pass over the sequences.

    Example:

    >>> import keras
    >>> from keras_seqmech import EmissionProbabilities, ExpectedSubsample
    >>> x = keras.Input((100, 8))
    >>> states = keras.layers.LSTM(16, return_sequences=True)(x)
    >>> e = EmissionProbabilities(share=0.25)(states)
    >>> short = ExpectedSubsample(25)(states, e)
    >>> keras.layers.LSTM(16)(short).shape
    (None, 16)

    Source: the emission probabilities of "Training a Subsampling Mechanism in
    Expectation", section 2; the start is this package's own.
    """

    def __init__(
        self,
        share: float,
        scale: float = 3.0,
        kernel_initializer: Any = None,
        kernel_regularizer: Any = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.share = checks.check_open_share("share", share)
        self.scale = checks.check_positive("scale", scale)
        if kernel_initializer is None:
            kernel_initializer = keras.initializers.RandomNormal(stddev=3.0)
        self.kernel_initializer = checks.get_initializer(
            "kernel_initializer", kernel_initializer
        )
        self.kernel_regularizer = checks.get_regularizer(
            "kernel_regularizer", kernel_regularizer
        )

    def build(
        self, sequence_shape: Sequence[int | None], weight_shape: Any = None
    ) -> None:
        self.check_shape(sequence_shape)
        self.features = sequence_shape[-1]
        self.add_weight_kernel(weight_shape)
        # Probabilities are float32 or wider, and so are their weights.
        self.kernel = self.add_weight(
            name="kernel",
            shape=(sequence_shape[-1],),
            initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer,
            autocast=False,
        )
        start = math.log(self.share / (1 - self.share)) / self.scale
        self.bias = self.add_weight(
            name="bias",
            shape=(),
            initializer=keras.initializers.Constant(start),
            autocast=False,
        )

    def call(
        self,
        sequence: Tensor,
        mask: Tensor | None = None,
        weight: Tensor | None = None,
        sequence_mask: Tensor | None = None,
    ) -> Tensor:
        mask = masks.given(mask, sequence_mask)
        sequence, mask = self.prepare(sequence, mask)
        weight = self.check_weight(weight, sequence)
        steps = masks.zero_masked(sequence, mask)
        steps = ops.cast(steps, self.score_dtype)
        kernel = ops.cast(self.kernel, self.score_dtype)
        bias = ops.cast(self.bias, self.score_dtype)
        logits = self.add_log_weight(ops.matmul(steps, kernel) + bias, weight)
        emission = ops.sigmoid(self.scale * finite(logits))
        return masks.zero_masked(emission, mask)

    def compute_output_shape(
        self, sequence_shape: Sequence[int | None], weight_shape: Any = None
    ) -> tuple[int | None, ...]:
        self.check_shape(sequence_shape)
        return tuple(sequence_shape[:2])

    def compute_output_spec(
        self,
        sequence: Tensor,
        mask: Tensor | None = None,
        weight: Tensor | None = None,
        sequence_mask: Tensor | None = None,
    ) -> keras.KerasTensor:
        self.check_weight(weight, sequence)
        self.prepare(sequence, masks.given(mask, sequence_mask))
        shape = self.compute_output_shape(sequence.shape)
        return keras.KerasTensor(shape, dtype=self.score_dtype)

    def get_config(self) -> dict:
        serialize = keras.saving.serialize_keras_object
        return {
            **super().get_config(),
            "share": self.share,
            "scale": self.scale,
            "kernel_initializer": serialize(self.kernel_initializer),
            "kernel_regularizer": serialize(self.kernel_regularizer),
        }
