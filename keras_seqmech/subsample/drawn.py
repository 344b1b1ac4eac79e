"""Subsampling by hard decisions: each step is emitted or it is not.

Steps are drawn, or taken where their probability is above one half, and moved
to the front. Work grows with the number of steps; there is no matrix of outputs
and steps. Everything but the sequence is float32 or wider.

`sequence`, `emission` and `length` are those of `expectation`, but for the
sequence's dtype; `keep` is boolean `(batch, time)`, the steps emitted.
"""

import tensorflow as tf
from keras import ops

from keras_seqmech._keras_compat import custom_gradient
from keras_seqmech.core import kept_steps
from keras_seqmech.core.kept_steps import Compaction
from keras_seqmech.subsample.convolution import Differentiable
from keras_seqmech.subsample.convolution import Gradients
from keras_seqmech.typing import Size
from keras_seqmech.typing import Tensor


def log_probability(emission: Tensor, keep: Tensor, length: Size) -> Tensor:
    """Log-probability `(batch, time)` of each decision, until U steps are kept.

    Later decisions change no output; their log-probability counts as 0.
    """
    before = _number_before(keep)
    decided = ops.where(keep, emission, 1 - emission)
    # Nothing that can be drawn has probability 0.
    decided = ops.where(before < length, decided, ops.ones_like(decided))
    return tf.math.log(decided)


def kept(emitted: Tensor, length: Size | None) -> Tensor:
    """The first `length` ones of each row of zeros and ones `(batch, time)`."""
    if length is None:
        return emitted
    number = ops.cumsum(emitted, axis=1)
    return ops.where(number <= length, emitted, ops.zeros_like(emitted))


def compact(
    sequence: Tensor, emission: Tensor, keep: Tensor, length: Size
) -> tuple[Tensor, Compaction]:
    r"""Moves the emitted steps to the front; those after `length` are left out.

    Returns:
        The outputs, `(batch, U, features)`, zeros past the last; and where
        their steps are.

    Each $e_n$ has a straight-through gradient: the difference, to first order
    in the outputs, between the loss with step n emitted and without it, all
    other steps as they are,

    $$\frac{\partial L}{\partial e_n} \approx \sum_{k \ge m}
      \frac{\partial L}{\partial y_k} (y_k^{\mathrm{with}} -
      y_k^{\mathrm{without}}),$$

    m the number of steps emitted before n. With step n emitted, later steps
    are one place further back. The mean over draws is exact if the loss is
    linear in the outputs. For no such gradient, stop it at `emission`.
    """
    # One more than U: without an earlier step, it would be the last output.
    emitted = kept_steps.compact(keep, length + 1)
    taken = emitted.gather(sequence)
    outputs = taken[:, :-1]
    # A gradient within a loop reads no tensor from outside of graphs.
    sequence = tf.identity(sequence)

    @custom_gradient
    def with_gradient(outputs: Tensor, emission: Tensor) -> Differentiable:
        def gradient(upstream: Tensor) -> Gradients:
            return upstream, _differences(
                ops.cast(upstream, emission.dtype),
                ops.cast(sequence, emission.dtype),
                ops.cast(taken, emission.dtype),
                keep,
            )

        return tf.identity(outputs), gradient

    emitted = emitted._replace(
        indices=emitted.indices[:, :-1], mask=emitted.mask[:, :-1]
    )
    return with_gradient(outputs, emission), emitted


def _differences(
    upstream: Tensor, sequence: Tensor, taken: Tensor, keep: Tensor
) -> Tensor:
    """Gradients of the probabilities, `(batch, time)`; see `compact`.

    `taken` holds one output more than `upstream`.
    """
    outputs = taken[:, :-1]
    # stays[m]: effect of output m, compared with removing it, which moves
    # later outputs forward. later[m]: effect of inserting an output at m,
    # without its own value: outputs from m on move back.
    stays = _from_here_on(upstream * (outputs - taken[:, 1:]))
    before = tf.pad(outputs, [[0, 0], [1, 0], [0, 0]])[:, :-1]
    later = _from_here_on(upstream * (before - outputs))
    later = tf.pad(later[:, 1:], [[0, 0], [0, 1]])
    later -= tf.reduce_sum(upstream * outputs, axis=-1)

    place = _number_before(keep)
    length = ops.shape(upstream)[1]
    reached = place < length
    place = tf.minimum(place, length - 1)
    new = tf.reduce_sum(
        tf.gather(upstream, place, batch_dims=1) * sequence, axis=-1
    )
    new += tf.gather(later, place, batch_dims=1)
    kept = tf.gather(stays, place, batch_dims=1)
    return tf.where(reached, tf.where(keep, kept, new), tf.zeros_like(new))


def _from_here_on(products: Tensor) -> Tensor:
    """Sums over features, and over each place and those after it."""
    return tf.cumsum(tf.reduce_sum(products, axis=-1), axis=1, reverse=True)


def decisions(emitted: Compaction, dtype: str) -> dict[str, Tensor]:
    """The dict of `return_emission`, in a dtype, for hard decisions."""
    output_mask = ops.cast(emitted.mask, dtype)
    time = ops.shape(emitted.keep)[1]
    matrix = ops.one_hot(emitted.indices, time, dtype=dtype)
    return {
        "emission": matrix * output_mask[:, :, None],
        "length_distribution": ops.one_hot(
            ops.sum(ops.cast(emitted.mask, "int32"), axis=1),
            ops.shape(output_mask)[1] + 1,
            dtype=dtype,
        ),
        "output_mask": output_mask,
    }


def _number_before(keep: Tensor) -> Tensor:
    """Number of steps emitted before each one."""
    return kept_steps.running_count(keep) - ops.cast(keep, "int32")
