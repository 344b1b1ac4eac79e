r"""Subsampling by decision: each step is emitted or it is not, 0 or 1.

The hard counterpart of `emission`: steps are drawn, or taken where they are
likelier emitted than not, and moved to the front. Work grows with the number
of steps; there is no matrix of outputs and steps. Everything but the sequence
is float32 or wider.
"""

from typing import Any

import tensorflow as tf
from keras import ops

from keras_seqmech.ops import compaction
from keras_seqmech.ops import masking


def draw(emission: Any, noise: Any) -> tf.Tensor:
    """Emits each step with its probability.

    Args:
        emission: Tensor `(batch, time)` of probabilities.
        noise: Logistic noise of that shape, see `relaxation.logistic_noise`.

    Returns:
        Boolean tensor `(batch, time)`; surely False at probability 0 and
        surely True at 1.
    """
    return tf.math.log(emission) - tf.math.log1p(-emission) + noise > 0


def log_probability(emission: Any, keep: Any, length: Any) -> tf.Tensor:
    """Log-probability of each decision, until `length` steps were emitted.

    What comes after changes no output, and is not counted as decided.

    Args:
        emission: Tensor `(batch, time)` of probabilities.
        keep: Boolean tensor `(batch, time)`: what was decided.
        length: Number of outputs U, an int or a scalar tensor.

    Returns:
        Tensor `(batch, time)`, at most 0.
    """
    before = compaction.numbers(keep) - ops.cast(keep, "int32")
    decided = ops.where(keep, emission, 1 - emission)
    # Nothing that can be drawn has probability 0.
    decided = ops.where(before < length, decided, ops.ones_like(decided))
    return tf.math.log(decided)


def compact(
    sequence: Any, emission: Any, keep: Any, length: Any
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    r"""Moves the emitted steps to the front.

    Output m is $s_n (1 + e_n - \mathrm{stop}(e_n))$ for the step n it was
    emitted from: $s_n$ in value, and $e_n$ has the gradient of a factor.

    Args:
        sequence: Tensor `(batch, time, features)`.
        emission: Tensor `(batch, time)` of probabilities.
        keep: Boolean tensor `(batch, time)`, the steps to emit.
        length: Number of outputs U, an int or a scalar tensor; further steps
            are left out.

    Returns:
        Outputs `(batch, U, features)` of the dtype of `sequence`, zeros where
        there is none; indices of their steps, int32 `(batch, U)`, and whether
        they are there, boolean `(batch, U)`.
    """
    indices, real = compaction.compact(keep, length)
    outputs = take(sequence, keep, indices, real)
    chosen = take(emission[:, :, None], keep, indices, real)
    gate = 1 + (chosen - ops.stop_gradient(chosen))
    outputs = ops.cast(outputs, gate.dtype) * gate
    return ops.cast(outputs, sequence.dtype), indices, real


def take(values: Any, keep: Any, indices: Any, real: Any) -> tf.Tensor:
    """What stands at the emitted steps, zeros after them.

    Args:
        values: Tensor `(batch, time, features)`.
        keep: Boolean tensor `(batch, time)`, the steps emitted.
        indices: From `compact`, as `real`.
        real: From `compact`.

    Returns:
        Tensor `(batch, U, features)`.
    """
    return masking.zero_masked(compaction.gather(values, keep, indices), real)
