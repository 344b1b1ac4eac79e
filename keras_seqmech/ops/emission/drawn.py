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
from keras_seqmech.ops.emission import expectation as emission_ops


def draw(emission: Any, noise: Any) -> tf.Tensor:
    """Emits each step with its probability.

    Args:
        emission: Tensor `(batch, time)` of probabilities.
        noise: Logistic noise of that shape, see `sampling.logistic_noise`.

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

    Each $e_n$ has a straight-through gradient: what the loss, of outputs in a
    straight line, would be with step n emitted, less what it would be without
    it, all other steps as they are,

    $$\frac{\partial L}{\partial e_n} \approx \sum_{k \ge m}
      \frac{\partial L}{\partial y_k} (y_k^{\mathrm{with}} -
      y_k^{\mathrm{without}}),$$

    m the number of steps emitted before n. Steps after n are a place later
    with it. The mean over draws is exact if the loss is linear in the outputs.
    For none, stop the gradient to `emission`.

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
    # One more: it is the last output once a step before it is left out.
    indices, real = compaction.compact(keep, length + 1)
    taken = take(sequence, keep, indices, real)
    outputs = taken[:, :-1]

    @tf.custom_gradient
    def with_gradient(outputs, emission):
        def gradient(upstream):
            return upstream, _differences(
                ops.cast(upstream, emission.dtype),
                ops.cast(sequence, emission.dtype),
                ops.cast(taken, emission.dtype),
                keep,
            )

        return tf.identity(outputs), gradient

    return with_gradient(outputs, emission), indices[:, :-1], real[:, :-1]


def _differences(upstream, sequence, taken, keep):
    """Gradients of the probabilities, `(batch, time)`; see `compact`.

    `taken` is an output longer than `upstream`.
    """
    outputs = taken[:, :-1]
    # To places from m on: what each of them gains by what follows a place
    # earlier, and, from m + 1 on, by what precedes it a place later.
    stays = _from_here_on(upstream * (outputs - taken[:, 1:]))
    before = tf.pad(outputs, [[0, 0], [1, 0], [0, 0]])[:, :-1]
    later = _from_here_on(upstream * (before - outputs))
    later = tf.pad(later[:, 1:], [[0, 0], [0, 1]])
    later -= tf.reduce_sum(upstream * outputs, axis=-1)

    place = compaction.numbers(keep) - ops.cast(keep, "int32")
    length = ops.shape(upstream)[1]
    reached = place < length
    place = tf.minimum(place, length - 1)
    new = tf.reduce_sum(
        tf.gather(upstream, place, batch_dims=1) * sequence, axis=-1
    )
    new += tf.gather(later, place, batch_dims=1)
    kept = tf.gather(stays, place, batch_dims=1)
    return tf.where(reached, tf.where(keep, kept, new), tf.zeros_like(new))


def _from_here_on(products):
    """Sums over features and all places from each on, `(batch, U)`."""
    return tf.cumsum(tf.reduce_sum(products, axis=-1), axis=1, reverse=True)


def decisions(
    keep: Any,
    indices: Any,
    real: Any,
    dtype: str,
    presence: Any | None = None,
) -> dict[str, tf.Tensor]:
    """What was decided, as `emission.decisions` of what is likely.

    Args:
        keep: Boolean tensor `(batch, time)`, the steps emitted.
        indices: From `compact`, as `real`.
        real: From `compact`.
        dtype: That of the results.
        presence: Tensor `(batch, time)`, how surely a step is there, or None.

    Returns:
        A dict of `"emission"` `(batch, U, time)`, `"length_distribution"`
        `(batch, U + 1)` and `"output_mask"` `(batch, U)`.
    """
    output_mask = ops.cast(real, dtype)
    if presence is not None:
        output_mask = take(presence[:, :, None], keep, indices, real)[:, :, 0]
    matrix = ops.one_hot(indices, ops.shape(keep)[1], dtype=dtype)
    return {
        "emission": matrix * output_mask[:, :, None],
        "length_distribution": emission_ops.length_of(output_mask),
        "output_mask": output_mask,
    }


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
