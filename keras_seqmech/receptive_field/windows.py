"""Windows over the steps ahead, the step inputs of an `RFCell`."""

from typing import Any

import keras
from keras import ops

from keras_seqmech.core import checks
from keras_seqmech.core import masks
from keras_seqmech.receptive_field.ahead import views_ahead
from keras_seqmech.typing import Tensor


@keras.saving.register_keras_serializable(package="keras_seqmech")
class ReceptiveFieldWindows(keras.layers.Layer):
    """Look-ahead windows, the step inputs of an `RFCell`.

    Window t holds steps `t, t + 1, ..., t + max_size - 1`, each with a number
    v that is 1 if the step exists and is real, else 0:

    $$w_{t,i} = [x_{t+i-1} v_{t+i-1};\\; v_{t+i-1}], \\quad i = 1..S$$

    Args:
        max_size: Positive int, the window size S.
        **kwargs: Base layer keyword arguments, such as `name` and `dtype`.

    Call arguments:
        sequence: Tensor `(batch, time, features)`.
        mask: Boolean tensor `(batch, time)`, True where a step is real.

    Input shape:
        `(batch, time, features)`.

    Output shape:
        `(batch, time, max_size, features + 1)`. The last feature is 1 where
        the position exists and is not masked; elsewhere all features are 0.

    Masking: the values at masked steps do not reach the output. Pass the
    same mask on to the `keras.layers.RNN` that runs the cell. To read from the
    end, flip the sequence before its windows are made: `go_backwards=True` of
    the `keras.layers.RNN` would flip the windows, each of which still looks
    towards the end.

    Cost: S copies of the input, in time and memory. `ReceptiveFieldRNN` gives
    the same answers without them.

    Example:

    >>> import numpy as np
    >>> windows = ReceptiveFieldWindows(max_size=2)(np.ones((1, 3, 4)))
    >>> windows.shape
    TensorShape([1, 3, 2, 5])
    >>> windows[0, :, 1, -1].numpy()  # nothing follows the last step
    array([1., 1., 0.], dtype=float32)

    Source: "An Informative Adaptive Receptive Field Model for Recurrent
    Neural Networks".
    """

    def __init__(self, max_size: int, **kwargs: Any):
        super().__init__(**kwargs)
        self.max_size = checks.check_positive_int("max_size", max_size)
        self.supports_masking = True

    def build(self, sequence_shape: Any) -> None:
        checks.check_sequences("sequence.shape", sequence_shape)

    def call(self, sequence: Tensor, mask: Tensor | None = None) -> Tensor:
        self._check_call(sequence, mask)
        sequence, mask = checks.assert_steps(sequence, mask)
        sequence = ops.cast(sequence, self.compute_dtype)
        real = ops.cast(masks.real_steps(sequence, mask), sequence.dtype)
        sequence = masks.zero_masked(sequence, mask)
        features = ops.concatenate([sequence, real[..., None]], axis=-1)
        return ops.stack(views_ahead(features, self.max_size), axis=2)

    def _check_call(self, sequence: Tensor, mask: Tensor | None) -> None:
        checks.check_sequences("sequence.shape", sequence.shape)
        checks.check_mask("mask", mask, sequence.shape)

    def compute_output_shape(self, sequence_shape: Any) -> tuple:
        checks.check_sequences("sequence.shape", sequence_shape)
        batch_size, length, features = sequence_shape
        return (batch_size, length, self.max_size, features + 1)

    def compute_output_spec(
        self, sequence: Tensor, mask: Tensor | None = None
    ) -> keras.KerasTensor:
        self._check_call(sequence, mask)
        shape = self.compute_output_shape(sequence.shape)
        return keras.KerasTensor(shape, dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "max_size": self.max_size}
