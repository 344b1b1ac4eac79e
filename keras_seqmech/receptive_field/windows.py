"""Windows over the steps ahead, and the layer that makes them."""

from typing import Any

import keras
from keras import ops

from keras_seqmech.core import checks
from keras_seqmech.core import masks
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
        inputs: Tensor `(batch, time, features)`.
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

    def build(self, input_shape: Any) -> None:
        checks.check_sequences("inputs.shape", input_shape)

    def call(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        self._check_call(inputs, mask)
        mask = masks.as_booleans(mask)
        mask = checks.assert_by_step("mask", mask, inputs)
        inputs = ops.cast(inputs, self.compute_dtype)
        return look_ahead_windows(inputs, self.max_size, mask)

    def _check_call(self, inputs: Tensor, mask: Tensor | None) -> None:
        checks.check_sequences("inputs.shape", inputs.shape)
        checks.check_mask("mask", mask, inputs.shape)

    def compute_output_shape(self, input_shape: Any) -> tuple:
        checks.check_sequences("inputs.shape", input_shape)
        batch_size, length, features = input_shape
        return (batch_size, length, self.max_size, features + 1)

    def compute_output_spec(
        self, inputs: Tensor, mask: Tensor | None = None
    ) -> keras.KerasTensor:
        self._check_call(inputs, mask)
        shape = self.compute_output_shape(inputs.shape)
        return keras.KerasTensor(shape, dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "max_size": self.max_size}


def look_ahead(
    sequences: Tensor, max_size: int, length: Tensor, axis: int = 1
) -> list[Tensor]:
    """Views a sequence `0, 1, ..., max_size - 1` steps ahead.

    Args:
        sequences: Tensor with its time steps along `axis`. Steps beyond
            `length` serve as what comes after the end; zeros follow them.
        max_size: How many views, S.
        length: Number of steps T of each view, an int or a scalar tensor.
        axis: The time axis, 0 or 1.

    Returns:
        List of S tensors with T steps; step t of view i is step `t + i` of
        `sequences`.
    """
    padding = [[0, 0] for _ in sequences.shape]
    padding[axis][1] = max_size - 1
    padded = ops.pad(sequences, padding)
    if axis == 0:
        return [padded[i : i + length] for i in range(max_size)]
    return [padded[:, i : i + length] for i in range(max_size)]


def look_ahead_windows(
    sequences: Tensor, max_size: int, mask: Tensor | None = None
) -> Tensor:
    """Stacks each step with the `max_size - 1` steps after it.

    Args:
        sequences: Tensor `(batch, time, features)`.
        max_size: Window size S.
        mask: Boolean tensor `(batch, time)`, True = real. None: all are.

    Returns:
        Tensor `(batch, time, S, features + 1)`. The last feature is 1 where
        the position exists and is not masked; elsewhere all features are 0.
    """
    length = ops.shape(sequences)[1]
    if mask is None:
        mask = ops.ones(ops.shape(sequences)[:2], dtype="bool")
    mask = ops.cast(mask, "bool")
    real = ops.expand_dims(ops.cast(mask, sequences.dtype), axis=-1)
    sequences = masks.zero_masked(sequences, mask)
    features = ops.concatenate([sequences, real], axis=-1)
    return ops.stack(look_ahead(features, max_size, length), axis=2)
