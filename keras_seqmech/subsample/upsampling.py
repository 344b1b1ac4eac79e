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

from keras import ops

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
