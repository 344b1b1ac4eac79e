"""Continuous integrate-and-fire, a plain reference to compare with.

Source: L. Dong and B. Xu, "CIF: Continuous Integrate-and-Fire for End-to-End
Speech Recognition", 2020, section 2.
"""

from typing import Any

import keras
from keras import ops

from keras_seqmech.core import masks
from keras_seqmech.typing import Tensor


def firing_weights(alphas: Tensor, length: int) -> Tensor:
    r"""How much of each step goes into each output.

    Weights $\alpha_t$ are accumulated; when the sum reaches 1, the weighted sum
    of the states is fired, and the overshoot of the last step goes into the
    next output. So with $c_t = \alpha_1 + \dots + \alpha_t$ output u has as
    much of step t as the intervals $(c_{t-1}, c_t)$ and $(u, u + 1)$ share:

    $$w_{u,t} = \max(0, \min(c_t, u + 1) - \max(c_{t-1}, u))$$

    Of weights `(batch, time)` it returns `(batch, U, time)`, whose rows have a
    sum of 1; that of the last one with any weight is the remainder. Outputs
    beyond `length` are left out.
    """
    ends = ops.cumsum(alphas, axis=1)[:, None]
    begins = ends - alphas[:, None]
    first = ops.arange(length, dtype=alphas.dtype)[None, :, None]
    shared = ops.minimum(ends, first + 1) - ops.maximum(begins, first)
    return ops.maximum(shared, 0)


class IntegrateAndFire(keras.layers.Layer):
    r"""Fires the weighted mean of the states each time weights add up to 1.

    $\alpha_t$ is a sigmoid of the state. In training weights are scaled to a
    sum of the number of steps times `share`, and the distance of the unscaled
    sum to it is added to the loss, as a share of the steps. At inference a
    remainder of one half or more is fired, too. Returns `length` outputs at
    most, and a mask. The metric `<name>_length` is the mean number of firings.
    """

    def __init__(
        self, length: int, share: float, quantity_weight: float, **kwargs: Any
    ):
        super().__init__(**kwargs)
        self.length = length
        self.share = share
        self.quantity_weight = quantity_weight
        self.logit = keras.layers.Dense(
            1, dtype=self.dtype_policy, name="logit"
        )
        self.length_metric = keras.metrics.Mean(f"{self.name}_length")
        self.supports_masking = True

    def build(self, states_shape: Any, mask_shape: Any = None) -> None:
        self.logit.build(states_shape)

    def compute_mask(self, states: Tensor, mask: Tensor | None = None) -> None:
        # It returns a mask of its own.
        return None

    def call(
        self,
        states: Tensor,
        mask: Tensor | None = None,
        training: bool = False,
    ) -> tuple[Tensor, Tensor]:
        states = masks.zero_masked(states, mask)
        alphas = ops.sigmoid(self.logit(states)[..., 0])
        real = ops.ones_like(alphas)
        if mask is not None:
            real = ops.cast(mask, alphas.dtype)
        alphas = alphas * real
        total = ops.sum(alphas, axis=1, keepdims=True)
        steps = ops.maximum(ops.sum(real, axis=1, keepdims=True), 1)
        if training:
            wanted = ops.maximum(ops.floor(steps * self.share), 1)
            distance = ops.abs(total - wanted) / steps
            self.add_loss(self.quantity_weight * ops.mean(distance))
            alphas = alphas * wanted / ops.maximum(total, 1e-6)
            total = ops.where(total > 0, wanted, total)
        fired = ops.floor(total + 0.5)
        self.length_metric.update_state(fired)
        outputs = ops.matmul(firing_weights(alphas, self.length), states)
        return outputs, ops.arange(self.length) < ops.cast(fired, "int32")
