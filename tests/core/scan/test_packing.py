"""Packed sequences against loops over rows and steps."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from keras_seqmech.core.scan.packing import can_pack
from keras_seqmech.core.scan.packing import pack
from keras_seqmech.core.scan.protocol import ScanOptions

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
}


@pytest.fixture(params=PATTERNS, ids=lambda name: name.replace(" ", "-"))
def keep(request):
    return np.array(PATTERNS[request.param], bool)


def normal(*shape):
    return np.random.default_rng(3).normal(size=shape)


def elements(keep):
    """Rows and steps in packed order: by number, length and row."""
    kept = [np.flatnonzero(row) for row in keep]
    order = sorted(range(len(kept)), key=lambda row: len(kept[row]))
    return [
        (row, kept[row][number])
        for number in range(keep.shape[1])
        for row in order
        if number < len(kept[row])
    ]


def test_gather_takes_kept_steps_by_number_and_length(keep):
    x = normal(*keep.shape, 2)
    expected = np.array([x[place] for place in elements(keep)]).reshape(-1, 2)
    np.testing.assert_array_equal(pack(keep).gather(x), expected)


def test_scatter_and_hold_bring_steps_back(keep):
    packing = pack(keep)
    x = normal(*keep.shape, 2)
    initial = normal(len(keep), 2) + 10
    held = np.zeros_like(x)
    for row, time in itertools.product(*map(range, keep.shape)):
        before = held[row, time - 1] if time else initial[row]
        held[row, time] = x[row, time] if keep[row, time] else before
    zeros = np.where(keep[..., None], x, 0)
    packed = packing.gather(x)
    np.testing.assert_array_equal(packing.scatter(packed), zeros)
    np.testing.assert_array_equal(packing.hold(packed, initial), held)
    np.testing.assert_array_equal(packing.final(packed, initial), held[:, -1])


def test_gradients_are_those_of_finite_differences(keep):
    packing = pack(keep)
    total = int(keep.sum())

    def check(function, *arguments):
        arguments = [tf.constant(a) for a in arguments]
        exact, numeric = tf.test.compute_gradient(function, arguments)
        for a, b in zip(exact, numeric):
            # Linear functions: the step of the difference is no error.
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-9)

    check(packing.gather, normal(*keep.shape, 2))
    if total == 0:
        return
    values, initial = normal(total, 2), normal(len(keep), 2)
    check(packing.scatter, values)
    check(packing.final, values, initial)
    check(packing.hold, values, initial)
    check(packing.sort, initial)
    check(packing.unsort, initial)


def test_static_sizes_are_kept():
    @tf.function
    def run(keep, x):
        packing = pack(keep)
        packed = packing.gather(x)
        assert packed.shape.as_list() == [None, 2]
        assert packing.scatter(packed).shape == (4, 5, 2)
        assert packing.hold(packed, x[:, 0]).shape == (4, 5, 2)
        assert packing.sort(x).shape == (4, 5, 2)

    run(
        tf.constant(np.array(PATTERNS["gaps"], bool)),
        tf.constant(normal(4, 5, 2)),
    )


def test_packing_of_integers_and_booleans(keep):
    packing = pack(keep)
    numbers = np.arange(keep.size).reshape(keep.shape)
    expected = [numbers[place] for place in elements(keep)]
    np.testing.assert_array_equal(packing.gather(numbers), expected)
    assert np.all(packing.gather(keep))
    np.testing.assert_array_equal(packing.scatter(packing.gather(keep)), keep)


def test_it_is_possible_where_sizes_may_depend_on_values():
    possible = {}

    def note(place, options=ScanOptions()):  # noqa: B008
        possible[place] = can_pack(options)

    note("eager")
    note("eager, compiled loop", ScanOptions(jit_compile=True))
    note("unrolled", ScanOptions(unroll=True))
    note("some steps", ScanOptions(steps=tf.constant(1)))
    tf.function(lambda: note("graph"))()
    tf.function(lambda: note("compiled loop", ScanOptions(jit_compile=True)))()
    tf.function(lambda: note("compiled"), jit_compile=True)()
    assert possible == {
        "eager": True,
        "eager, compiled loop": True,
        "unrolled": False,
        "some steps": False,
        "graph": True,
        "compiled loop": False,
        "compiled": False,
    }
