"""Losses that layers add with `add_loss`."""

import keras
from keras import ops

from keras_seqmech.typing import Tensor


def batch_mean(costs: Tensor) -> Tensor:
    """Mean cost of the rows of a batch.

    Args:
        costs: Tensor `(batch,)`; the batch may be empty, as on a replica.

    Returns:
        Scalar in the dtype in which Keras adds up losses; 0 for no rows.
    """
    costs = ops.cast(costs, keras.config.floatx())
    count = ops.maximum(ops.shape(costs)[0], 1)
    return ops.sum(costs) / ops.cast(count, costs.dtype)
