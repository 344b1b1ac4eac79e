"""Penalties of decisions, against sums written out and by hand."""

import math

import numpy as np
import pytest
import tensorflow as tf

from keras_seqmech import DecisionPenalties
from keras_seqmech import ExpectedSubsample
from keras_seqmech.core.decisions import bernoulli
from keras_seqmech.core.decisions import penalties
from keras_seqmech.core.decisions.categorical import Sizes
from keras_seqmech.subsample import probabilities

MASK = np.array([[1, 1, 1, 1], [1, 0, 1, 0], [0, 0, 0, 0]], "bool")
PRESENCE = np.array([[1, 0.5, 0.25, 0.25], [1, 1, 0, 0], [0, 0, 0, 0]])


def make_measures(seed=0):
    generator = np.random.default_rng(seed)
    return penalties.Measures(
        *map(tf.constant, generator.uniform(size=(4, 3, 4)))
    )


def losses(measures, present=None, **arguments):
    weights = penalties.PenaltyWeights(DecisionPenalties(**arguments))
    weights.build()
    return weights.losses(measures, present)


def distance(values, present, target, target_of):
    """The distance from a target, row by row, by definition."""
    if target_of == "batch":
        return abs(np.average(values, weights=present) - target)
    total = 0.0
    for row, weight in zip(values, present):
        if weight.sum():
            above = np.average(row, weights=weight) - target
            above = abs(above) if target_of == "row" else max(above, 0)
            total += weight.sum() * above
    return total / present.sum()


@pytest.mark.parametrize(
    "target, target_of",
    [(None, "batch"), (0.1, "batch"), (0.9, "batch"), (0.5, "row")]
    + [(0.45, "row_above")],
)
@pytest.mark.parametrize("present", [None, MASK, PRESENCE])
def test_losses_add_up_to_the_means_over_real_steps(present, target, target_of):
    measures = make_measures()
    weight = np.ones((3, 4)) if present is None else present.astype("float64")
    read, _, certainty, indecision = (
        np.average(x, weights=weight) for x in measures
    )
    arguments = {"reading": 0.25, "entropy": 0.5, "indecision": 0.125}
    reading = 0.25 * read
    if target is not None:
        arguments |= {"target": target, "target_weight": 0.75}
        reading += 0.75 * distance(
            measures.targeted.numpy(), weight, target, target_of
        )
    found = losses(measures, present, target_of=target_of, **arguments)
    np.testing.assert_allclose(np.mean(found.reading), reading, rtol=1e-12)
    np.testing.assert_allclose(
        np.mean(found.uncertainty),
        0.125 * indecision + 0.5 * certainty,
        rtol=1e-12,
    )


@pytest.mark.parametrize("target", [0.1, 0.9])
def test_the_targets_gradient_is_that_of_the_distance(target):
    measures = make_measures()
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(measures.targeted)
        found = losses(measures, MASK, target=target, target_weight=1.0)
        loss = tf.reduce_mean(found.reading)
        real = tf.boolean_mask(measures.targeted, MASK)
        expected = tf.abs(tf.reduce_mean(real) - target)
    np.testing.assert_allclose(
        tape.gradient(loss, measures.targeted),
        tape.gradient(expected, measures.targeted),
        rtol=1e-12,
    )


def test_losses_of_rows():
    """Two rows with two real steps each, which read one and two of them."""
    read = tf.constant([[1.0, 0.0, 9.0], [1.0, 1.0, 9.0]])
    mask = np.array([[1, 1, 0], [1, 1, 0]], "bool")
    measures = penalties.Measures(read, read, 0 * read, 0 * read)
    for arguments, expected in (
        ({"reading": 1.0}, [0.5, 1.0]),
        ({"target": 0.5, "target_weight": 1.0}, [0.0, 0.5]),
        ({"target": 0.8, "target_weight": 1.0}, [0.3, -0.2]),
        (
            {"target": 0.8, "target_weight": 1.0, "target_of": "row"},
            [0.3, 0.2],
        ),
        (
            {"target": 0.8, "target_weight": 1.0, "target_of": "row_above"},
            [0.0, 0.2],
        ),
    ):
        found = losses(measures, mask, **arguments)
        np.testing.assert_allclose(found.reading, expected, atol=1e-6)


def test_a_batch_without_a_real_step_adds_nothing():
    nan = tf.fill((2, 3), np.nan)
    found = losses(
        penalties.Measures(nan, nan, nan, nan),
        np.zeros((2, 3), "bool"),
        **{"reading": 1.0, "target": 0.5, "target_weight": 1.0},
        **{"entropy": 1.0, "indecision": 1.0},
    )
    np.testing.assert_array_equal(found, np.zeros((2, 2)))


def test_masked_steps_add_nothing_and_get_no_gradient():
    x = tf.constant(np.where(MASK, 0.5, np.nan))
    with tf.GradientTape() as tape:
        tape.watch(x)
        shares = tf.reduce_mean(penalties.batch_shares(x, MASK))
    np.testing.assert_allclose(shares, 0.5)
    np.testing.assert_allclose(tape.gradient(shares, x), MASK / MASK.sum())


def measured(logits, size):
    """Measures of relaxed sizes."""
    sizes = Sizes.of(logits, logits, "relaxed", lambda selection: size)
    return sizes.measures()


def test_sizes():
    """A fair choice among four, a certain one, one of two of the four."""
    logits = tf.constant([[[0.0] * 4, [99.0, 0, 0, 0], [50.0, 50.0, 0, 0]]])
    size = tf.constant([[2.5, 1.0, 1.5]])
    measures = measured(logits, size)
    np.testing.assert_allclose(measures.read, [[1.5, 0.0, 0.5]])
    np.testing.assert_allclose(measures.targeted, size)
    np.testing.assert_allclose(
        measures.certainty, [[0.0, math.log(4), math.log(2)]], atol=1e-6
    )
    np.testing.assert_allclose(measures.indecision, [[1, 0, 0.5]], atol=1e-6)


def test_one_size_is_no_decision():
    measures = measured(tf.zeros((1, 2, 1)), tf.ones((1, 2)))
    np.testing.assert_array_equal(measures.read, [[0, 0]])
    np.testing.assert_array_equal(measures.certainty, [[0, 0]])
    np.testing.assert_array_equal(measures.indecision, [[0, 0]])


def test_gates_and_emissions_are_measured_alike():
    logits = tf.constant([[-2.0, 0.0, 3.0]], "float64")
    p = 1 / (1 + np.exp(-logits.numpy()))
    certainty = np.log(2) + p * np.log(p) + (1 - p) * np.log(1 - p)
    for measures in (
        bernoulli.measure(logits),
        probabilities.measure(tf.constant(p)),
    ):
        np.testing.assert_allclose(measures.read, p, rtol=1e-12)
        np.testing.assert_allclose(
            measures.certainty, certainty, rtol=1e-12, atol=1e-15
        )
        np.testing.assert_allclose(
            measures.indecision, 4 * p * (1 - p), rtol=1e-12
        )
    drawn = tf.constant([[0.0, 1.0, 1.0]], "float64")
    np.testing.assert_array_equal(bernoulli.measure(logits, drawn).read, drawn)
    np.testing.assert_array_equal(
        probabilities.measure(tf.constant(p), drawn).targeted, drawn
    )


def test_certain_emissions_have_finite_gradients():
    p = tf.constant([[0.0, 1.0, 0.5]])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(p)
        measures = probabilities.measure(p)
    np.testing.assert_allclose(
        measures.certainty, [[math.log(2)] * 2 + [0]], atol=1e-6
    )
    for value in (measures.certainty, measures.indecision):
        assert np.isfinite(tape.gradient(value, p)).all()


def test_the_record_is_checked_and_kept():
    record = DecisionPenalties(target=0.5, target_weight=2.0, target_of="row")
    layer = ExpectedSubsample(3, penalties=record)
    again = ExpectedSubsample.from_config(layer.get_config())
    other = ExpectedSubsample(3, penalties=layer.penalties)
    assert again.penalties == other.penalties == record
    layer.build((None, 4, 2))
    assert float(layer.penalty_weights.target_weight) == 2
    assert [v.name for v in layer.penalty_weights.weights] == list(
        penalties.WEIGHTS
    )
    for bad, message in (
        ({"reading": -1}, "`reading`.*Received: reading=-1"),
        ({"entropy": float("nan")}, "`entropy`"),
        ({"indecision": True}, "`indecision`"),
        ({"target_weight": "much", "target": 0.5}, "`target_weight`"),
        ({"target_weight": 1.0}, "`target`.*Received: target=None"),
        ({"target_of": "mean"}, "`target_of`.*row_above"),
    ):
        with pytest.raises(ValueError, match=message):
            DecisionPenalties(**bad)
