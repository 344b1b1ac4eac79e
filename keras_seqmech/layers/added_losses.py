"""What layers hand to `add_loss`."""

from typing import Any

import keras
from keras import ops


def batch_mean(costs: Any) -> Any:
    """Mean cost of the rows of a batch.

    Args:
        costs: Tensor `(batch,)`; the batch may be empty, as that of a replica.

    Returns:
        Scalar in the dtype that Keras adds losses up in; 0 for no rows.
    """
    costs = ops.cast(costs, keras.config.floatx())
    count = ops.maximum(ops.shape(costs)[0], 1)
    return ops.sum(costs) / ops.cast(count, costs.dtype)
