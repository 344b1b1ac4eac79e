"""How a window is read and what it gates, by hand."""

import numpy as np

from keras_seqmech.receptive_field import equations


def test_keep_weights_by_hand():
    selection = np.array([[0.1, 0.2, 0.3, 0.4]])
    actual = equations.keep_weights(selection, np.ones((1, 4)))
    np.testing.assert_allclose(actual, [[1.0, 0.9, 0.7, 0.4]])
    actual = equations.keep_weights(selection, [[1.0, 0.0, 1.0, 0.0]])
    np.testing.assert_allclose(actual, [[1.0, 0.0, 0.7, 0.0]])
    weights = equations.mean_weights(actual)
    np.testing.assert_allclose(weights, [[1 / 1.7, 0.0, 0.7 / 1.7, 0.0]])
    nothing = equations.mean_weights(np.zeros((1, 4)))
    np.testing.assert_array_equal(nothing, np.zeros((1, 4)))


def test_inner_states_and_summaries_by_hand():
    """m = 2 z + m / 2 over real positions; the third is carried over."""
    offsets = [np.array([[z]]) for z in (1.0, 2.0, 9.0, 3.0)]
    validity = np.array([[True, True, False, True]])
    states = equations.inner_states(
        offsets, np.array([[0.25]]), validity, lambda x: 2 * x
    )
    np.testing.assert_allclose(np.ravel(states), [2.0, 5.0, 5.0, 8.5])
    last = equations.run_summaries(states, validity, "last")
    np.testing.assert_allclose(np.ravel(last), [2.0, 5.0, 5.0, 8.5])
    mean = equations.run_summaries(states, validity, "mean")
    np.testing.assert_allclose(np.ravel(mean), [2.0, 3.5, 3.5, 15.5 / 3])


def test_forget_gates_each_state_by_its_own_part():
    states = [np.full((1, 2), 3.0), np.full((1, 1), 5.0), np.full((1, 2), 7.0)]
    gate = np.array([[0.5, 1.0, 0.0]])
    first, second, third = equations.forget(gate, states, (0, 1))
    np.testing.assert_array_equal(first, [[1.5, 3.0]])
    np.testing.assert_array_equal(second, [[0.0]])
    np.testing.assert_array_equal(third, states[2])
    first, second, third = equations.forget(gate[:, :2], states, (2,))
    np.testing.assert_array_equal(first, states[0])
    np.testing.assert_array_equal(second, states[1])
    np.testing.assert_array_equal(third, [[3.5, 7.0]])
