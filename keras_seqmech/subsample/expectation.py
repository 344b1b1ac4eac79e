r"""Expected subsampling: each step of a sequence is emitted, or it is not.

This is the recursion of `ExpectedSubsample`: equation 1 of "Training a
Subsampling Mechanism in Expectation" without its divisions and products.
Nothing cancels, and it is exact at $e_n$ of 0 and 1.

Long sequences are cut into N blocks of L steps. Within each, all at once,
$r_n(k)$ is the probability that k of the block's steps before n were emitted,
$r_L(k)$ that k of all of them are; over the blocks in turn, $q_j(m)$ is that m
steps were emitted before block j. Then

$$E[y_m] = \sum_j \sum_k q_j(m - k) z_{jk}, \quad
z_{jk} = \sum_n e_n r_n(k) s_n, \quad
q_{j+1}(m) = \sum_k q_j(m - k) r_L(k),$$

the sums over k convolutions. The rounding error of 1 - e is corrected: where e
is the same at all steps, errors would add up.

In the code,

- `emission` is $e_n$, `(batch, time)`, 0 at masked steps; a `sequence`, $s_n$,
  is `(batch, time, features)`, finite and of the same dtype, float32 or wider;
  `length` is the number of outputs U, an int or a scalar tensor;
- `q`, `q_before` (each block) and `q_end` (after all steps) are distributions
  of the number m; `overflow` is the probability of numbers beyond them;
- `emitted` is $e_n q_n(m)$ or, within a block, $e_n r_n(k)$, with a column for
  each step; `r_end` is $r_L(k)$.
"""

from typing import NamedTuple

import tensorflow as tf
from keras import ops

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
        The matrix $p(y_m = s_n) = e_n q_n(m)$, `(batch, U, time)`, and $q$
        after all steps, `(batch, U)`.

    Example:

    >>> recursion(tf.constant([[0.5, 1.0, 0.5]]), length=2)[0]
    <tf.Tensor: shape=(1, 2, 3), dtype=float32, numpy=
    array([[[0.5 , 0.5 , 0.  ],
            [0.  , 0.5 , 0.25]]], dtype=float32)>
    """

    emission = tf.transpose(emission)[:, :, None]
    skip = 1 - emission
    inputs = emission, skip, _rounded(emission, skip)

    def step(states: tuple, inputs: tuple) -> tuple[Tensor, Tensor]:
        q, _ = states
        emission, skip, rounded = inputs
        emitted = q * emission
        moved = tf.pad(emitted[:, :-1], [[0, 0], [1, 0]])
        moved += q * rounded
        return q * skip + moved, emitted

    q = _q_0(ops.shape(emission)[1], length, emission.dtype)
    states = q, tf.zeros_like(q)
    if not unroll:
        q, emitted = tf.scan(step, inputs, states)
        return tf.transpose(emitted, (1, 2, 0)), q[-1]
    columns = []
    for current in zip(*map(tf.unstack, inputs)):
        states = step(states, current)
        columns.append(states[1])
    return tf.stack(columns, axis=2), states[0]


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
        matrix, q_end = recursion(emission, length)
        outputs = tf.matmul(matrix, sequence)
        if not distributions:
            return Subsample(outputs)
        # Of U or more outputs, the last is one.
        overflow = tf.reduce_sum(matrix[:, -1:], axis=2)
        return Subsample(outputs, matrix, tf.concat([q_end, overflow], axis=1))
    blocks = _blocks(emission)
    q_before, q_end, overflow = _q_before(blocks.r_end, length)
    number = blocks.r_end.shape[1]
    unrolls = isinstance(number, int) and number <= MOST_UNROLLED
    sum_over_blocks = _sum_unrolled if unrolls else _sum_in_loop
    outputs = sum_over_blocks(q_before, _z(blocks, sequence), length)
    if not distributions:
        return Subsample(outputs)
    matrix = _matrix(q_before, blocks, length)
    overflow = overflow + tf.reduce_sum(q_end[:, length:], axis=1)
    lengths = tf.concat([q_end[:, :length], overflow[:, None]], axis=1)
    return Subsample(outputs, matrix[:, :, : ops.shape(emission)[1]], lengths)


def output_mask(lengths: Tensor) -> Tensor:
    """P(length > m), `(batch, U)`, falling."""
    return tf.cumsum(lengths[:, 1:], axis=1, reverse=True)


def _is_small(time: Size, length: Size) -> bool:
    if not isinstance(time, int) or not isinstance(length, int):
        return False
    return time <= PLAIN_STEPS and time * length <= PLAIN_ENTRIES


class _Blocks(NamedTuple):
    """All blocks, each by itself.

    Attributes:
        emitted: `(batch * N, L, L)`, $e_n r_n(k)$.
        r_end: `(batch, N, L + 1)`, $r_L(k)$.
    """

    emitted: Tensor
    r_end: Tensor


def _blocks(emission: Tensor) -> _Blocks:
    """Makes blocks of runs, and these by the plain recursion."""
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
    emitted, r_end = recursion(short, width + 1, unroll=True)
    run = tf.concat([emitted, r_end[:, :, None]], axis=2)
    for i in range(DOUBLINGS):
        run = _join_pairs(run, width * 2**i)
    emitted, r_end = tf.split(run, [steps, 1], axis=2)
    # When a step is emitted, not all steps of the block were before it.
    emitted, _ = tf.split(emitted, [steps, 1], axis=1)
    return _Blocks(emitted, tf.reshape(r_end, (batch, number, steps + 1)))


def _join_pairs(runs: Tensor, width: int) -> Tensor:
    """Puts runs of `width` steps together, each with the one after it.

    A run is a square matrix, `emitted` with a last column `r_end`.
    """
    pairs = ops.shape(runs)[0] // 2
    runs = tf.reshape(runs, (pairs, 2, width + 1, width + 1))
    first, second = tf.unstack(runs, axis=1)
    first, r_end = tf.split(first, [width, 1], axis=2)
    second = convolve(r_end[:, :, 0], second, 2 * width + 1)
    first = tf.pad(first, [[0, 0], [0, width], [0, 0]])
    return tf.concat([first, second], axis=2)


def _q_before(r_end: Tensor, length: Size) -> tuple[Tensor, Tensor, Tensor]:
    """Distributions of how many steps were emitted, over the blocks in turn.

    Returns:
        $q_j$, `(N, batch, at least length)`; the same after the last block,
        `(batch, at least length)`; and the overflow there, `(batch,)`.
    """
    batch = ops.shape(r_end)[0]
    steps = r_end.shape[2] - 1
    rows = -(-length // steps)

    # Entry (x, i) is the count i * L + x, so that a matrix product convolves
    # all i at once. Its second half belongs to the next i.
    def step(states: tuple, r_end: Tensor) -> tuple[Tensor, Tensor]:
        q, overflow = states
        matrix = toeplitz(r_end, steps, 2 * steps)
        moved = tf.matmul(matrix, q, transpose_a=True)
        stays, leaves = tf.split(moved, 2, axis=1)
        overflow = overflow + tf.reduce_sum(leaves[:, :, -1], axis=1)
        leaves = tf.pad(leaves[:, :, :-1], [[0, 0], [0, 0], [1, 0]])
        return _renormalise(stays + leaves, overflow)

    q_0 = _q_0(batch, rows * steps, r_end.dtype)
    q_0 = tf.reshape(q_0, (batch, rows, steps))
    q_0 = tf.linalg.matrix_transpose(q_0)
    q, overflow = tf.scan(
        step,
        tf.transpose(r_end, (1, 0, 2)),
        (q_0, tf.zeros_like(q_0[:, 0, 0])),
    )
    q = tf.transpose(tf.concat([q_0[None], q], axis=0), (0, 1, 3, 2))
    q = tf.reshape(q, (ops.shape(q)[0], batch, rows * steps))
    return q[:-1], q[-1], overflow[-1]


def _z(blocks: _Blocks, sequence: Tensor) -> Tensor:
    """$z_{jk}$, block by block: `(N, batch, L, features)`."""
    batch, number = ops.shape(blocks.r_end)[:2]
    steps = blocks.r_end.shape[2] - 1
    features = sequence.shape[2]
    sequence = _pad_time(sequence, number * steps)
    sequence = tf.reshape(sequence, (batch * number, steps, features))
    z = tf.matmul(blocks.emitted, sequence)
    z = tf.reshape(z, (batch, number, steps, features))
    return tf.transpose(z, (1, 0, 2, 3))


def _sum_unrolled(q_before: Tensor, z: Tensor, length: Size) -> Tensor:
    """The sum over j and k, each block with no more outputs than it reaches."""
    steps = z.shape[2]
    total = None
    for j, (q, z_j) in enumerate(zip(tf.unstack(q_before), tf.unstack(z))):
        reach = _minimum((j + 1) * steps, length)
        q = q[:, : _minimum(j * steps + 1, length)]
        result = convolve(q, z_j, reach)
        total = result if j == 0 else _pad_time(total, reach) + result
    return _pad_time(total, length)


def _sum_in_loop(q_before: Tensor, z: Tensor, length: Size) -> Tensor:
    """As `_sum_unrolled`, for any number of blocks."""
    _, batch, _, features = ops.shape(z)

    def add(total: Tensor, block: tuple) -> Tensor:
        q, z_j = block
        return total + convolve(q, z_j, length, in_loop=True)

    return tf.foldl(
        add,
        (q_before[:, :, :length], z),
        tf.zeros((batch, length, features), z.dtype),
    )


def _matrix(q_before: Tensor, blocks: _Blocks, length: Size) -> Tensor:
    r"""$p(y_m = s_n) = \sum_k q_j(m - k) e_n r_n(k)$, `(batch, U, N * L)`."""
    batch, number = ops.shape(blocks.r_end)[:2]
    steps = blocks.r_end.shape[2] - 1
    q = tf.transpose(q_before[..., :length], (1, 0, 2))
    q = tf.reshape(q, (batch * number, length))
    matrix = convolve(q, blocks.emitted, length)
    matrix = tf.reshape(matrix, (batch, number, length, steps))
    matrix = tf.transpose(matrix, (0, 2, 1, 3))
    return tf.reshape(matrix, (batch, length, number * steps))


def _rounded(emission: Tensor, skip: Tensor) -> Tensor:
    """The exact rounding error of `skip = 1 - emission`.

    It is small, but equal for equal probabilities, and would add up over time.
    """
    # The clip changes nothing, but keeps graphs from simplifying 1 - (1 - e).
    again = 1 - tf.clip_by_value(skip, 0, 1)
    return tf.stop_gradient(again - emission)


def _renormalise(q: Tensor, overflow: Tensor) -> tuple[Tensor, Tensor]:
    """Rescales a distribution, so that rounding errors do not change its sum.

    They are small in each block, but may be the same in all of them.
    """
    excess = tf.reduce_sum(q, axis=[1, 2]) + overflow - 1
    scale = 1 - tf.stop_gradient(excess)
    return q * scale[:, None, None], overflow * scale


def _q_0(batch: Size, size: Size, dtype: str) -> Tensor:
    """$q_0$, `(batch, size)`: no step has been emitted."""
    return tf.one_hot(tf.zeros((batch,), "int32"), size, dtype=dtype)


def _minimum(a: int, b: Size) -> Size:
    return min(a, b) if isinstance(b, int) else tf.minimum(a, b)


def _pad_time(x: Tensor, time: Size) -> Tensor:
    """Zeros after the last step, up to `time`."""
    more = time - ops.shape(x)[1]
    more = max(more, 0) if isinstance(more, int) else tf.maximum(more, 0)
    return tf.pad(x, [[0, 0], [0, more]] + [[0, 0]] * (len(x.shape) - 2))
