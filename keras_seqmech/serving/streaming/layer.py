"""Layers that are given a sequence one step after the other."""

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from keras_seqmech.serving.streaming.clock import Clock
from keras_seqmech.typing import Tensor

# What a layer carries from step to step, by name, `(batch, ...)` each.
State = dict[str, Tensor]


class StreamedLayer(keras.layers.Layer):
    """Base of the layers of a streaming network that carry a state.

    Called on a step `(batch, 1, ...)`, it starts from `state` and replaces it
    by the state for the next step.

    Args:
        clock: The clock of the network.
        delay: How many steps the inputs are behind those of the network.
        layer: The layer in place of which it is called.
        waits: How many steps the outputs are behind the inputs.
    """

    def __init__(
        self, clock: Clock, delay: int, layer: keras.Layer, waits: int = 0
    ):
        super().__init__(dtype=layer.dtype_policy, autocast=layer.autocast)
        self.supports_masking = layer.supports_masking
        self.clock = clock
        self.delay = delay
        self.layer = layer
        self.waits = waits
        self.state: State = {}
        # The shape and dtype of the sequence that it is given.
        self.spec = keras.KerasTensor(())
        # The mask of the step that was returned last.
        self.mask: Tensor | None = None

    def initial_state(self, batch_size: Tensor) -> State:
        """The state before the first step."""
        raise NotImplementedError

    def compute_output_spec(
        self, sequence: keras.KerasTensor, *args: Any, **kwargs: Any
    ) -> Any:
        self.spec = keras.KerasTensor(sequence.shape, sequence.dtype)
        return self.layer.compute_output_spec(sequence, *args, **kwargs)

    def start_from(self, given: Any, states: list[Tensor]) -> list[Tensor]:
        """The states before a step; before the first, those given if any."""
        if given is None:
            return states
        is_first = self.clock.is_first(self.output_delay)
        return [
            choose(is_first, ops.cast(first, state.dtype), state)
            for first, state in zip(keras.tree.flatten(given), states)
        ]

    @property
    def output_delay(self) -> int:
        """How many steps the outputs are behind those of the network."""
        return self.delay + self.waits

    def is_real(self, mask: Tensor | None, batch_size: Tensor) -> Tensor:
        """Whether the step that is given is a real one, `(batch, 1)`."""
        real = self.clock.exists(self.delay)
        if mask is not None:
            real = ops.logical_and(real, ops.cast(mask, "bool"))
        return ops.broadcast_to(real, (batch_size, 1))

    def compute_mask(self, sequence: Tensor, mask: Any = None) -> Any:
        """The mask of the step that was returned, if the given one had any.

        Of a layer that waits it is known when the layer runs.
        """
        if mask is None or not self.waits:
            return mask
        return None if isinstance(sequence, keras.KerasTensor) else self.mask


class DelayLine(StreamedLayer):
    """Returns each step, and its mask, `waits` steps later."""

    def __init__(self, clock: Clock, delay: int, waits: int):
        layer = keras.layers.Identity(autocast=False)
        super().__init__(clock, delay, layer, waits)

    def initial_state(self, batch_size: Tensor) -> State:
        shape = (batch_size, self.waits, *self.spec.shape[2:])
        values = tf.zeros(shape, self.spec.dtype)
        mask = tf.zeros((batch_size, self.waits), "bool")
        return {"waiting": values, "mask": mask}

    def call(self, sequence: Tensor, mask: Tensor | None = None) -> Tensor:
        before, self.state = self.state, dict(self.state)
        if mask is not None:
            self.mask, self.state["mask"] = shift(before["mask"], mask)
        current, self.state["waiting"] = shift(before["waiting"], sequence)
        return current

    def compute_output_spec(
        self, sequence: keras.KerasTensor, mask: Any = None
    ) -> keras.KerasTensor:
        return super().compute_output_spec(sequence)


def shift(waiting: Tensor, step: Tensor) -> tuple[Tensor, Tensor]:
    """Pushes a step into a FIFO buffer.

    Args:
        waiting: Tensor `(batch, steps, ...)`, the buffer, oldest step first.
        step: Tensor `(batch, 1, ...)`.

    Returns:
        The oldest step, `(batch, 1, ...)`, and the new buffer.
    """
    both = tf.concat([waiting, step], axis=1)
    return both[:, :1], both[:, 1:]


def choose(condition: Tensor, new: Tensor, old: Tensor) -> Tensor:
    """New values where the condition holds, else old ones, of their dtype."""
    return tf.where(condition, tf.cast(new, old.dtype), old)
