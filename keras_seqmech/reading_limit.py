"""The longest wait of a stream, as an input of a model."""

from typing import Any

import keras
from keras import ops

from keras_seqmech.core import checks
from keras_seqmech.core.decisions import choices
from keras_seqmech.reading_weight import check_request_shape
from keras_seqmech.typing import Tensor


@keras.saving.register_keras_serializable(package="keras_seqmech")
class ReadingLimit(keras.layers.Layer):
    r"""Draws the longest wait of an example in training; then it is given.

    `LookAhead`, `ReceptiveFieldRNN` and `EarlyPooling` take it as `limit`: no
    more further steps are read, so that in a stream none is waited for. It is a
    promise, whereas the weight of a `ReadingWeight` is a price. Each request
    chooses its own, after training; a limit of 0 reads nothing ahead.

    In training it is drawn for each example of each batch, uniformly from the
    ints 0 to `most`, whatever is given, so that layers above learn from all of
    them. At inference it is the given number, rounded down, at most `most`.

    Args:
        most: Positive int, at most 2^20, the largest limit: `max_size - 1` of
            the layer, or one less than the longest sequence.
        seed: Int, seed of the limits.
        **kwargs: Base layer keyword arguments, such as `name`.

    Call arguments:
        limit: Int tensor `(batch,)` or `(batch, 1)`, at least 0. In half
            precision a subclassed `keras.Model` rounds floats that it is given.
        training: Whether limits are drawn.

    Input shape: `(batch,)` or `(batch, 1)`.

    Output shape: `(batch,)`, int32.

    Raises:
        ValueError: If the shape is not allowed, or a limit is below 0 or NaN;
            in graphs an `InvalidArgumentError`, and under XLA, which drops
            assertions, such a limit is 0.

    Example:

    >>> from keras_seqmech import LookAhead, ReadingLimit
    >>> x = keras.Input((None, 8))
    >>> limit = keras.Input((), dtype="int32", name="limit")
    >>> y = LookAhead(4)(x, limit=ReadingLimit(3)(limit))
    >>> model = keras.Model([x, limit], keras.layers.LSTM(16)(y))

    Source: this package's own.
    """

    def __init__(self, most: int, seed: int | None = None, **kwargs: Any):
        # No number of steps is rounded.
        super().__init__(autocast=False, **kwargs)
        self.most = checks.check_positive_int("most", most)
        if self.most > 2**20:
            raise ValueError(
                "Argument `most` must be at most 2^20, so that float32 draws "
                f"each. Received: most={most!r}"
            )
        self.seed = checks.check_seed(seed)
        self.seed_generator = keras.random.SeedGenerator(self.seed)
        self.built = True

    def call(self, limit: Tensor, training: bool = False) -> Tensor:
        check_request_shape("limit", limit.shape)
        limit = ops.reshape(limit, (-1,))
        if training:
            drawn = choices.uniform_noise(
                ops.shape(limit), self.seed_generator, most=self.most + 1.0
            )
            # A float just below the end may round to it.
            return ops.minimum(ops.cast(drawn, "int32"), self.most)
        # A narrow dtype, such as uint8, may not hold `most`.
        limit = ops.cast(limit, "float32")
        limit = checks.assert_not_negative("limit", limit)
        # NaN is neither below nor above.
        limit = ops.where(limit > 0, limit, ops.zeros_like(limit))
        return ops.cast(ops.minimum(limit, self.most), "int32")

    def compute_output_shape(self, limit_shape: Any) -> tuple[int | None]:
        check_request_shape("limit", limit_shape)
        return (limit_shape[0],)

    def compute_output_spec(
        self, limit: Tensor, training: bool = False
    ) -> keras.KerasTensor:
        return keras.KerasTensor(
            self.compute_output_shape(limit.shape), "int32"
        )

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "most": self.most, "seed": self.seed}
