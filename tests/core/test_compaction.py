"""Compaction against plain Python, for every pattern of six steps."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from keras_seqmech.core import compaction

LENGTH = 6
KEEP = np.array(list(itertools.product([False, True], repeat=LENGTH)))
ROWS = len(KEEP)


def sequences(units=2, length=LENGTH, seed=0):
    generator = np.random.default_rng(seed)
    return generator.normal(size=(ROWS, length, units))


@pytest.mark.parametrize("capacity", [1, 3, LENGTH])
def test_compact_is_numpys_nonzero(capacity):
    indices, mask = compaction.compact(tf.constant(KEEP), capacity)
    assert indices.dtype == "int32" and indices.shape == (ROWS, capacity)
    for row, row_indices, row_mask in zip(KEEP, indices.numpy(), mask.numpy()):
        expected = np.nonzero(row)[0][:capacity]
        count = len(expected)
        assert row_mask.tolist() == [True] * count + [False] * (
            capacity - count
        )
        assert (row_indices[:count] == expected).all()
        assert (row_indices[count:] == 0).all()


def round_trip(keep, x, initial, weights):
    """Takes the kept steps, scales them, brings them back."""
    capacity = compaction.capacity(keep)
    indices, _ = compaction.compact(keep, capacity)
    taken = compaction.gather(x, keep, indices)
    scaled = taken * weights[:, :capacity]
    return (
        compaction.expand(initial, scaled, keep),
        compaction.final(initial, scaled, keep),
    )


def plain_round_trip(keep, x, initial, weights):
    """The same, one step at a time, in ops with gradients of their own."""
    rows = []
    for b, row in enumerate(KEEP):
        state, number, states = initial[b], 0, []
        for t in range(LENGTH):
            if row[t]:
                state = x[b, t] * weights[0, number]
                number += 1
            states.append(state)
        rows.append(tf.stack(states))
    outputs = tf.stack(rows)
    return outputs, outputs[:, -1]


def with_gradients(function, x, initial, weights):
    sources = [tf.constant(v) for v in (x, initial, weights)]
    upstream = np.random.default_rng(7).normal(size=(ROWS, LENGTH, 2))
    keep = tf.constant(KEEP)
    with tf.GradientTape() as tape:
        tape.watch(sources)
        outputs, final = function(keep, *sources)
        loss = tf.reduce_sum(outputs * upstream)
        loss += tf.reduce_sum(tf.sin(final))
    return outputs, final, *tape.gradient(loss, sources)


@pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
def test_there_and_back_with_gradients(mode):
    generator = np.random.default_rng(1)
    arguments = (
        sequences(),
        generator.normal(size=(ROWS, 2)),
        generator.normal(size=(1, LENGTH, 2)),
    )
    expected = with_gradients(plain_round_trip, *arguments)

    def run():
        return with_gradients(round_trip, *arguments)

    if mode != "eager":
        run = tf.function(run, jit_compile=mode == "xla")
    for actual, wanted in zip(run(), expected):
        np.testing.assert_allclose(actual, wanted, rtol=1e-12, atol=1e-12)


def test_no_gradient_from_beyond_the_kept_steps():
    """Where a row keeps less than others stands its first step."""
    keep = tf.constant([[False, True], [True, True]])
    indices, mask = compaction.compact(keep, 2)
    assert mask.numpy().tolist() == [[True, False], [True, True]]
    x = tf.ones((2, 2, 1))
    with tf.GradientTape() as tape:
        tape.watch(x)
        taken = compaction.gather(x, keep, indices)
        factors = tf.constant([[[1.0], [float("nan")]], [[2.0], [3.0]]])
        loss = tf.reduce_sum(taken * factors)
    np.testing.assert_array_equal(
        tape.gradient(loss, x)[..., 0], [[0, 1], [2, 3]]
    )


def test_gather_of_fewer_steps_than_are_kept():
    keep = tf.constant([[True, True, True]])
    indices, _ = compaction.compact(keep, 2)
    x = tf.constant([[[1.0], [2.0], [3.0]]])
    with tf.GradientTape() as tape:
        tape.watch(x)
        taken = compaction.gather(x, keep, indices)
    np.testing.assert_array_equal(taken[0, :, 0], [1, 2])
    np.testing.assert_array_equal(tape.gradient(taken, x)[0, :, 0], [1, 1, 0])


def test_capacity_is_the_most_kept_and_under_xla_all():
    keep = tf.constant([[False, True, True], [False, False, False]])
    function = tf.function(lambda k: compaction.capacity(k) + 0)
    compiled = tf.function(
        lambda k: compaction.capacity(k) + 0, jit_compile=True
    )
    assert int(compaction.capacity(keep)) == int(function(keep)) == 2
    assert int(compiled(keep)) == 3
    closed = tf.zeros_like(keep)
    assert int(compaction.capacity(closed)) == 1
    assert int(compaction.longest(closed)) == 0
    assert int(compaction.longest(keep[:0])) == 0
