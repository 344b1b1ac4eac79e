r"""Logits of the boundary gate: which steps matter, given a context.

Source: "Focused Hierarchical RNNs for Conditional Sequence Processing".
"""

from typing import NamedTuple

from keras import ops

from keras_seqmech.core.numerics import finite
from keras_seqmech.core.numerics import score_dtype
from keras_seqmech.typing import Tensor

# Larger context entries are clipped to this, so that products stay finite.
LARGEST_CONTEXT = 1e6


class GateWeights(NamedTuple):
    """Weights of the gate's two layers.

    Attributes:
        kernel: $W$, `(3 * size, units)`: $W_1, W_2, W_3$ one below the other.
        bias: $b$, `(units,)`.
        output_kernel: $w$, `(units, 1)`.
        output_bias: $b_o$, a scalar.
    """

    kernel: Tensor
    bias: Tensor
    output_kernel: Tensor
    output_bias: Tensor


def boundary_logits(
    sequence: Tensor,
    context: Tensor,
    weights: GateWeights,
    negative_slope: float = 0.2,
) -> Tensor:
    r"""Logits of the gates of all steps, given a context.

    $\ell_t = w^T \mathrm{LReLU}(W z_t + b) + b_o$ with
    $z_t = [q \odot h_t, h_t, q]$. The vectors z are never formed: each row of
    the batch has one matrix $\mathrm{diag}(q) W_1 + W_2$ for all its steps,
    and one vector $W_3^T q + b$.

    Args:
        sequence: States $h_t$, `(batch, time, size)`.
        context: $q$, `(batch, size)`.
        weights: The weights of the gate.
        negative_slope: Slope of the LeakyReLU below 0.

    Returns:
        Logits `(batch, time)`, finite, float32 or wider.
    """
    dtype = score_dtype(ops.dtype(sequence))
    sequence, context, kernel, bias, output_kernel, output_bias = (
        ops.cast(x, dtype) for x in (sequence, context, *weights)
    )
    context = bounded_context(context)
    gated, plain, offset = ops.split(kernel, 3, axis=0)
    matrices = context[:, :, None] * gated + plain
    offsets = ops.matmul(context, offset) + bias
    hidden = finite(ops.matmul(sequence, matrices) + offsets[:, None])
    hidden = ops.leaky_relu(hidden, negative_slope)
    return finite(ops.matmul(hidden, output_kernel)[..., 0] + output_bias)


def bounded_context(context: Tensor) -> Tensor:
    """A context whose products with states and weights stay finite."""
    return ops.clip(context, -LARGEST_CONTEXT, LARGEST_CONTEXT)
