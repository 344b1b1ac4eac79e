"""Both layouts of kept steps against loops over rows and steps."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from keras_seqmech.core.kept_steps import compact
from keras_seqmech.core.kept_steps import longest
from keras_seqmech.core.kept_steps import pack

PATTERNS = {
    "gaps": [
        [0, 1, 1, 0, 1],
        [0, 0, 0, 0, 0],
        [1, 1, 1, 1, 1],
        [0, 0, 1, 0, 0],
    ],
    "nothing kept": [[0, 0, 0], [0, 0, 0]],
    "all kept": [[1, 1, 1], [1, 1, 1]],
    "one row": [[1, 0, 1, 1]],
    "one empty row": [[0, 0]],
    "equal rows": [[1, 0, 1], [0, 1, 1], [1, 1, 0]],
    "lengths": [[1, 1, 1, 1], [1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 0, 0]],
    "all of six steps": list(itertools.product([0, 1], repeat=6)),
}
LAYOUTS = pytest.mark.parametrize("layout", [compact, pack])


@pytest.fixture(params=PATTERNS, ids=lambda name: name.replace(" ", "-"))
def keep(request):
    return np.array(PATTERNS[request.param], bool)


def normal(*shape):
    return np.random.default_rng(3).normal(size=shape)


@pytest.mark.parametrize("length", [1, 2, 6])
def test_compaction_finds_the_first_kept_steps(keep, length):
    kept = compact(keep, length)
    assert kept.indices.dtype == "int32"
    x = normal(*keep.shape, 2)
    gathered = kept.gather(x).numpy()
    for b, row in enumerate(keep):
        expected = np.flatnonzero(row)[:length]
        more = length - len(expected)
        assert kept.indices[b].numpy().tolist() == [*expected] + [0] * more
        assert kept.mask[b].numpy().tolist() == (
            [True] * len(expected) + [False] * more
        )
        np.testing.assert_array_equal(
            gathered[b], np.pad(x[b, expected], [[0, more], [0, 0]])
        )


@LAYOUTS
def test_scatter_and_hold_bring_steps_back(keep, layout):
    kept = layout(keep)
    x = normal(*keep.shape, 2)
    initial = normal(len(keep), 2) + 10
    held = np.zeros_like(x)
    for row, time in itertools.product(*map(range, keep.shape)):
        before = held[row, time - 1] if time else initial[row]
        held[row, time] = x[row, time] if keep[row, time] else before
    zeros = np.where(keep[..., None], x, 0)
    values = kept.gather(x)
    np.testing.assert_array_equal(kept.scatter(values), zeros)
    np.testing.assert_array_equal(kept.hold(values, initial), held)
    np.testing.assert_array_equal(kept.final(values, initial), held[:, -1])
    numbers = np.arange(keep.size).reshape(keep.shape)
    for x in (numbers, keep):
        found = kept.scatter(kept.gather(x))
        np.testing.assert_array_equal(found, np.where(keep, x, 0))


@LAYOUTS
@pytest.mark.parametrize("pattern", ["gaps", "nothing kept", "one row"])
def test_gradients_are_those_of_finite_differences(pattern, layout):
    keep = np.array(PATTERNS[pattern], bool)
    kept = layout(keep)

    def check(function, *arguments):
        arguments = [tf.constant(a) for a in arguments]
        exact, numeric = tf.test.compute_gradient(function, arguments)
        for a, b in zip(exact, numeric):
            # Linear functions: the step of the difference is no error.
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-9)

    check(kept.gather, normal(*keep.shape, 2))
    values = normal(*kept.gather(normal(*keep.shape, 2)).shape)
    if values.size == 0:
        return
    initial = normal(len(keep), 2)
    check(kept.scatter, values)
    check(kept.final, values, initial)
    check(kept.hold, values, initial)
    if layout is pack:
        check(kept.sort, initial)
        check(kept.unsort, initial)


def test_no_gradient_from_beyond_the_kept_steps():
    keep = tf.constant([[False, True], [True, True]])
    x = tf.ones((2, 2, 1))
    with tf.GradientTape() as tape:
        tape.watch(x)
        taken = compact(keep, 2).gather(x)
        factors = tf.constant([[[1.0], [float("nan")]], [[2.0], [3.0]]])
        loss = tf.reduce_sum(taken * factors)
    np.testing.assert_array_equal(
        tape.gradient(loss, x)[..., 0], [[0, 1], [2, 3]]
    )


def test_gather_of_fewer_steps_than_are_kept():
    x = tf.constant([[[1.0], [2.0], [3.0]]])
    with tf.GradientTape() as tape:
        tape.watch(x)
        taken = compact(tf.constant([[True, True, True]]), 2).gather(x)
    np.testing.assert_array_equal(taken[0, :, 0], [1, 2])
    np.testing.assert_array_equal(tape.gradient(taken, x)[0, :, 0], [1, 1, 0])


def test_compaction_is_as_long_as_the_fullest_row_and_under_xla_as_all():
    keep = tf.constant([[False, True, True], [False, False, False]])

    def length(keep):
        return tf.shape(compact(keep).mask)[1]

    assert int(length(keep)) == int(tf.function(length)(keep)) == 2
    assert int(tf.function(length, jit_compile=True)(keep)) == 3
    closed = tf.zeros_like(keep)
    assert int(length(closed)) == 1
    assert int(longest(closed)) == int(longest(keep[:0])) == 0


def test_static_sizes_are_kept():
    @tf.function
    def run(keep, x):
        packing = pack(keep)
        packed = packing.gather(x)
        assert packed.shape.as_list() == [None, 2]
        assert packing.scatter(packed).shape == (4, 5, 2)
        assert packing.hold(packed, x[:, 0]).shape == (4, 5, 2)
        assert packing.sort(x).shape == (4, 5, 2)
        kept = compact(keep, 3)
        values = kept.gather(x)
        assert values.shape == (4, 3, 2)
        assert kept.scatter(values).shape == (4, 5, 2)
        assert kept.hold(values, x[:, 0]).shape == (4, 5, 2)

    run(
        tf.constant(np.array(PATTERNS["gaps"], bool)),
        tf.constant(normal(4, 5, 2)),
    )
