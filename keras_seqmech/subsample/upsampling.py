r"""From a shorter sequence back to all steps: the latest output at each.

The inverse of a subsample, for models that need one output per step. With $c_t$
the number of steps emitted up to step t, itself included, step t gets
$y_{c_t - 1}$, the output that was kept last; before the first kept step, it
gets an initial vector. Steps emitted once there are U outputs change nothing.

In expectation that is, exactly,

$$x_t = P(c_t = 0)\, y_{-1} + \sum_{m < U - 1} P(c_t = m + 1)\, y_m
  + P(c_t \ge U)\, y_{U - 1}.$$

Masked steps are never emitted, so they get what the step before them gets.
"""

import tensorflow as tf
from keras import ops

from keras_seqmech.core import compaction
from keras_seqmech.core.numerics import score_dtype
from keras_seqmech.subsample import blocks
from keras_seqmech.subsample.probabilities import real_probabilities
from keras_seqmech.typing import Tensor


def upsample(
    outputs: Tensor, matrix: Tensor, initial: Tensor | None = None
) -> Tensor:
    """The latest output at each step, from the `"emission"` of a subsample.

    For functional models: it takes symbolic tensors, of all modes of
    `ExpectedSubsample`. Hard decisions give exactly the latest output,
    probabilities its expectation. Time and memory grow with `time * U`.

    Args:
        outputs: Tensor `(batch, U, features)`: what a model made of the
            outputs of the subsample, finite also where there is none.
        matrix: Tensor `(batch, U, time)`, the `"emission"` that the subsample
            returns with `return_emission=True`.
        initial: Tensor `(batch, features)`: the value before the first kept
            step; zeros if None.

    Returns:
        Tensor `(batch, time, features)` of the dtype of `outputs`.

    Example:

    >>> import keras
    >>> from keras_seqmech import ExpectedSubsample
    >>> x = keras.Input((100, 16))
    >>> e = keras.layers.Dense(1, "sigmoid", dtype="float32")(x)[:, :, 0]
    >>> short, decisions = ExpectedSubsample(25, return_emission=True)(x, e)
    >>> states = keras.layers.LSTM(8, return_sequences=True)(short)
    >>> upsample(states, decisions["emission"]).shape
    (None, 100, 8)
    """
    # Whether output m was emitted at each step or before.
    emitted = ops.cumsum(matrix, axis=2)
    later = ops.pad(emitted[:, 1:], [[0, 0], [0, 1], [0, 0]])
    values = ops.cast(outputs, matrix.dtype)
    latest = ops.matmul(ops.transpose(emitted - later, (0, 2, 1)), values)
    if initial is not None:
        none_yet = ops.expand_dims(1 - emitted[:, 0], axis=2)
        initial = ops.cast(ops.expand_dims(initial, axis=1), matrix.dtype)
        latest = latest + none_yet * initial
    return ops.cast(latest, outputs.dtype)


def upsample_kept(
    outputs: Tensor, keep: Tensor, initial: Tensor | None = None
) -> Tensor:
    """The latest output at each step, of hard decisions: a gather.

    Args:
        outputs: Tensor `(batch, U, features)`.
        keep: Boolean tensor `(batch, time)`: the steps that were kept, as many
            as there may be.
        initial: Tensor `(batch, features)`; zeros if None.

    Returns:
        Tensor `(batch, time, features)` of the dtype of `outputs`.

    Example:

    >>> outputs = tf.constant([[[5.0], [7.0]]])
    >>> keep = tf.constant([[False, True, False, True, True]])
    >>> upsample_kept(outputs, keep)[0, :, 0].numpy().tolist()
    [0.0, 5.0, 5.0, 7.0, 7.0]
    """
    values = tf.concat([_before(outputs, initial), outputs], axis=1)
    place = tf.minimum(compaction.running_count(keep), ops.shape(outputs)[1])
    return tf.gather(values, place, batch_dims=1)


def expected_upsample(
    outputs: Tensor,
    emission: Tensor,
    mask: Tensor | None = None,
    initial: Tensor | None = None,
) -> Tensor:
    """The expected latest output at each step, from probabilities.

    It is computed a block of steps at a time, as `expected_subsample` is, and
    needs no tensor of `time * U * features` numbers. In blocks, that is for
    more than about 200 steps, a gradient of the gradient is refused
    (LookupError).

    Args:
        outputs: Tensor `(batch, U, features)`.
        emission: Tensor `(batch, time)` of probabilities.
        mask: Boolean tensor `(batch, time)` or None.
        initial: Tensor `(batch, features)`; zeros if None.

    Returns:
        Tensor `(batch, time, features)` of the dtype of `outputs`.

    Example:

    >>> outputs = tf.constant([[[4.0], [8.0]]])
    >>> emission = tf.constant([[0.5, 0.0, 1.0, 1.0]])
    >>> expected_upsample(outputs, emission)[0, :, 0].numpy().tolist()
    [2.0, 2.0, 6.0, 8.0]
    """
    outputs = ops.convert_to_tensor(outputs)
    emission = ops.convert_to_tensor(emission)
    wide = {score_dtype(x.dtype) for x in (outputs, emission)}
    dtype = "float64" if "float64" in wide else "float32"
    latest = blocks.upsample(
        ops.cast(outputs, dtype),
        real_probabilities(emission, dtype, mask),
        ops.cast(_before(outputs, initial)[:, 0], dtype),
    )
    return ops.cast(latest, outputs.dtype)


def _before(outputs: Tensor, initial: Tensor | None) -> Tensor:
    """The value before the first kept step, `(batch, 1, features)`."""
    if initial is None:
        return tf.zeros_like(outputs[:, :1])
    return ops.cast(initial, outputs.dtype)[:, None]
