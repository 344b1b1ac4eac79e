"""The encoder's loops see no more rows than they need.

That they give what padded ones do is tested of the encoder.
"""

import keras
import tensorflow as tf

from keras_seqmech.focused import encoder as loops

FEATURES, LOWER, UNITS = 3, 5, 4


def run(cells, x, mask, gates, states, options):
    hidden, _ = loops.run_lower(cells[0], x, states[:2], mask, options)
    loops.run_upper(cells[1], hidden, gates, states[2:], options, is_soft=False)


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
    run(cells, x, mask, gates, tuple(states), loops.ScanOptions())
    assert seen == [2, 1, 1, 1, 1]
    seen.clear()
    options = loops.ScanOptions(packed=False)
    run(cells, x, mask, gates, tuple(states), options)
    assert seen == [2] * 5
