r"""Expected subsampling: each step of a sequence is emitted, or it is not.

Step n is emitted with probability $e_n$, and the steps emitted are the outputs
$y_0, y_1, \dots$ With $q_n(m)$ the probability that m of the first n steps were
emitted,

$$q_{n+1}(m) = q_n(m)(1 - e_n) + q_n(m - 1) e_n, \quad
p(y_m = s_n) = e_n q_n(m), \quad E[y_m] = \sum_n p(y_m = s_n) s_n,$$

where a missing output is the zero vector. This is equation 1 of "Training a
Subsampling Mechanism in Expectation" without its divisions and products:
nothing cancels, and it is exact at $e_n$ of 0 and 1.

A `sequence` is `(batch, time, features)`; `emission` holds probabilities
`(batch, time)` from 0 to 1, which is not checked here; `length` is the number
of outputs U, an int or a scalar tensor, or None for the number of steps;
`mask` is boolean `(batch, time)` or None. Masked steps are never emitted and
count for nothing. What is computed is float32 or wider.
"""

import tensorflow as tf
from keras import ops

from keras_seqmech.core import masks
from keras_seqmech.core.numerics import score_dtype
from keras_seqmech.subsample import blocks
from keras_seqmech.subsample.probabilities import real_probabilities
from keras_seqmech.typing import Size
from keras_seqmech.typing import Tensor


def emission_matrix(
    emission: Tensor, length: Size | None = None, mask: Tensor | None = None
) -> Tensor:
    """$p(y_m = s_n)$, `(batch, U, time)`, by the recursion over the steps.

    Rows add up to `output_mask`, and columns, if `length` is at least their
    number, to `emission`. Time and memory grow with `time * length`. `length`
    cuts off rows and does not change the others.

    Example:

    >>> emission_matrix(tf.constant([[0.5, 1.0, 0.5]]), length=2)[0]
    <tf.Tensor: shape=(2, 3), dtype=float32, numpy=
    array([[0.5 , 0.5 , 0.  ],
           [0.  , 0.5 , 0.25]], dtype=float32)>
    """
    emission = real_probabilities(emission, score_dtype(_dtype(emission)), mask)
    length = ops.shape(emission)[1] if length is None else length
    return blocks.recursion(emission, length)[0]


def expected_subsample(
    sequence: Tensor,
    emission: Tensor,
    length: Size | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """$E[y_m]$, the expected outputs `(batch, U, features)`.

    The product of `emission_matrix` with the sequence, a block of steps at a
    time: work grows with `time * length * features`, and memory with `time *
    features`, plus a few times `length` for each 64 steps. Beyond about a
    thousand steps, or if their number is not known, a gradient of the gradient
    is refused (LookupError); multiply by `emission_matrix` for that. Outputs
    beyond the number of steps are zeros.

    Example:

    >>> sequence = tf.constant([[[1.0], [2.0], [4.0]]])
    >>> expected_subsample(sequence, tf.constant([[0.5, 1.0, 0.5]]))[0, :, 0]
    <tf.Tensor: shape=(3,), dtype=float32, numpy=array([1.5, 2. , 1. ], ...)>
    """
    result_dtype = _dtype(sequence)
    sequence, emission = _wide(sequence, emission, mask)
    length = ops.shape(emission)[1] if length is None else length
    found = blocks.subsample(sequence, emission, length)
    return ops.cast(found.outputs, result_dtype)


def length_distribution(
    emission: Tensor, length: Size | None = None, mask: Tensor | None = None
) -> Tensor:
    """Probabilities of 0, 1, ..., U - 1 outputs, and of U or more.

    Example:

    >>> length_distribution(tf.constant([[0.5, 1.0, 0.5]]))[0]
    <tf.Tensor: ... numpy=array([0.  , 0.25, 0.5 , 0.25], dtype=float32)>
    """
    emission = real_probabilities(emission, score_dtype(_dtype(emission)), mask)
    length = ops.shape(emission)[1] if length is None else length
    return blocks.lengths(emission, length)


def output_mask(distribution: Tensor) -> Tensor:
    """P(length > m), `(batch, U)`, falling, of a `length_distribution`."""
    return tf.cumsum(distribution[:, 1:], axis=1, reverse=True)


def length_distribution_of(presence: Tensor) -> Tensor:
    """The `length_distribution` that has this `output_mask`."""
    before = tf.pad(presence, [[0, 0], [1, 0]], constant_values=1)
    after = tf.pad(presence, [[0, 0], [0, 1]])
    return tf.maximum(before - after, 0)


def with_decisions(
    sequence: Tensor,
    emission: Tensor,
    length: Size | None = None,
    mask: Tensor | None = None,
    presence: Tensor | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """`expected_subsample`, and what is emitted: where, how much, what exists.

    `presence`, `(batch, time)` in the wider dtype of the two and falling, is
    the probability that a step exists, the `output_mask` of another subsample;
    None: all do.

    Returns:
        The outputs, and a dict of `"emission"` `(batch, U, time)`,
        `"length_distribution"` `(batch, U + 1)` and `"output_mask"`
        `(batch, U)`.
    """
    result_dtype = _dtype(sequence)
    sequence, emission = _wide(sequence, emission, mask)
    length = ops.shape(emission)[1] if length is None else length
    if presence is not None:
        # Whether an output exists is one more feature of the steps.
        sequence = tf.concat([sequence, presence[:, :, None]], axis=2)
    outputs, matrix, lengths = blocks.subsample(
        sequence, emission, length, distributions=True
    )
    if presence is None:
        present = output_mask(lengths)
    else:
        outputs, present = outputs[:, :, :-1], outputs[:, :, -1]
        matrix *= presence[:, None]
        lengths = length_distribution_of(present)
    return ops.cast(outputs, result_dtype), {
        "emission": matrix,
        "length_distribution": lengths,
        "output_mask": present,
    }


def _wide(
    sequence: Tensor, emission: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Both in one dtype, float32 or float64, zeros at masked steps."""
    wide = {score_dtype(_dtype(x)) for x in (sequence, emission)}
    dtype = "float64" if "float64" in wide else "float32"
    sequence = masks.zero_masked(ops.cast(sequence, dtype), mask)
    return sequence, real_probabilities(emission, dtype, mask)


def _dtype(x: Tensor) -> str:
    return ops.convert_to_tensor(x).dtype.name
