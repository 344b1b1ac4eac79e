"""A wrapper whose outputs keep the mask of the inputs."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_seqmech.core import checks
from keras_seqmech.core.graph import sublayers
from keras_seqmech.core.wrapped import Wrapper
from keras_seqmech.typing import Tensor

KINDS = (
    keras.layers.RNN,
    keras.layers.Bidirectional,
    keras.layers.TimeDistributed,
)


@keras.saving.register_keras_serializable(package="keras_seqmech")
class KeepMask(Wrapper):
    """A layer whose output sequence has the mask of its input.

    From Keras 3.16 on `keras.layers.RNN` (`LSTM`, `GRU`, ...),
    `keras.layers.Bidirectional` and `keras.layers.TimeDistributed` do not pass
    masks on: the layer after them, a pooling for example, sees padding as if
    it were real. Within this layer they do, in every version of Keras.

    Args:
        layer: A `keras.layers.RNN` of any kind, a `keras.layers.Bidirectional`
            or a `keras.layers.TimeDistributed`. Its `supports_masking` becomes
            True.
        **kwargs: Base layer keyword arguments, such as `name`. The dtype
            policy defaults to that of `layer`.

    Call arguments:
        sequence: Tensor `(batch, time, features)`; the windows of
            `ReceptiveFieldWindows` for an `RFCell` in a `keras.layers.RNN`;
            what the `keras.layers.TimeDistributed` takes.
        mask: Boolean tensor `(batch, time)`, any pattern, True where a step
            is real. A `keras.layers.TimeDistributed` over sequences, such as
            `(batch, sentences, words, features)`, also takes one of
            `(batch, sentences, words)`.
        initial_state: List of initial states of a recurrent layer.
        training: Whether the wrapped layer trains.
        sequence_mask: What Keras fills in for `mask` beside further tensors;
            without effect if that is given.
        **kwargs: Further call arguments of the wrapped layer.

    Output shape:
        That of the wrapped layer.

    Masking: that of the wrapped layer; in addition, no gradient of a recurrent
    layer depends on the values at masked steps. Outputs that are sequences
    have the mask, states have no mask. Where a `keras.layers.TimeDistributed`
    makes a vector of each sentence, a sentence without a word is masked.

    Cost: that of the wrapped layer.

    Example:

    >>> import keras, numpy as np
    >>> tokens = keras.Input((None,), dtype="int32")
    >>> x = keras.layers.Embedding(9, 4, mask_zero=True)(tokens)
    >>> rnn = keras.layers.LSTM(8, return_sequences=True)
    >>> x = KeepMask(keras.layers.Bidirectional(rnn))(x)
    >>> model = keras.Model(tokens, keras.layers.GlobalAveragePooling1D()(x))
    >>> short, long = model(np.array([[3, 4]])), model(np.array([[3, 4, 0]]))
    >>> np.allclose(short, long, atol=1e-6)
    True
    """

    wraps = "layer"

    def __init__(self, layer: keras.layers.Layer, **kwargs: Any):
        if not isinstance(layer, KINDS):
            raise ValueError(
                "Argument `layer` must be a `keras.layers.RNN`, such as "
                "`keras.layers.LSTM(units)`, a `keras.layers.Bidirectional` or "
                f"a `keras.layers.TimeDistributed`. Received: layer={layer!r}"
            )
        super().__init__(layer, **kwargs)
        for part in sublayers(layer):
            if isinstance(part, KINDS):
                # Else Keras warns of the mask that it drops and this one keeps.
                part.supports_masking = True
        self._steps_alone = isinstance(layer, keras.layers.TimeDistributed)

    def check_shape(self, shape: Sequence[int | None]) -> None:
        if not self._steps_alone:
            super().check_shape(shape)

    def check_call(
        self, sequence: Tensor, initial_state: Any, mask: Tensor | None
    ) -> None:
        if not self._steps_alone:
            super().check_call(sequence, initial_state, mask)
            return
        shape = sequence.shape
        # Ids have no axis of features.
        has_features = keras.backend.is_float_dtype(sequence.dtype)
        checks.check_mask("mask", mask, shape, len(shape) - has_features)
        if initial_state is not None:
            raise ValueError(
                "Argument `initial_state` must be None of a "
                "`keras.layers.TimeDistributed`, which has no states. "
                f"Received: initial_state={initial_state!r}"
            )

    def run(self, sequence: Tensor, mask: Tensor | None, **kwargs: Any) -> Any:
        if not self._steps_alone:
            return super().run(sequence, mask, **kwargs)
        shape = ops.shape(sequence)
        if mask is not None:
            # A masked sentence has no words.
            axes = tuple(range(len(mask.shape), len(shape) - 1))
            if axes:
                mask = ops.expand_dims(mask, axis=axes)
                mask = ops.broadcast_to(mask, shape[:-1])
        if sequence.shape[1] is None:
            # Keras takes as many steps as the batch has rows. So each step
            # becomes a row of one step.
            sequence = _as_rows(sequence)
            mask = None if mask is None else _as_rows(mask)
        outputs = self.layer(sequence, mask=mask, **kwargs)
        # A new tensor, without the mask that the layer within passes on.
        shape = (*shape[:2], *ops.shape(outputs)[2:])
        return ops.reshape(outputs, shape)

    def compute_mask(self, sequence: Tensor, mask: Any = None) -> Any:
        if self._steps_alone and mask is not None and len(mask.shape) > 2:
            outputs = self.compute_output_shape(tuple(sequence.shape))
            axes = range(max(2, len(outputs) - 1), len(mask.shape))
            return ops.any(mask, axis=tuple(axes)) if axes else mask
        return super().compute_mask(sequence, mask)


def _as_rows(values: Tensor) -> Tensor:
    return ops.reshape(values, (-1, 1, *ops.shape(values)[2:]))
