"""What fields read: windows over the steps ahead.

`ReceptiveFieldWindows` makes them for an `RFCell`. A `ReceptiveFieldRNN` only
looks ahead, in tensors that are either padded, `(time, batch, ...)`, or hold
the real steps alone, `(total, ...)` (see `keras_seqmech.core.kept_steps`). The
equations of a field need not know which of the two it is.
"""

from collections.abc import Callable
from typing import Any
from typing import NamedTuple
from typing import TypeAlias

import keras
import tensorflow as tf
from keras import ops

from keras_seqmech._keras_compat import custom_gradient
from keras_seqmech.core import checks
from keras_seqmech.core import masks
from keras_seqmech.core.kept_steps import Packing
from keras_seqmech.core.kept_steps import entries
from keras_seqmech.core.kept_steps import pack
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
        inputs = checks.assert_length("inputs.shape", inputs)
        mask = masks.as_booleans(mask)
        mask = checks.assert_by_step("mask", mask, inputs)
        inputs = ops.cast(inputs, self.compute_dtype)
        real = ops.cast(masks.real_steps(inputs, mask), inputs.dtype)
        inputs = masks.zero_masked(inputs, mask)
        features = ops.concatenate([inputs, real[..., None]], axis=-1)
        return ops.stack(views_ahead(features, self.max_size), axis=2)

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


class PaddedFieldInputs(NamedTuple):
    """Inputs of fields, padded, time first.

    "Steps" stands for the leading axes of the loop, here `(time, batch)`.

    Attributes:
        steps: Tensor `(time, batch, features)`, zeros at masked steps.
        mask: Boolean tensor `(time, batch)`, True at real steps; or None.
        validity: Boolean tensor `(time, batch or 1, S)`: whether each position
            exists and is real.
    """

    steps: Tensor
    mask: Tensor | None
    validity: Tensor

    @property
    def padded_shape(self) -> tuple[Tensor, Tensor]:
        """Number of time steps and of rows, real or not."""
        return ops.shape(self.steps)[:2]

    def ahead(self, values: Tensor) -> list[Tensor]:
        """Views what was computed from `steps` 0, 1, ..., S - 1 steps ahead.

        Returns:
            S tensors `(steps, ...)`. At positions that are not valid their
            values are undefined, but finite where `values` are; a caller
            leaves these out, so that they have no gradient.
        """
        max_size = self.validity.shape[-1]
        return views_ahead(values, max_size, axis=0)

    def take(self, values: Tensor) -> Tensor:
        """Takes the steps from `(time, batch, ...)`; they pass no gradient."""
        return values

    def restore(self, values: Tensor) -> Tensor:
        """Brings `(steps, ...)` to `(batch, time, ...)`, zeros if masked."""
        if self.mask is not None:
            # A product would keep NaN.
            real = self.mask if len(values.shape) == 2 else self.mask[..., None]
            values = ops.where(real, values, ops.zeros_like(values))
        return ops.swapaxes(values, 0, 1)

    def spec(self, width: int, dtype: str) -> tf.TensorSpec:
        """Shape and dtype of values of one step of the loop."""
        return tf.TensorSpec((self.steps.shape[1], width), dtype)


class PackedFieldInputs(NamedTuple):
    """Inputs of fields, the real steps alone.

    It has the methods of `PaddedFieldInputs`, of steps `(total,)`.

    Attributes:
        steps: Tensor `(total, features)`.
        packing: The layout of the real steps.
        validity: Boolean tensor `(total, S)`.
        positions: For each size from 2 on, `(total,)`: the last of `steps` in
            a step's window; the step itself if the window ends there.
        inverse_positions: For each size from 2 on, `(total,)`: the window that
            ends on a step; -1 without such a window.
    """

    steps: Tensor
    packing: Packing
    validity: Tensor
    positions: list[Tensor]
    inverse_positions: list[Tensor]

    @property
    def padded_shape(self) -> tuple[Tensor, Tensor]:
        batch_size, length = tf.unstack(tf.shape(self.packing.keep))
        return length, batch_size

    def ahead(self, values: Tensor) -> list[Tensor]:
        further = zip(self.positions, self.inverse_positions)
        return [values, *(_view(values, *places) for places in further)]

    def take(self, values: Tensor) -> Tensor:
        places = tf.stack([self.packing.times, self.packing.rows], axis=1)
        return tf.gather_nd(values, places)

    def restore(self, values: Tensor) -> Tensor:
        return self.packing.scatter(values)

    def spec(self, width: int, dtype: str) -> tf.TensorSpec:
        return tf.TensorSpec((None, width), dtype)


FieldInputs: TypeAlias = PaddedFieldInputs | PackedFieldInputs


def pad_inputs(
    sequences: Tensor, mask: Tensor | None, max_size: int
) -> PaddedFieldInputs:
    """Brings sequences into the form in which a padded loop reads them."""
    steps = masks.zero_masked(sequences, mask)
    if mask is None:
        # All rows are alike, and one row of validity serves all.
        real = ops.ones((ops.shape(steps)[1], 1), "bool")
    else:
        real = mask = ops.transpose(mask)
    return PaddedFieldInputs(
        ops.transpose(steps, (1, 0, 2)),
        mask,
        ops.stack(views_ahead(real, max_size, axis=0), axis=-1),
    )


def pack_inputs(
    sequences: Tensor, mask: Tensor, max_size: int
) -> PackedFieldInputs:
    """Brings sequences with a mask into the form of a packed loop."""
    # Static sizes of the steps hold for the mask too.
    packing = pack(tf.ensure_shape(mask, sequences.shape[:2]))
    rows, times = packing.rows, packing.times
    total = tf.shape(rows)[0]
    # By row and time: the index of the step in `steps`; -1 elsewhere.
    indices = tf.where(packing.keep, packing.last, -1)
    distances = tf.range(1, max_size)[:, None]
    found = _lookup(indices, rows, times + distances)
    is_valid = tf.concat([tf.fill([1, total], True), found >= 0], axis=0)
    positions = tf.where(found >= 0, found, tf.range(total))
    inverse_positions = _lookup(indices, rows, times - distances)
    return PackedFieldInputs(
        packing.gather(sequences),
        packing,
        tf.transpose(is_valid),
        tf.unstack(positions, num=max_size - 1),
        tf.unstack(inverse_positions, num=max_size - 1),
    )


def _lookup(table: Tensor, rows: Tensor, times: Tensor) -> Tensor:
    """Entries `(distances, steps)` of `(batch, time)`; -1 past the ends."""
    length = tf.shape(table)[1]
    exists = (times >= 0) & (times < length)
    indices = rows * length + tf.clip_by_value(times, 0, length - 1)
    found = tf.gather(tf.reshape(table, [-1]), indices)
    return tf.where(exists, found, -1)


def _view(
    values: Tensor, positions: Tensor, inverse_positions: Tensor
) -> Tensor:
    """Values at positions; at most one step reads each of them."""

    @custom_gradient
    def view(values: Tensor) -> tuple[Tensor, Callable]:
        def gradient(upstream: Tensor) -> Tensor:
            return entries(upstream, inverse_positions)

        return tf.gather(values, positions), gradient

    return view(values)
