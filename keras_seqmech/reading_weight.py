"""The weight of what is read, as an input of a model."""

import math
from typing import Any

import keras
from keras import ops

from keras_seqmech.core import checks
from keras_seqmech.core.decisions import choices
from keras_seqmech.core.numerics import score_dtype
from keras_seqmech.typing import Tensor


def check_request_shape(name: str, shape: Any) -> None:
    """Refuses what is not one number an example."""
    if len(shape) != 1 and tuple(shape)[1:] != (1,):
        raise ValueError(
            f"Argument `{name}` must be of shape (batch,) or (batch, 1): one "
            f"number an example. Received: {name}.shape={tuple(shape)}"
        )


@keras.saving.register_keras_serializable(package="keras_seqmech")
class ReadingWeight(keras.layers.Layer):
    r"""Draws the weight of what is read in training; at inference it is given.

    Layers that decide take it as `weight`. It multiplies the penalty on what an
    example reads, and decisions see its logarithm, so that one training covers
    a range of trade-offs between accuracy and what is read (how long a stream
    waits, how many gates open). Each request chooses one, after training: a
    large weight reads little.

    Its unit is that of the loss: what one further step read must save of the
    mean loss of a step, nats under cross entropy. Of an
    `EarlyPooling` it is what a step must save of the answer's loss; of gates
    and kept steps, of which the share is penalized, what reading all must save.

    In training it is drawn for each example of each batch, log-uniformly,

    $$\log w_i \sim \mathrm{Uniform}(\log w_{\min},\, \log w_{\max}),$$

    whatever is given; at inference a given weight is held within the range.
    Beyond 65,504, the largest number of float16, all weights act alike.

    The auxiliary loss `reading` of the layers is then a factor of it. Set
    `DecisionPenalties(reading=1.0)`, or let `ExploreThenCommit` raise it to 1.

    Args:
        least: Positive float, $w_{\min}$.
        most: Float above `least`, $w_{\max}$. The default range is that of tags
            of a stream: from all that helps to hardly anything.
        seed: Int, seed of the weights.
        **kwargs: Base layer keyword arguments, such as `name`.

    Call arguments:
        weight: Tensor `(batch,)` or `(batch, 1)`, at least 0.
        training: Whether weights are drawn.

    Input shape: `(batch,)` or `(batch, 1)`.

    Output shape: `(batch,)`, float32 or wider.

    Raises:
        ValueError: If the shape is not allowed, or a weight is below 0 or NaN;
            in graphs an `InvalidArgumentError`, and under XLA, which drops
            assertions, such a weight is held at `least`.

    Example:

    >>> x = keras.Input((None, 8))
    >>> weight = keras.Input((), name="weight")
    >>> from keras_seqmech import LookAhead, ReadingWeight
    >>> y = LookAhead(4)(x, weight=ReadingWeight()(weight))
    >>> model = keras.Model([x, weight], keras.layers.LSTM(16)(y))

    Source: this package's own. Training over a range of losses that the model
    sees is that of "You Only Train Once" (Dosovitskiy and Djolonga, 2020).
    """

    def __init__(
        self,
        least: float = 0.0005,
        most: float = 0.5,
        seed: int | None = None,
        **kwargs: Any,
    ):
        # The range is held, and weights are drawn, in float32 or wider.
        super().__init__(autocast=False, **kwargs)
        self.least = checks.check_positive("least", least)
        self.most = checks.check_positive("most", most)
        if self.most <= self.least:
            raise ValueError(
                f"Argument `most` must be above `least`, {least}. "
                f"Received: most={most}"
            )
        self.seed = checks.check_seed(seed)
        self.seed_generator = keras.random.SeedGenerator(self.seed)
        self.built = True

    def call(self, weight: Tensor, training: bool = False) -> Tensor:
        check_request_shape("weight", weight.shape)
        weight = ops.reshape(ops.cast(weight, self.score_dtype), (-1,))
        if training:
            low, high = math.log(self.least), math.log(self.most)
            shape, dtype = ops.shape(weight), self.score_dtype
            return ops.exp(
                choices.uniform_noise(
                    shape, self.seed_generator, dtype, low, high
                )
            )
        weight = checks.assert_not_negative("weight", weight)
        # NaN is neither below nor above.
        weight = ops.where(weight > self.least, weight, self.least)
        return ops.minimum(weight, self.most)

    @property
    def score_dtype(self) -> str:
        """The dtype of the weights."""
        return score_dtype(self.compute_dtype)

    def compute_output_shape(self, weight_shape: Any) -> tuple[int | None]:
        check_request_shape("weight", weight_shape)
        return (weight_shape[0],)

    def compute_output_spec(
        self, weight: Tensor, training: bool = False
    ) -> keras.KerasTensor:
        return keras.KerasTensor(
            self.compute_output_shape(weight.shape), self.score_dtype
        )

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "least": self.least,
            "most": self.most,
            "seed": self.seed,
        }
