"""Layers around a recurrent layer."""

from collections.abc import Sequence
from typing import Any

import keras

from keras_seqmech.core import checks
from keras_seqmech.core import masks
from keras_seqmech.core.layers import freeze_parts
from keras_seqmech.core.layers import unbuilt_config
from keras_seqmech.core.stream import steps_of
from keras_seqmech.typing import Tensor


def directions(layer: keras.layers.Layer) -> list[keras.layers.Layer]:
    """The layer of each direction, one or two."""
    if isinstance(layer, keras.layers.Bidirectional):
        return [layer.forward_layer, layer.backward_layer]
    return [layer]


def unwrapped(layer: keras.layers.Layer) -> keras.layers.Layer:
    """The layer within any number of wrappers."""
    return unwrapped(layer.wrapped) if isinstance(layer, Wrapper) else layer


class Wrapper(keras.layers.Layer):
    """Base of layers that call another one over sequences.

    No gradient depends on the values at masked steps, and each output that is
    a sequence has the mask, in every version of Keras. The layer is a
    `keras.layers.RNN`, or a `keras.layers.Bidirectional` of one; its dtype
    policy is the default.
    """

    # Name of the argument and attribute that holds the layer.
    wraps: str

    def __init__(self, layer: keras.layers.Layer, **kwargs: Any):
        kwargs.setdefault("dtype", layer.dtype_policy)
        super().__init__(autocast=layer.autocast, **kwargs)
        setattr(self, self.wraps, layer)
        freeze_parts(self)
        self.supports_masking = True
        # Features of the sequences, from `build` on.
        self.features: int | None = None

    @property
    def wrapped(self) -> Any:
        """The layer within."""
        return getattr(self, self.wraps)

    @property
    def stateful(self) -> bool:
        """True if the layer starts from the states of its last call."""
        return getattr(self.wrapped, "stateful", False)

    def reset_state(self) -> None:
        """Sets the states that a stateful layer keeps to zeros."""
        if self.stateful:
            self.wrapped.reset_state()

    # Its other name in Keras.
    reset_states = reset_state

    def build(self, sequence_shape: Sequence[int | None]) -> None:
        self.check_shape(sequence_shape)
        self.features = sequence_shape[-1]
        if not self.wrapped.built:
            self.wrapped.build(sequence_shape)

    def check_shape(self, shape: Sequence[int | None]) -> None:
        """Checks that the input is what the layer reads, vectors or windows,
        with the features of `build`."""
        rnn = directions(self.wrapped)[0]
        size = getattr(getattr(rnn, "cell", None), "window_size", None)
        if type(rnn) is keras.layers.RNN and size is not None:
            checks.check_windows("sequence.shape", shape, size)
        else:
            checks.check_sequences("sequence.shape", shape)
        checks.check_features("sequence.shape", shape, self.features)

    def check_call(
        self, sequence: Tensor, initial_state: Any, mask: Tensor | None
    ) -> None:
        """Refuses what does not fit, as far as it is static."""
        self.check_shape(sequence.shape)
        checks.check_mask("mask", mask, sequence.shape)

    def start(self, sequence: Tensor, initial_state: Any) -> Any:
        """The states to start from; None for those of the layer."""
        return initial_state

    def call(
        self,
        sequence: Tensor,
        initial_state: Any = None,
        mask: Tensor | None = None,
        training: bool = False,
        sequence_mask: Tensor | None = None,
        **kwargs: Any,
    ) -> Any:
        mask = masks.given(mask, sequence_mask)
        self.check_call(sequence, initial_state, mask)
        sequence, mask = checks.assert_steps(sequence, mask)
        if self.stateful:
            states = directions(self.wrapped)[0].states
            sequence = checks.assert_stateful_rows(sequence, states)
        states = self.start(sequence, initial_state)
        if states is not None:
            kwargs["initial_state"] = states
        return self.run(sequence, mask, training=training, **kwargs)

    def run(self, sequence: Tensor, mask: Tensor | None, **kwargs: Any) -> Any:
        """Calls the layer within."""
        sequence = masks.zero_masked(sequence, mask)
        return self.wrapped(sequence, mask=mask, **kwargs)

    def get_initial_state(self, batch_size: int | Tensor) -> list:
        """The states before the first step of a batch."""
        return self.wrapped.get_initial_state(batch_size=batch_size)

    def stream_steps(self, owner: Any = None) -> Any:
        """The steps of the layer within, from the initial states of this."""
        return steps_of(self.wrapped, self)

    def compute_mask(self, sequence: Tensor, mask: Any = None) -> Any:
        return masks.output_masks(self.wrapped, mask)

    def compute_output_shape(self, sequence_shape: Sequence[int | None]) -> Any:
        self.check_shape(sequence_shape)
        return self.wrapped.compute_output_shape(sequence_shape)

    def compute_output_spec(
        self,
        sequence: Tensor,
        initial_state: Any = None,
        mask: Tensor | None = None,
        training: bool = False,
        sequence_mask: Tensor | None = None,
        **kwargs: Any,
    ) -> Any:
        mask = masks.given(mask, sequence_mask)
        self.check_call(sequence, initial_state, mask)
        return self.wrapped.compute_output_spec(sequence, mask=mask, **kwargs)

    def get_config(self) -> dict[str, Any]:
        config = unbuilt_config(self.wrapped)
        return {**super().get_config(), self.wraps: config}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Wrapper":
        layer = keras.saving.deserialize_keras_object(config[cls.wraps])
        return cls(**{**config, cls.wraps: layer})
