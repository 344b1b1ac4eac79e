r"""Gates that are open or closed, and their continuous relaxation.

A gate with logit $\ell$ is open with probability $\sigma(\ell)$. It is drawn
as $b = [\ell + g > 0]$ with logistic noise $g$; the relaxed sample at
temperature $\tau$ is the binary Concrete variable

$$\tilde b = \sigma((\ell + g) / \tau),$$

the `RelaxedBernoulli` of TensorFlow Probability with the noise drawn
beforehand. Everything here is float32 or wider.
"""

from typing import Any

from keras import ops

from keras_seqmech.ops.decisions import categorical

ESTIMATORS = ("relaxed", "straight_through", "reinforce")
# A context entry beyond this acts as this: products with it stay finite.
LARGEST_CONTEXT = 1e6


def boundary_logits(
    sequence: Any,
    context: Any,
    kernel: Any,
    bias: Any,
    output_kernel: Any,
    output_bias: Any,
    negative_slope: float = 0.2,
) -> Any:
    r"""Logits of the gates of all steps, given a context.

    $\ell_t = w^T \mathrm{LReLU}(W z_t + b) + b_o$ with
    $z_t = [q \odot h_t, h_t, q]$. The vectors z are never formed: each row of
    the batch has one matrix $\mathrm{diag}(q) W_1 + W_2$ for all its steps,
    and one vector $W_3^T q + b$.

    Args:
        sequence: States $h_t$, `(batch, time, size)`.
        context: $q$, `(batch, size)`.
        kernel: W, `(3 * size, units)`: $W_1, W_2, W_3$ one below the other.
        bias: b, `(units,)`.
        output_kernel: w, `(units, 1)`.
        output_bias: $b_o$, a scalar.
        negative_slope: Of the LeakyReLU, below 0.

    Returns:
        Logits `(batch, time)`, finite, float32 or wider.
    """
    dtype = categorical.score_dtype(ops.dtype(sequence))
    sequence, context, kernel, bias, output_kernel, output_bias = (
        ops.cast(x, dtype)
        for x in (sequence, context, kernel, bias, output_kernel, output_bias)
    )
    context = ops.clip(context, -LARGEST_CONTEXT, LARGEST_CONTEXT)
    gated, plain, offset = ops.split(kernel, 3, axis=0)
    matrices = context[:, :, None] * gated + plain
    offsets = ops.matmul(context, offset) + bias
    hidden = ops.matmul(sequence, matrices) + offsets[:, None]
    hidden = ops.leaky_relu(hidden, negative_slope)
    logits = ops.matmul(hidden, output_kernel)[..., 0] + output_bias
    # A product beyond what the dtype holds may come out as inf - inf.
    logits = ops.where(ops.isnan(logits), ops.zeros_like(logits), logits)
    return categorical.bound(logits)


def draw(logits: Any, noise: Any, temperature: Any, estimator: str) -> Any:
    """Draws gates, hard or relaxed.

    Args:
        logits: Tensor of any shape.
        noise: Logistic noise of that shape, see `categorical.logistic_noise`.
        temperature: Positive scalar; below 1e-6 it acts as 1e-6.
        estimator: `"reinforce"`: gates 0 or 1, no gradient. `"relaxed"`:
            binary Concrete gates between 0 and 1. `"straight_through"`: 0 or
            1, with the gradient of the relaxed ones.

    Returns:
        Tensor of the shape and dtype of `logits`.
    """
    scores = ops.convert_to_tensor(logits + noise)
    hard = decide(scores)
    if estimator == "reinforce":
        return hard
    temperature = ops.cast(ops.maximum(temperature, 1e-6), scores.dtype)
    soft = ops.sigmoid(scores / temperature)
    if estimator == "relaxed":
        return soft
    # The sum is exact: soft minus itself is 0 before the gate is added.
    return hard + (soft - ops.stop_gradient(soft))


def decide(logits: Any) -> Any:
    """Opens the gates whose probability is above one half; no gradient."""
    return ops.cast(logits > 0, ops.dtype(logits))


def log_probability(logits: Any, gates: Any) -> Any:
    """Log-probability of each of the `gates` that were drawn.

    Args:
        logits: Tensor of any shape.
        gates: Tensor of that shape, entries 0 or 1.

    Returns:
        Tensor of that shape, at most 0, with a gradient to `logits`.
    """
    signs = 2 * ops.stop_gradient(gates) - 1
    return ops.log_sigmoid(signs * logits)


def entropy(logits: Any) -> Any:
    """Entropy of each gate in nats, between 0 and log 2."""
    # With both terms positive nothing cancels, however large the logit.
    size = ops.abs(logits)
    return ops.softplus(-size) + size * ops.sigmoid(-size)


def excess(gates: Any, mask: Any | None, openness_target: float) -> Any:
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
