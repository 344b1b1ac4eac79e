"""What decisions cost beside the loss that they are made for."""

from keras import ops

from keras_seqmech.typing import Tensor


def excess(
    gates: Tensor, mask: Tensor | None, openness_target: float
) -> Tensor:
    r"""How many gates are open above the target.

    $G(b) = \mathrm{ReLU}(\sum_t b_t - \gamma T)$, T the row's real length.

    Args:
        gates: Tensor `(batch, time)`, 0 at masked steps.
        mask: Boolean tensor `(batch, time)` or None.
        openness_target: $\gamma$, the share of gates that may be open.

    Returns:
        Tensor `(batch,)`.
    """
    real = ops.ones_like(gates) if mask is None else ops.cast(mask, gates.dtype)
    allowed = openness_target * ops.sum(real, axis=1)
    return ops.relu(ops.sum(gates, axis=1) - allowed)
