"""What makes the gates of a focused encoder decide themselves."""

import keras
from keras import ops

from keras_seqmech.layers import added_losses
from keras_seqmech.typing import Tensor


@keras.saving.register_keras_serializable(package="keras_seqmech_examples")
class IndecisionPenalty(keras.layers.Layer):
    r"""Hands on states, and in training charges for undecided gates.

    $$\lambda \cdot \mathrm{mean}_t\, 4 p_t (1 - p_t)$$

    with p the probabilities of being open, in [0, 1] a gate. Where several
    steps would do, sparse gates share the work: each is open in a fifth of
    the draws, some are in every draw, and at inference, where gates are open
    above one half, none is. The charge makes one gate the one that opens.

    It has a gradient of its own, whatever the estimator. The variable
    `indecision_weight`, $\lambda$, starts at 0; a callback is to raise it
    once gates know what to decide.

    Call arguments:
        states: Tensor of any shape.
        probabilities: `(B, T)`.

    Returns:
        The states.
    """

    def build(
        self,
        states_shape: tuple[int | None, ...],
        probabilities_shape: tuple[int | None, ...],
    ) -> None:
        self.indecision_weight = self.add_weight(
            name="indecision_weight",
            shape=(),
            dtype="float32",
            initializer="zeros",
            constraint="non_neg",
            trainable=False,
        )

    def call(
        self, states: Tensor, probabilities: Tensor, training: bool = False
    ) -> Tensor:
        if training:
            undecided = 4 * probabilities * (1 - probabilities)
            cost = added_losses.batch_mean(ops.mean(undecided, axis=1))
            weight = ops.cast(self.indecision_weight, cost.dtype)
            self.add_loss(weight * cost)
        return states

    def compute_output_shape(
        self,
        states_shape: tuple[int | None, ...],
        probabilities_shape: tuple[int | None, ...],
    ) -> tuple[int | None, ...]:
        return states_shape
