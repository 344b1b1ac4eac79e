"""The encoder's loops, packed and not."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_seqmech.focused import encoder as loops

FEATURES, LOWER, UNITS = 3, 5, 4


def make_cells():
    cells = []
    for units, features in ((LOWER, FEATURES), (UNITS, LOWER)):
        cell = keras.layers.LSTMCell(units, dtype="float64")
        cell.build((None, features))
        cells.append(cell)
    return cells


def run(cells, x, mask, gates, states, options):
    """All that both loops return, and gradients of all of it."""
    weights = [v.value for cell in cells for v in cell.trainable_variables]
    with tf.GradientTape() as tape:
        tape.watch([x, *states])
        hidden, lower = loops.run_lower(cells[0], x, states[:2], mask, options)
        sequence, upper = loops.run_upper(
            cells[1], hidden, gates, states[2:], options, is_soft=False
        )
        values = (hidden, *lower, sequence, *upper)
        loss = sum(tf.reduce_sum(tf.sin(value)) for value in values)
    return values, tape.gradient(loss, [x, *states, *weights])


@pytest.mark.parametrize(
    "training", [pytest.param(False, marks=pytest.mark.slow), True]
)
def test_packed_loops_are_the_padded_ones(training):
    """Masks and gates at random, rows without any among them."""
    cells = make_cells()
    vectors = tf.TensorSpec((None, None), "float64")
    signature = [
        tf.TensorSpec((None, None, FEATURES), "float64"),
        tf.TensorSpec((None, None), "bool"),
        vectors,
        [vectors] * 4,
    ]

    def trace(packed):
        options = loops.LoopOptions(training, packed=packed)

        @tf.function(input_signature=signature)
        def function(x, mask, gates, states):
            return run(cells, x, mask, gates, tuple(states), options)

        return function

    packed, padded = trace(True), trace(False)
    for seed in range(8):
        generator = np.random.default_rng(seed)
        batch, length = generator.integers(1, 6), generator.integers(1, 8)
        mask = generator.random((batch, length)) < 0.7
        mask &= generator.random((batch, 1)) < 0.8
        gates = mask & (generator.random((batch, length)) < 0.4)
        arguments = (
            generator.normal(size=(batch, length, FEATURES)),
            mask,
            gates.astype("float64"),
            [
                generator.normal(size=(batch, units))
                for units in (LOWER, LOWER, UNITS, UNITS)
            ],
        )
        actual, expected = packed(*arguments), padded(*arguments)
        for a, b in zip(tf.nest.flatten(actual), tf.nest.flatten(expected)):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


def test_loops_pack_by_themselves():
    """The lower cell sees real steps alone, and the upper one open ones."""
    seen = []

    class Noting(keras.layers.LSTMCell):
        def call(self, inputs, states, training=False):
            seen.append(len(inputs))
            return super().call(inputs, states, training)

    cells = []
    for units, features in ((LOWER, FEATURES), (UNITS, LOWER)):
        cell = Noting(units, dtype="float64")
        cell.build((None, features))
        cells.append(cell)
    mask = tf.constant([[True, True, True], [False, True, False]])
    gates = tf.constant([[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]], "float64")
    x = tf.ones((2, 3, FEATURES), "float64")
    states = [tf.zeros((2, n), "float64") for n in (LOWER, LOWER, UNITS, UNITS)]
    run(cells, x, mask, gates, tuple(states), loops.LoopOptions())
    assert seen == [2, 1, 1, 1, 1]
    seen.clear()
    options = loops.LoopOptions(packed=False)
    run(cells, x, mask, gates, tuple(states), options)
    assert seen == [2] * 5
