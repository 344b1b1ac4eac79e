"""Constraints on the weights of layers."""

import keras
from keras import ops

from keras_seqmech.typing import Tensor


@keras.saving.register_keras_serializable(package="keras_seqmech")
class UnitInterval(keras.constraints.Constraint):
    """Holds each entry of a weight between 0 and 1.

    A weight at 0 has the gradient it would have without the constraint, so it
    leaves as soon as the loss would fall.
    """

    def __call__(self, weight: Tensor) -> Tensor:
        return ops.clip(weight, 0, 1)
