"""What decisions cost, against sums written out and by hand."""

import math

import numpy as np
import pytest
import tensorflow as tf

from keras_seqmech.core.decisions import penalties

MASK = np.array([[1, 1, 1, 1], [1, 0, 1, 0], [0, 0, 0, 0]], "bool")


def make_measures(seed=0):
    generator = np.random.default_rng(seed)
    return penalties.Measures(*generator.uniform(size=(4, 3, 4)))


@pytest.mark.parametrize("target", [None, 0.1, 0.9])
@pytest.mark.parametrize("mask", [None, MASK])
def test_charges_add_up_to_the_means_over_real_steps(mask, target):
    measures = make_measures()
    real = np.ones((3, 4), "bool") if mask is None else mask
    read, targeted, entropy, indecision = (x[real].mean() for x in measures)
    reading = 0.25 * read
    if target is not None:
        reading += 0.75 * abs(targeted - target)
    uncertainty = 0.125 * indecision - 0.5 * entropy
    weights = penalties.CostWeights(0.25, 0.75, 0.5, 0.125, target)
    charges = penalties.charge(
        penalties.Measures(*map(tf.constant, measures)), weights, mask
    )
    np.testing.assert_allclose(
        np.mean(charges.reading_cost), reading, rtol=1e-12
    )
    np.testing.assert_allclose(
        np.mean(charges.uncertainty_cost), uncertainty, rtol=1e-12
    )


@pytest.mark.parametrize("target", [0.1, 0.9])
def test_the_targets_gradient_is_that_of_the_distance(target):
    measures = penalties.Measures(*map(tf.constant, make_measures()))
    weights = penalties.CostWeights(0.0, 1.0, 0.0, 0.0, target)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(measures.targeted)
        charged = tf.reduce_mean(
            penalties.charge(measures, weights, MASK).reading_cost
        )
        real = tf.boolean_mask(measures.targeted, MASK)
        distance = tf.abs(tf.reduce_mean(real) - target)
    np.testing.assert_allclose(
        tape.gradient(charged, measures.targeted),
        tape.gradient(distance, measures.targeted),
        rtol=1e-12,
    )


def test_rows_are_charged_for_what_they_read():
    """Two rows, four real steps: a price of 1 is the share read."""
    read = tf.constant([[1.0, 0.0, 9.0], [1.0, 1.0, 9.0]])
    mask = np.array([[1, 1, 0], [1, 1, 0]], "bool")
    measures = penalties.Measures(read, read, 0 * read, 0 * read)
    weights = penalties.CostWeights(1.0, 0.0, 0.0, 0.0)
    charges = penalties.charge(measures, weights, mask)
    np.testing.assert_allclose(charges.reading_cost, [0.5, 1.0])
    weights = penalties.CostWeights(0.0, 1.0, 0.0, 0.0, target=0.5)
    charges = penalties.charge(measures, weights, mask)
    np.testing.assert_allclose(charges.reading_cost, [0.0, 0.5])


def test_a_batch_without_a_real_step_costs_nothing():
    nan = tf.fill((2, 3), np.nan)
    weights = penalties.CostWeights(1.0, 1.0, 1.0, 1.0, target=0.5)
    charges = penalties.charge(
        penalties.Measures(nan, nan, nan, nan),
        weights,
        np.zeros((2, 3), "bool"),
    )
    np.testing.assert_array_equal(charges, np.zeros((2, 2)))


def test_masked_steps_cost_nothing_and_get_no_gradient():
    values = np.where(MASK, 0.5, np.nan)
    x = tf.constant(values)
    with tf.GradientTape() as tape:
        tape.watch(x)
        shares = tf.reduce_mean(penalties.batch_shares(x, MASK))
    np.testing.assert_allclose(shares, 0.5)
    np.testing.assert_allclose(tape.gradient(shares, x), MASK / MASK.sum())


def test_sizes():
    """A fair choice among four, a certain one, one of two of the four."""
    logits = tf.constant([[[0.0] * 4, [99.0, 0, 0, 0], [50.0, 50.0, 0, 0]]])
    size = tf.constant([[2.5, 1.0, 1.5]])
    measures = penalties.measure_sizes(logits, size)
    np.testing.assert_allclose(measures.read, [[1.5, 0.0, 0.5]])
    np.testing.assert_allclose(measures.targeted, size)
    np.testing.assert_allclose(
        measures.entropy, [[math.log(4), 0.0, math.log(2)]], atol=1e-6
    )
    np.testing.assert_allclose(measures.indecision, [[1, 0, 0.5]], atol=1e-6)


def test_one_size_is_no_decision():
    measures = penalties.measure_sizes(tf.zeros((1, 2, 1)), tf.ones((1, 2)))
    np.testing.assert_array_equal(measures.read, [[0, 0]])
    np.testing.assert_array_equal(measures.indecision, [[0, 0]])


def test_gates_and_emissions_are_measured_alike():
    logits = tf.constant([[-2.0, 0.0, 3.0]], "float64")
    p = 1 / (1 + np.exp(-logits.numpy()))
    entropy = -p * np.log(p) - (1 - p) * np.log(1 - p)
    for measures in (
        penalties.measure_gates(logits),
        penalties.measure_emissions(tf.constant(p)),
    ):
        np.testing.assert_allclose(measures.read, p, rtol=1e-12)
        np.testing.assert_allclose(measures.entropy, entropy, rtol=1e-12)
        np.testing.assert_allclose(
            measures.indecision, 4 * p * (1 - p), rtol=1e-12
        )
    drawn = tf.constant([[0.0, 1.0, 1.0]], "float64")
    np.testing.assert_array_equal(
        penalties.measure_gates(logits, drawn).read, drawn
    )
    np.testing.assert_array_equal(
        penalties.measure_emissions(tf.constant(p), drawn).targeted, drawn
    )


def test_certain_emissions_have_finite_gradients():
    p = tf.constant([[0.0, 1.0, 0.5]])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(p)
        measures = penalties.measure_emissions(p)
    np.testing.assert_allclose(
        measures.entropy, [[0, 0, math.log(2)]], rtol=1e-6
    )
    for value in (measures.entropy, measures.indecision):
        assert np.isfinite(tape.gradient(value, p)).all()


def test_excess_counts_real_steps():
    drawn = tf.constant([[1.0, 1, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]])
    mask = tf.constant([[True] * 4, [True, True, False, False], [False] * 4])
    np.testing.assert_allclose(penalties.excess(drawn, mask, 0.25), [3, 1.5, 0])
    np.testing.assert_allclose(penalties.excess(drawn, None, 0.25), [3, 1, 0])
