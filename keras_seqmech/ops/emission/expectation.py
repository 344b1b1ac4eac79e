r"""Expected subsampling: each step of a sequence is emitted, or it is not.

Step n is emitted with probability $e_n$, and the steps emitted are the outputs
$y_0, y_1, \dots$ With $q_n(m)$ the probability that m of the first n steps were
emitted,

$$q_{n+1}(m) = q_n(m)(1 - e_n) + q_n(m - 1) e_n, \quad
p(y_m = s_n) = e_n q_n(m), \quad E[y_m] = \sum_n p(y_m = s_n) s_n,$$

where the zero vector stands for an output that is not there. This is equation 1
of "Training a Subsampling Mechanism in Expectation" without its divisions and
products: nothing cancels, and it is exact at $e_n$ of 0 and 1.

Probabilities lie in [0, 1], which is not checked here, and are float32 or
wider. Masked steps are never emitted and count for nothing.
"""

import math
from typing import Any

import tensorflow as tf
from keras import ops

from keras_seqmech.ops import masking
from keras_seqmech.ops.emission import blocks
from keras_seqmech.ops.precision import finite
from keras_seqmech.ops.precision import score_dtype

# Probabilities below count as this in logarithms.
_LEAST = 1e-20
# Sums of probabilities may leave [0, 1] by so much.
_ROUNDING = 1e-5


def emission_matrix(
    emission: Any, length: Any = None, mask: Any | None = None
) -> tf.Tensor:
    """$p(y_m = s_n)$, by the recursion over the steps.

    Rows add up to `output_mask`, and columns, if `length` is at least their
    number, to `emission`. Time and memory grow with `time * length`.

    Args:
        emission: Tensor `(batch, time)` of probabilities.
        length: Number of outputs U, an int or a scalar tensor; rows that are
            kept do not depend on it. None: the number of steps.
        mask: Boolean tensor `(batch, time)` or None.

    Returns:
        Tensor `(batch, U, time)`.

    Example:

    >>> emission_matrix(tf.constant([[0.5, 1.0, 0.5]]), length=2)[0]
    <tf.Tensor: shape=(2, 3), dtype=float32, numpy=
    array([[0.5 , 0.5 , 0.  ],
           [0.  , 0.5 , 0.25]], dtype=float32)>
    """
    emission = _real(emission, score_dtype(_dtype(emission)), mask)
    length = ops.shape(emission)[1] if length is None else length
    return blocks.recursion(emission, length)[0]


def expected_subsample(
    sequence: Any,
    emission: Any,
    length: Any = None,
    mask: Any | None = None,
) -> tf.Tensor:
    """$E[y_m]$, the expected outputs.

    The product of `emission_matrix` with the sequence, a block of steps at a
    time: work grows with `time * length * features`, and memory with `time *
    features` and, a few numbers for 64 steps, `time * length`. Beyond about a
    thousand steps, or if their number is not known, a gradient of the gradient
    is refused (LookupError); multiply by `emission_matrix` for that.

    Args:
        sequence: Tensor `(batch, time, features)`.
        emission: Tensor `(batch, time)` of probabilities.
        length: Number of outputs U, an int or a scalar tensor; outputs beyond
            the number of steps are zeros. None: the number of steps.
        mask: Boolean tensor `(batch, time)` or None.

    Returns:
        Tensor `(batch, U, features)` of the dtype of `sequence`.

    Example:

    >>> sequence = tf.constant([[[1.0], [2.0], [4.0]]])
    >>> expected_subsample(sequence, tf.constant([[0.5, 1.0, 0.5]]))[0, :, 0]
    <tf.Tensor: shape=(3,), dtype=float32, numpy=array([1.5, 2. , 1. ], ...)>
    """
    result_dtype = _dtype(sequence)
    wide = {score_dtype(_dtype(x)) for x in (sequence, emission)}
    dtype = "float64" if "float64" in wide else "float32"
    emission = _real(emission, dtype, mask)
    sequence = masking.zero_masked(ops.cast(sequence, dtype), mask)
    length = ops.shape(emission)[1] if length is None else length
    outputs = blocks.subsample(sequence, emission, length)
    return ops.cast(outputs, result_dtype)


def length_distribution(
    emission: Any, length: Any = None, mask: Any | None = None
) -> tf.Tensor:
    """Probabilities of 0, 1, ..., U - 1 outputs, and of U or more.

    Args:
        emission: Tensor `(batch, time)` of probabilities.
        length: U, an int or a scalar tensor. None: the number of steps.
        mask: Boolean tensor `(batch, time)` or None.

    Returns:
        Tensor `(batch, U + 1)`, rows of sum 1.

    Example:

    >>> length_distribution(tf.constant([[0.5, 1.0, 0.5]]))[0]
    <tf.Tensor: ... numpy=array([0.  , 0.25, 0.5 , 0.25], dtype=float32)>
    """
    emission = _real(emission, score_dtype(_dtype(emission)), mask)
    length = ops.shape(emission)[1] if length is None else length
    return blocks.lengths(emission, length)


def output_mask(distribution: Any) -> tf.Tensor:
    """P(length > m): how surely output m is there.

    Args:
        distribution: Tensor `(batch, U + 1)`, a `length_distribution`.

    Returns:
        Tensor `(batch, U)`, falling from left to right.
    """
    return tf.cumsum(distribution[:, 1:], axis=1, reverse=True)


def length_of(presence: Any) -> tf.Tensor:
    """The `length_distribution` of which this is the `output_mask`.

    Args:
        presence: Tensor `(batch, U)`: P(length > m), falling.

    Returns:
        Tensor `(batch, U + 1)`.
    """
    before = tf.pad(presence, [[0, 0], [1, 0]], constant_values=1)
    after = tf.pad(presence, [[0, 0], [0, 1]])
    return tf.maximum(before - after, 0)


def decisions(
    emission: Any, length: Any = None, presence: Any | None = None
) -> dict[str, tf.Tensor]:
    """What is likely to be emitted: where, how much, how surely.

    Args:
        emission: Tensor `(batch, time)` of probabilities, 0 where masked.
        length: Number of outputs U, an int or a scalar tensor. None: the
            number of steps.
        presence: Tensor `(batch, time)`, falling: how surely a step is there,
            the `output_mask` of another subsample; None: all are.

    Returns:
        A dict of `"emission"` `(batch, U, time)`, `"length_distribution"`
        `(batch, U + 1)` and `"output_mask"` `(batch, U)`.
    """
    matrix = emission_matrix(emission, length)
    if presence is None:
        lengths = length_distribution(emission, length)
        present = output_mask(lengths)
    else:
        matrix *= presence[:, None]
        present = expected_subsample(presence[:, :, None], emission, length)
        present = present[:, :, 0]
        lengths = length_of(present)
    return {
        "emission": matrix,
        "length_distribution": lengths,
        "output_mask": present,
    }


def rate_divergence(
    emission: Any, target: float, presence: Any | None = None
) -> tf.Tensor:
    r"""How far the mean probability is from a target, over all steps.

    $T\,KL(r \,\|\, \bar e)$ in nats, of two Bernoulli distributions, with
    $\bar e$ the mean over the T steps that are there. With $e = \sigma(z)$ it
    has the gradient $(\bar e - r) / (\bar e (1 - \bar e)) \cdot e_n (1 - e_n)$
    to each logit: $\bar e - r$ where probabilities are alike, down to 1e-20,
    and up to where they are rounded to 1.

    Args:
        emission: Tensor `(batch, time)` of probabilities.
        target: r, above 0 and below 1.
        presence: Tensor `(batch, time)`, how surely a step is there.

    Returns:
        Tensor `(batch,)`; 0 in rows without a step.
    """
    if presence is None:
        presence = tf.ones_like(emission)
    count = tf.reduce_sum(presence, axis=1)
    emitted = tf.reduce_sum(emission * presence, axis=1)
    mean = tf.math.divide_no_nan(emitted, count)
    divergence = target * (
        math.log(target) - tf.math.log(tf.maximum(mean, _LEAST))
    ) + (1 - target) * (
        math.log1p(-target) - tf.math.log(tf.maximum(1 - mean, _LEAST))
    )
    return count * divergence


def probabilities(
    name: str, values: Any, mask: Any | None, dtype: str
) -> tf.Tensor:
    """Probabilities as the functions above take them.

    In eager execution what is none is refused; in graphs, which cannot, it is
    clipped, and NaN becomes 0. Rounding is clipped everywhere.

    Args:
        name: What to call the argument in an error.
        values: Tensor `(batch, time)`.
        mask: Boolean tensor `(batch, time)` or None: where to look. All else
            becomes 0.
        dtype: That of the result.

    Returns:
        Tensor `(batch, time)` with entries in [0, 1].

    Raises:
        ValueError: In eager execution, if a value is not in [0, 1].
    """
    values = _real(values, dtype, mask)
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


def check_steps(sequence: Any, emission: Any, mask: Any | None) -> None:
    """Refuses, when run, sizes that were not known before and do not fit.

    Where XLA compiles this, which has no assertions, it does nothing.

    Args:
        sequence: Tensor `(batch, time, features)`.
        emission: Tensor `(batch, time)`.
        mask: Tensor `(batch, time)` or None.
    """
    sizes = tf.shape(sequence)[:2]
    if sequence.shape[1] is None:
        tf.debugging.assert_positive(
            sizes[1], "Sequences must have at least one time step."
        )
    arguments = {"emission_probabilities": emission, "mask": mask}
    for name, values in arguments.items():
        if values is None:
            continue
        if None in (*sequence.shape[:2], *values.shape):
            tf.debugging.assert_equal(
                tf.shape(values),
                sizes,
                f"Argument `{name}` must have the shape (batch, time) of its "
                "sequence.",
            )


def _dtype(x):
    return ops.convert_to_tensor(x).dtype.name


def _real(emission, dtype, mask):
    emission = ops.cast(emission, dtype)
    if mask is None:
        return emission
    return ops.where(mask, emission, ops.zeros_like(emission))
