"""What the package needs to know of the cells of Keras."""

import keras
import numpy as np
import pytest

from keras_seqmech.core import cells

CELLS = [
    keras.layers.LSTMCell,
    keras.layers.GRUCell,
    keras.layers.SimpleRNNCell,
]


@pytest.mark.parametrize("cell_class", CELLS)
def test_keras_cells_keep_their_dropout_masks_until_reset(cell_class):
    """If this fails, `fresh_dropout` and `draw_dropout` need another way."""
    cell = cell_class(50, dropout=0.5, recurrent_dropout=0.5, seed=1)
    assert cells.caches_dropout(cell)
    cell.build((2, 50))
    ones = np.ones((2, 50), "float32")

    def masks():
        return np.array(
            [
                cell.get_dropout_mask(ones),
                cell.get_recurrent_dropout_mask(ones),
            ]
        )

    with cells.fresh_dropout(cell):
        cells.draw_dropout(cell, 2, 50, "float32")
        first = masks()
        states = [ones] * len(cells.flat_state_sizes(cell))
        cells.call_cell(cell, ones, states, training=True)
        np.testing.assert_array_equal(masks(), first)
        assert set(np.unique(first)) == {0.0, 2.0}
    with cells.fresh_dropout(cell):
        assert np.any(masks() != first)


def test_cells_of_a_stack_have_masks_of_their_own_widths():
    parts = [keras.layers.GRUCell(units, dropout=0.5) for units in (3, 4)]
    stack = keras.layers.StackedRNNCells(parts)
    with cells.fresh_dropout(stack):
        cells.draw_dropout(stack, 2, 5, "float32")
        inputs = np.ones((2, 1), "float32")
        assert parts[0].get_dropout_mask(inputs).shape == (2, 5)
        assert parts[1].get_dropout_mask(inputs).shape == (2, 3)


def test_gated_state_by_hand():
    lstm, gru = keras.layers.LSTMCell(2), keras.layers.GRUCell(3)
    for cell, memory in (
        (lstm, 1),
        (gru, 0),
        (keras.layers.StackedRNNCells([lstm, gru]), 1),
        (keras.layers.StackedRNNCells([gru, lstm]), 0),
    ):
        assert cells.gated_state(cell, "memory") == memory
        assert cells.gated_state(cell, "output") == 0


def test_sizes_are_ints_of_python():
    cell = keras.layers.LSTMCell(np.int64(3))
    assert cells.state_size(cell) == [3, 3]
    assert {type(size) for size in cells.flat_state_sizes(cell)} == {int}
    assert type(cells.output_size(cell)) is int
