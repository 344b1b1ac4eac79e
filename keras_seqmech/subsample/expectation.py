r"""Expected subsampling: each step of a sequence is emitted, or it is not.

Step n is emitted with probability $e_n$, and the steps emitted are the outputs
$y_0, y_1, \dots$ With $q_n(m)$ the probability that m of the first n steps were
emitted,

$$q_{n+1}(m) = q_n(m)(1 - e_n) + q_n(m - 1) e_n, \quad
p(y_m = s_n) = e_n q_n(m), \quad E[y_m] = \sum_n p(y_m = s_n) s_n,$$

where a missing output is the zero vector. This is equation 1 of "Training a
Subsampling Mechanism in Expectation" without its divisions and products:
nothing cancels, and it is exact at $e_n$ of 0 and 1.

Long sequences are cut into N blocks of L steps. Within each, all at once,
$r_n(k)$ is the probability that k of the block's steps before n were emitted;
over the blocks in turn, $q_j(m)$ is that m steps were emitted before block j.
Then

$$y_m = \sum_j \sum_k q_j(m - k) z_{jk}, \quad z_{jk} = \sum_n e_n r_n(k) s_n,$$

the sum over k a convolution, as is the one that leads from $q_j$ to $q_{j+1}$.
The rounding error of 1 - e is corrected: where e is the same at all steps,
errors would add up.

`emission` holds probabilities `(batch, time)`, 0 at masked steps; a `sequence`
is `(batch, time, features)`, finite and of the same dtype, float32 or wider;
`length` is the number of outputs U, an int or a scalar tensor.
"""

from typing import NamedTuple

import tensorflow as tf
from keras import ops

from keras_seqmech.core.scan.loop import scan
from keras_seqmech.core.scan.protocol import Named
from keras_seqmech.core.scan.protocol import ScanOptions
from keras_seqmech.core.scan.protocol import States
from keras_seqmech.subsample.convolution import convolve
from keras_seqmech.subsample.convolution import toeplitz
from keras_seqmech.typing import Size
from keras_seqmech.typing import Tensor

# Steps of a block, at most. Shorter blocks make smaller matrices and more
# steps in turn; these were measured.
BLOCK_STEPS = 64
# A block of L steps is 8 runs of L / 8, put together in three rounds.
DOUBLINGS = 3
# Up to this many blocks are unrolled, which skips zeros; more run in a loop.
MOST_UNROLLED = 16
# Up to this many steps and matrix entries, the plain recursion is as fast, and
# keeps no more than the blocks do.
PLAIN_STEPS, PLAIN_ENTRIES = 200, 10_000


class Subsample(NamedTuple):
    """The expected subsample, and the distributions behind it.

    Attributes:
        outputs: Tensor `(batch, U, features)`.
        matrix: Tensor `(batch, U, time)`: $p(y_m = s_n)$; or None.
        lengths: Tensor `(batch, U + 1)`, probabilities of 0, 1,
            ..., U - 1 outputs, and of U or more; or None.
    """

    outputs: Tensor
    matrix: Tensor | None = None
    lengths: Tensor | None = None


def recursion(
    emission: Tensor, length: Size, unroll: bool = False
) -> tuple[Tensor, Tensor]:
    """The plain recursion, one step of time after the other.

    Returns:
        The matrix $p(y_m = s_n)$, `(batch, U, time)`, and the probabilities
        that 0, 1, ..., U - 1 of all steps were emitted, `(batch, U)`.

    Example:

    >>> recursion(tf.constant([[0.5, 1.0, 0.5]]), length=2)[0]
    <tf.Tensor: shape=(1, 2, 3), dtype=float32, numpy=
    array([[[0.5 , 0.5 , 0.  ],
            [0.  , 0.5 , 0.25]]], dtype=float32)>
    """

    def step(inputs: Named, states: States) -> tuple[Named, States]:
        (counts,) = states
        emitted = counts * inputs["emission"]
        moved = tf.pad(emitted[:, :-1], [[0, 0], [1, 0]])
        moved += counts * inputs["rounded"]
        counts = counts * inputs["skip"] + moved
        return {"column": emitted}, (counts,)

    width = length if isinstance(length, int) else None
    by_time = ops.transpose(emission)[:, :, None]
    skip = 1 - by_time
    outputs, (counts,) = scan(
        step,
        {
            "emission": by_time,
            "skip": skip,
            "rounded": _rounded(by_time, skip),
        },
        (_point_mass_at_zero(ops.shape(emission)[0], length, emission.dtype),),
        {"column": tf.TensorSpec((emission.shape[0], width), emission.dtype)},
        ScanOptions(unroll=unroll),
    )
    return tf.transpose(outputs["column"], (1, 2, 0)), counts


def expected_subsample(
    sequence: Tensor,
    emission: Tensor,
    length: Size,
    distributions: bool = False,
) -> Subsample:
    """The expected outputs; with `distributions`, all of `Subsample`.

    All are of the same recursion. Graphs compute what is used of them. Outputs
    beyond the number of steps are zeros.

    Work grows with `time * length * features`, and memory with `time *
    features`, plus a few times `length` for each 64 steps. Beyond about a
    thousand steps, or if their number is not known, a gradient of the gradient
    is refused (LookupError).

    Example:

    >>> sequence = tf.constant([[[1.0], [2.0], [4.0]]])
    >>> emission = tf.constant([[0.5, 1.0, 0.5]])
    >>> expected_subsample(sequence, emission, 3).outputs[0, :, 0]
    <tf.Tensor: shape=(3,), dtype=float32, numpy=array([1.5, 2. , 1. ], ...)>
    """
    if _is_small(emission.shape[1], length):
        matrix, counts = recursion(emission, length)
        outputs = tf.matmul(matrix, sequence)
        if not distributions:
            return Subsample(outputs)
        # Of U or more outputs, the last is one.
        more = tf.reduce_sum(matrix[:, -1:], axis=2)
        return Subsample(outputs, matrix, tf.concat([counts, more], axis=1))
    emissions, counts = _blocks(emission)
    before, end, more = _counts_before(counts, length)
    join = _join
    if isinstance(counts.shape[1], int) and counts.shape[1] <= MOST_UNROLLED:
        join = _join_unrolled
    outputs = join(before, _parts(emissions, sequence, counts), length)
    if not distributions:
        return Subsample(outputs)
    batch, number = ops.shape(counts)[:2]
    steps = counts.shape[2] - 1
    weights = tf.transpose(before[..., :length], (1, 0, 2))
    weights = tf.reshape(weights, (batch * number, length))
    matrix = convolve(weights, emissions, length)
    matrix = tf.reshape(matrix, (batch, number, length, steps))
    matrix = tf.transpose(matrix, (0, 2, 1, 3))
    matrix = tf.reshape(matrix, (batch, length, number * steps))
    matrix = matrix[:, :, : ops.shape(emission)[1]]
    more = more + tf.reduce_sum(end[:, length:], axis=1)
    lengths = tf.concat([end[:, :length], more[:, None]], axis=1)
    return Subsample(outputs, matrix, lengths)


def output_mask(lengths: Tensor) -> Tensor:
    """P(length > m), `(batch, U)`, falling."""
    return tf.cumsum(lengths[:, 1:], axis=1, reverse=True)


def length_distribution_of(presence: Tensor) -> Tensor:
    """The `lengths` of outputs `(batch, U)` that exist with a probability."""
    before = tf.pad(presence, [[0, 0], [1, 0]], constant_values=1)
    after = tf.pad(presence, [[0, 0], [0, 1]])
    return tf.maximum(before - after, 0)


def _parts(emissions: Tensor, sequence: Tensor, counts: Tensor) -> Tensor:
    """$z_{jk}$, block by block: `(N, batch, L, features)`."""
    batch, number = ops.shape(counts)[:2]
    steps = counts.shape[2] - 1
    features = sequence.shape[2]
    sequence = _pad_time(sequence, number * steps)
    blocks = tf.reshape(sequence, (batch * number, steps, features))
    parts = tf.reshape(
        tf.matmul(emissions, blocks), (batch, number, steps, features)
    )
    return tf.transpose(parts, (1, 0, 2, 3))


def _is_small(time: Size, length: Size) -> bool:
    if not isinstance(time, int) or not isinstance(length, int):
        return False
    return time <= PLAIN_STEPS and time * length <= PLAIN_ENTRIES


def _blocks(emission: Tensor) -> tuple[Tensor, Tensor]:
    """All blocks, each by itself.

    Returns:
        The emissions $e_n r_n(k)$, `(batch * N, L, L)`, a column for each
        step; and the probabilities of how many steps of a block are emitted,
        `(batch, N, L + 1)`.
    """
    batch, time = ops.shape(emission)
    runs = 2**DOUBLINGS
    if isinstance(time, int):
        number = max(1, -(-time // BLOCK_STEPS))
        width = max(1, -(-time // (number * runs)))
    else:
        number = -(-time // BLOCK_STEPS)
        width = BLOCK_STEPS // runs
    steps = width * runs
    emission = _pad_time(emission, number * steps)
    short = tf.reshape(emission, (batch * number * runs, width))
    matrix, counts = recursion(short, width + 1, unroll=True)
    matrix = tf.concat([matrix, counts[:, :, None]], axis=2)
    for i in range(DOUBLINGS):
        matrix = _join_pairs(matrix, width * 2**i)
    matrix, counts = tf.split(matrix, [steps, 1], axis=2)
    # When a step is emitted, not all steps of the block were before it.
    matrix, _ = tf.split(matrix, [steps, 1], axis=1)
    return matrix, tf.reshape(counts, (batch, number, steps + 1))


def _join_pairs(matrix: Tensor, width: int) -> Tensor:
    """Puts runs of `width` steps together, each with the one after it.

    A run's matrix is square: a column for each step, and a last one of the
    counts after all of them.
    """
    pairs = ops.shape(matrix)[0] // 2
    matrix = tf.reshape(matrix, (pairs, 2, width + 1, width + 1))
    first, second = tf.unstack(matrix, axis=1)
    first, counts = tf.split(first, [width, 1], axis=2)
    second = convolve(counts[:, :, 0], second, 2 * width + 1)
    first = tf.pad(first, [[0, 0], [0, width], [0, 0]])
    return tf.concat([first, second], axis=2)


def _counts_before(
    counts: Tensor, length: Size
) -> tuple[Tensor, Tensor, Tensor]:
    """How many steps were emitted before each block, and before the end.

    Returns:
        $q_j$, `(N, batch, at least length)`; the same after the last block,
        `(batch, at least length)`; and the probability `(batch,)` that the
        count at the end is larger than those.
    """
    batch = ops.shape(counts)[0]
    steps = counts.shape[2] - 1
    rows = -(-length // steps)

    # Entry (x, i) is the count i * L + x, so that a matrix product convolves
    # all i at once. Its second half belongs to the next i.
    def step(counts: Tensor, states: States) -> tuple[Named, States]:
        before, more = states
        matrix = toeplitz(counts, steps, 2 * steps)
        moved = tf.matmul(matrix, before, transpose_a=True)
        stays, leaves = tf.split(moved, 2, axis=1)
        more = more + tf.reduce_sum(leaves[:, :, -1], axis=1)
        leaves = tf.pad(leaves[:, :, :-1], [[0, 0], [0, 0], [1, 0]])
        return {"before": before}, _renormalise(stays + leaves, more)

    first = _point_mass_at_zero(batch, rows * steps, counts.dtype)
    first = tf.reshape(first, (batch, rows, steps))
    first = tf.linalg.matrix_transpose(first)
    width = rows if isinstance(rows, int) else None
    outputs, (after, more) = scan(
        step,
        tf.transpose(counts, (1, 0, 2)),
        (first, tf.zeros_like(first[:, 0, 0])),
        {
            "before": tf.TensorSpec(
                (counts.shape[0], steps, width), counts.dtype
            )
        },
    )
    before = tf.transpose(outputs["before"], (0, 1, 3, 2))
    before = tf.reshape(before, (ops.shape(before)[0], batch, rows * steps))
    after = tf.reshape(tf.transpose(after, (0, 2, 1)), (batch, rows * steps))
    return before, after, more


def _join_unrolled(before: Tensor, parts: Tensor, length: Size) -> Tensor:
    """The sum over blocks, each with no more outputs than it can reach."""
    steps = parts.shape[2]
    total = None
    for j, (counts, part) in enumerate(
        zip(tf.unstack(before), tf.unstack(parts))
    ):
        reach = _minimum((j + 1) * steps, length)
        counts = counts[:, : _minimum(j * steps + 1, length)]
        result = convolve(counts, part, reach)
        total = result if j == 0 else _pad_time(total, reach) + result
    return _pad_time(total, length)


def _join(before: Tensor, parts: Tensor, length: Size) -> Tensor:
    """As `_join_unrolled`, for any number of blocks."""
    _, batch, _, features = ops.shape(parts)

    def step(block: tuple, states: States) -> tuple[Named, States]:
        before, parts = block
        result = convolve(before, parts, length, in_loop=True)
        return {}, (states[0] + result,)

    _, (total,) = scan(
        step,
        (before[:, :, :length], parts),
        (tf.zeros((batch, length, features), parts.dtype),),
        {},
    )
    return total


def _rounded(emission: Tensor, skip: Tensor) -> Tensor:
    """The exact rounding error of `skip = 1 - emission`.

    It is small, but equal for equal probabilities, and would add up over time.
    """
    # The clip changes nothing, but keeps graphs from simplifying 1 - (1 - e).
    again = 1 - tf.clip_by_value(skip, 0, 1)
    return tf.stop_gradient(again - emission)


def _renormalise(counts: Tensor, more: Tensor) -> tuple[Tensor, Tensor]:
    """Rescales a distribution, so that rounding errors do not change its sum.

    They are small in each block, but may be the same in all of them.
    """
    excess = tf.reduce_sum(counts, axis=[1, 2]) + more - 1
    scale = 1 - tf.stop_gradient(excess)
    return counts * scale[:, None, None], more * scale


def _point_mass_at_zero(batch: Size, size: Size, dtype: str) -> Tensor:
    """Probabilities of counts 0, 1, ...: the count is 0."""
    return tf.one_hot(tf.zeros((batch,), "int32"), size, dtype=dtype)


def _minimum(a: int, b: Size) -> Size:
    return min(a, b) if isinstance(b, int) else tf.minimum(a, b)


def _pad_time(x: Tensor, time: Size) -> Tensor:
    """Zeros after the last step, up to `time`."""
    more = time - ops.shape(x)[1]
    more = max(more, 0) if isinstance(more, int) else tf.maximum(more, 0)
    return tf.pad(x, [[0, 0], [0, more]] + [[0, 0]] * (len(x.shape) - 2))
