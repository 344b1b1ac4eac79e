"""Layers that are given a sequence one step after the other."""

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from keras_seqmech.typing import Tensor

# What a layer carries from step to step: tensors `(batch, ...)`, or lists.
State = dict[str, Any]
# The length of a sequence that has not ended.
ENDLESS = 2**31 - 1


class Clock:
    """Position and length of the stream, set before each of its steps.

    Attributes:
        position: int32 scalar, how many steps were given before.
        length: int32 scalar, the steps of the sequence if its end is known,
            else `ENDLESS`.
    """

    def __init__(self) -> None:
        self.position: Tensor = 0
        self.length: Tensor = ENDLESS

    def exists(self, delay: int) -> Tensor:
        """Whether the sequence has the step that lies a delay behind."""
        step = self.position - delay
        return ops.logical_and(step >= 0, step < self.length)


class StreamedLayer(keras.layers.Layer):
    """A layer that carries a state, called on one step `(batch, 1, ...)`.

    It starts from `state` and replaces it by the state for the next step.

    Args:
        clock: The clock of the network.
        delay: Number of steps that the inputs are behind those of the network.
        layer: The layer in place of which it is called.
    """

    def __init__(self, clock: Clock, delay: int, layer: keras.Layer):
        super().__init__(dtype=layer.dtype_policy, autocast=layer.autocast)
        self.supports_masking = layer.supports_masking
        self.clock = clock
        self.delay = delay
        self.layer = layer
        self.state: State = {}
        # The shape and dtype of the sequence that it is given.
        self.spec = keras.KerasTensor(())
        # The mask of the step that was returned last, of a layer that waits.
        self.mask: Tensor | None = None

    @property
    def waits(self) -> int:
        """Number of steps that the outputs are behind the inputs."""
        return 0

    @property
    def keeps(self) -> int:
        """Number of earlier steps that are read with each one."""
        return self.waits

    @property
    def output_delay(self) -> int:
        """Number of steps that the outputs are behind those of the network."""
        return self.delay + self.waits

    def initial_state(self, batch_size: Tensor) -> State:
        """The state before the first step."""
        state = {}
        if self.keeps:
            shape = (batch_size, self.keeps, *self.spec.shape[2:])
            state["steps"] = tf.zeros(shape, self.spec.dtype)
        if self.waits:
            state["real"] = tf.zeros((batch_size, self.waits), "bool")
        return state

    def read(
        self, sequence: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Takes a step.

        Returns:
            The steps that are kept and this one, `(batch, keeps + 1, ...)`,
            zeros where the sequence has none; and whether the last
            `waits + 1` of them are real.
        """
        exists = self.clock.exists(self.delay)
        real = exists
        if mask is not None:
            real = ops.logical_and(exists, ops.cast(mask, "bool"))
        real = ops.broadcast_to(real, ops.shape(sequence)[:2])
        steps = tf.where(exists, sequence, tf.zeros_like(sequence))
        if self.keeps:
            steps = tf.concat([self.state["steps"], steps], axis=1)
            self.state = {**self.state, "steps": steps[:, 1:]}
        if self.waits:
            real = tf.concat([self.state["real"], real], axis=1)
            self.state = {**self.state, "real": real[:, 1:]}
        self.mask = real[:, :1]
        return steps, real

    def start_from(self, given: Any, states: list[Tensor]) -> list[Tensor]:
        """The states before a step; before the first, those given if any."""
        if given is None:
            return states
        is_first = ops.equal(self.clock.position, self.output_delay)
        return [
            choose(is_first, first, state)
            for first, state in zip(keras.tree.flatten(given), states)
        ]

    def compute_output_spec(
        self, sequence: keras.KerasTensor, *args: Any, **kwargs: Any
    ) -> Any:
        self.spec = keras.KerasTensor(sequence.shape, sequence.dtype)
        return self.layer.compute_output_spec(sequence, *args, **kwargs)

    def compute_mask(self, sequence: Tensor, mask: Any = None) -> Any:
        """The layer's mask for the step that was returned.

        Of a layer that waits it is known when the layer runs.
        """
        if self.waits and mask is not None:
            is_symbolic = isinstance(sequence, keras.KerasTensor)
            mask = None if is_symbolic else self.mask
        return self.layer.compute_mask(sequence, mask)


class DelayLine(StreamedLayer):
    """Returns each step, and its mask, some steps later."""

    def __init__(self, clock: Clock, delay: int, waits: int):
        super().__init__(clock, delay, keras.layers.Identity(autocast=False))
        self._waits = waits

    @property
    def waits(self) -> int:
        return self._waits

    def call(self, sequence: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.read(sequence, mask)[0][:, :1]

    def compute_output_spec(
        self, sequence: keras.KerasTensor, mask: Any = None
    ) -> keras.KerasTensor:
        return super().compute_output_spec(sequence)


def choose(condition: Tensor, new: Tensor, old: Tensor) -> Tensor:
    """New values where the condition holds, else old ones, of their dtype."""
    return tf.where(condition, tf.cast(new, old.dtype), old)
