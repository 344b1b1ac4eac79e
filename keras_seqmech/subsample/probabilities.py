"""Emission probabilities `(batch, time)`: checks, and decisions."""

import keras
import tensorflow as tf
from keras import ops

from keras_seqmech.core import masks
from keras_seqmech.core.decisions.choices import Decision
from keras_seqmech.core.numerics import finite
from keras_seqmech.typing import Tensor

# Rounding may put sums of probabilities outside of [0, 1] by this much.
_ROUNDING = 1e-5


def checked(
    name: str, values: Tensor, mask: Tensor | None, dtype: str
) -> Tensor:
    """Probabilities in [0, 1].

    Eager execution refuses other values (ValueError); graphs cannot, and clip
    them, NaN to 0. Deviations within rounding are always clipped. Values at
    masked steps are not checked and become 0.
    """
    values = masks.zero_masked(ops.cast(values, dtype), mask)
    if tf.executing_eagerly():
        # False for NaN.
        fits = (values >= -_ROUNDING) & (values <= 1 + _ROUNDING)
        if not tf.reduce_all(fits):
            wrong = float(values[~fits][0])
            raise ValueError(
                f"Argument `{name}` must hold probabilities, from 0 to 1. "
                f"Received: {name}={wrong} among others"
            )
    return ops.clip(finite(values), 0, 1)


def decision(
    probabilities: Tensor,
    emitted: Tensor,
    weighed: Tensor,
    log_probability: Tensor | None,
) -> Decision:
    """The kept steps of a call.

    Args:
        probabilities: From 0 to 1, exact 0 and 1 included.
        emitted: How many times each step is emitted.
        weighed: What auxiliary losses weigh of that.
        log_probability: Log-probability of each decision, or None.
    """
    return Decision(
        probabilities,
        emitted,
        weighed,
        entropy(probabilities),
        4 * probabilities * (1 - probabilities),
        log_probability,
    )


class LogitDeviation(keras.metrics.Metric):
    """Standard deviation of the logits of probabilities; 0 without one.

    Probabilities count as between 1e-6 and 1 - 1e-6.
    """

    def __init__(self, name: str):
        super().__init__(name=name, dtype="float64")
        # Number of logits, their sum, and that of their squares.
        self.moments = self.add_variable(
            (3,), "zeros", dtype=self.dtype, name="moments"
        )

    def update_state(self, probabilities: Tensor, real: Tensor | None) -> None:
        """Adds probabilities `(batch, time)`, at real steps."""
        p = ops.clip(ops.cast(probabilities, self.dtype), 1e-6, 1 - 1e-6)
        logits = ops.log(p / (1 - p))
        count = ops.ones_like(p) if real is None else ops.cast(real, self.dtype)
        moments = [ops.sum(count * logits**power) for power in range(3)]
        self.moments.assign(self.moments + ops.stack(moments))

    def result(self) -> Tensor:
        count, total, squares = ops.unstack(self.moments)
        count = ops.maximum(count, 1)
        variance = squares / count - (total / count) ** 2
        return ops.sqrt(ops.maximum(variance, 0))


def entropy(probabilities: Tensor) -> Tensor:
    """Entropy of each decision in nats, between 0 and log 2."""
    return -(_x_log_x(probabilities) + _x_log_x(1 - probabilities))


def _x_log_x(x: Tensor) -> Tensor:
    r"""$x \log x$, 0 at 0, with a finite gradient there."""
    inside = x > 0
    return ops.where(inside, x * ops.log(ops.where(inside, x, 1.0)), 0.0)
