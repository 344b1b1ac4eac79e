"""Penalties of decisions, against sums written out and by hand."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_seqmech import DecisionPenalties
from keras_seqmech import ExpectedSubsample
from keras_seqmech import LastAttentionPooling
from keras_seqmech import LookAhead
from keras_seqmech.core.decisions import choices
from keras_seqmech.core.decisions import learning
from keras_seqmech.core.decisions import reports
from keras_seqmech.core.decisions.choices import Decision
from keras_seqmech.core.layers import add_loss
from keras_seqmech.core.layers import batch_mean

MASK = np.array([[1, 1, 1, 1], [1, 0, 1, 0], [0, 0, 0, 0]], "bool")


@pytest.mark.parametrize("rows", [32_768, 70_000])
def test_a_mean_over_more_rows_than_half_precision_counts(rows, all_in):
    all_in("float16")
    layer = keras.layers.Layer()
    add_loss(layer, batch_mean(tf.fill([rows], 0.001)), {}, True)
    (loss,) = layer.losses
    assert loss.dtype == "float16"
    np.testing.assert_allclose(loss, 0.001, rtol=1e-3)


def test_sums_beyond_half_precision(all_in):
    all_in("float16")
    layer = LookAhead(
        10,
        penalties=DecisionPenalties(reading=1.0),
        estimator="reinforce",
        return_field=True,
    )
    with reports.collect():
        _, field = layer(tf.ones((60_000, 12, 2), "float16"), training=True)
    ahead = np.mean(field["size"]) - 1
    assert ahead * 60_000 > np.finfo("float16").max
    np.testing.assert_allclose(sum(layer.losses), ahead, rtol=1e-3)


@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_a_weight_of_zero_adds_zero(weight, all_in):
    """The sum of what it weighs is beyond half precision."""
    all_in("float16")
    layer = LastAttentionPooling(penalty=weight)
    layer(tf.ones((5000, 20, 2)), training=True)
    np.testing.assert_allclose(sum(layer.losses), 19 * weight, rtol=1e-3)


def make_decision(seed=0):
    generator = np.random.default_rng(seed)
    return Decision(*map(tf.constant, generator.uniform(size=(5, 3, 4))))


def losses(decision, present=None, **arguments):
    weights = learning.PenaltyWeights(DecisionPenalties(**arguments))
    weights.build()
    return weights.losses(decision, present)


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
@pytest.mark.parametrize("present", [None, MASK])
def test_losses_add_up_to_the_means_over_real_steps(present, target, target_of):
    decision = make_decision()
    weight = np.ones((3, 4)) if present is None else present.astype("float64")
    read, entropy, indecision = (
        np.average(x, weights=weight)
        for x in (decision.weighed, decision.entropy, decision.indecision)
    )
    arguments = {"reading": 0.25, "entropy": 0.5, "indecision": 0.125}
    reading = 0.25 * read
    if target is not None:
        arguments |= {"target": target, "target_weight": 0.75}
        reading += 0.75 * distance(
            decision.weighed.numpy(), weight, target, target_of
        )
    found = losses(decision, present, target_of=target_of, **arguments)
    uncertainty = 0.125 * indecision + 0.5 * (math.log(2) - entropy)
    np.testing.assert_allclose(
        np.mean(found, axis=1), [reading, uncertainty], rtol=1e-12
    )


@pytest.mark.parametrize("target", [0.1, 0.9])
def test_the_targets_gradient_is_that_of_the_distance(target):
    decision = make_decision()
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(decision.weighed)
        reading, _ = losses(decision, MASK, target=target, target_weight=1.0)
        loss = tf.reduce_mean(reading)
        real = tf.boolean_mask(decision.weighed, MASK)
        expected = tf.abs(tf.reduce_mean(real) - target)
    np.testing.assert_allclose(
        tape.gradient(loss, decision.weighed),
        tape.gradient(expected, decision.weighed),
        rtol=1e-12,
    )


def test_losses_of_rows():
    """Two rows with two real steps each, which read one and two of them."""
    read = tf.constant([[1.0, 0.0, 9.0], [1.0, 1.0, 9.0]])
    mask = np.array([[1, 1, 0], [1, 1, 0]], "bool")
    decision = Decision(read, read, read, 0 * read, 0 * read)
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
        reading, _ = losses(decision, mask, **arguments)
        np.testing.assert_allclose(reading, expected, atol=1e-6)


def test_weights_of_examples_are_factors_of_what_is_read():
    decision, weight = make_decision(), np.array([0.0, 1.0, 3.0])
    all_terms = {"reading": 0.5, "entropy": 0.25, "indecision": 0.125}
    reading, uncertainty = losses(decision, MASK, **all_terms)
    penalty = learning.PenaltyWeights(DecisionPenalties(**all_terms))
    penalty.build()
    found = penalty.losses(decision, MASK, weight)
    np.testing.assert_allclose(found[0], reading * weight, rtol=1e-12)
    np.testing.assert_allclose(found[1], uncertainty, rtol=1e-12)


def test_a_batch_without_a_real_step_adds_nothing():
    nan = tf.fill((2, 3), np.nan)
    found = losses(
        Decision(nan, nan, nan, nan, nan),
        np.zeros((2, 3), "bool"),
        **{"reading": 1.0, "target": 0.5, "target_weight": 1.0},
        **{"entropy": 1.0, "indecision": 1.0},
    )
    np.testing.assert_array_equal(found, np.zeros((2, 2)))


def test_masked_steps_add_nothing_and_get_no_gradient():
    x = tf.constant(np.where(MASK, 0.5, np.nan))
    with tf.GradientTape() as tape:
        tape.watch(x)
        shares = tf.reduce_mean(learning.batch_shares(x, MASK))
    np.testing.assert_allclose(shares, 0.5)
    np.testing.assert_allclose(tape.gradient(shares, x), MASK / MASK.sum())


def sizes(logits, size):
    """Relaxed sizes."""
    return choices.decided_sizes(logits, logits, "relaxed", lambda _: size)


def test_sizes():
    """A fair choice among four, a certain one, one of two of the four."""
    logits = tf.constant([[[0.0] * 4, [99.0, 0, 0, 0], [50.0, 50.0, 0, 0]]])
    decision = sizes(logits, tf.constant([[2.5, 1.0, 1.5]]))
    np.testing.assert_allclose(decision.weighed, [[2.5, 1.0, 1.5]])
    np.testing.assert_allclose(
        decision.certainty, [[0.0, math.log(4), math.log(2)]], atol=1e-6
    )
    np.testing.assert_allclose(decision.indecision, [[1, 0, 0.5]], atol=1e-6)
    # Of the positions read, the step itself is not read ahead.
    reading, _ = losses(decision, reading=1.0)
    np.testing.assert_allclose(reading, [2 / 3])
    reading, _ = losses(decision, target=1.0, target_weight=1.0)
    np.testing.assert_allclose(reading, [2 / 3])


def test_one_size_is_no_decision():
    decision = sizes(tf.zeros((1, 2, 1)), tf.ones((1, 2)))
    everything = {"reading": 1.0, "entropy": 1.0, "indecision": 1.0}
    np.testing.assert_array_equal(losses(decision, **everything), [[0], [0]])


def test_certain_emissions_have_finite_gradients():
    p = tf.constant([[0.0, 1.0, 0.5]])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(p)
        decision = choices.decided_steps(p, p, p, None)
        certainty = decision.certainty
    np.testing.assert_allclose(certainty, [[math.log(2)] * 2 + [0]], atol=1e-6)
    for value in (certainty, decision.indecision):
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
        learning.WEIGHTS
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
