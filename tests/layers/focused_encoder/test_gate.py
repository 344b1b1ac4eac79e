"""Gates against their formulas, TFP, frequencies and finite differences."""

import itertools
import math

import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from keras_seqmech import BoundaryGate
from keras_seqmech import Curriculum
from keras_seqmech import FocusedHierarchicalEncoder
from keras_seqmech.layers import log_probabilities
from keras_seqmech.ops.decisions import bernoulli
from keras_seqmech.ops.decisions import categorical
from tests import references

LOGITS = np.array([-90.0, -6.0, -1.5, -0.2, 0.0, 0.3, 2.0, 7.0, 90.0])


def make_gate(size=3, units=5, seed=0, slope=0.2):
    generator = np.random.default_rng(seed)
    shapes = {
        "kernel": (3 * size, units),
        "bias": (units,),
        "output_kernel": (units, 1),
        "output_bias": (),
    }
    return {k: generator.normal(size=s) for k, s in shapes.items()}


def test_logits_are_those_of_the_vectors_formed():
    generator = np.random.default_rng(1)
    weights = make_gate()
    h = generator.normal(size=(2, 4, 3))
    q = generator.normal(size=(2, 3))
    expected = [
        [references.gate_logit(weights, state, q[b]) for state in h[b]]
        for b in range(2)
    ]
    logits = bernoulli.boundary_logits(h, q, *weights.values())
    assert logits.dtype == "float64"
    # TensorFlow keeps the slope of a LeakyReLU as a float32.
    np.testing.assert_allclose(logits, expected, rtol=1e-7)
    half = bernoulli.boundary_logits(
        h.astype("float16"), q.astype("float16"), *weights.values()
    )
    assert half.dtype == "float32"


def gradient_and_difference(function, x):
    """Gradient along a random direction, and the difference quotient."""
    x = tf.constant(x)
    direction = np.random.default_rng(5).normal(size=x.shape)
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = tf.reduce_sum(tf.sin(function(x)))
    exact = tf.reduce_sum(tape.gradient(value, x) * direction)
    ends = [
        tf.reduce_sum(tf.sin(function(x + step * direction)))
        for step in (1e-6, -1e-6)
    ]
    return float(exact), float(ends[0] - ends[1]) / 2e-6


@pytest.mark.parametrize("name", ["log_probability", "entropy", "logits"])
def test_gradients_are_those_of_finite_differences(name):
    generator = np.random.default_rng(2)
    weights = make_gate()
    q = generator.normal(size=(2, 3))
    function = {
        "log_probability": lambda x: bernoulli.log_probability(
            x[..., 0], tf.cast(x[..., 1] > 0, "float64")
        ),
        "entropy": lambda x: bernoulli.entropy(x),
        "logits": lambda x: bernoulli.boundary_logits(x, q, *weights.values()),
    }[name]
    x = 2 * generator.normal(size=(2, 4, 3))
    exact, numeric = gradient_and_difference(function, x)
    assert abs(exact) > 1e-3
    np.testing.assert_allclose(exact, numeric, rtol=1e-6)


def test_log_probability_and_entropy_are_those_of_a_coin():
    small = LOGITS[1:-1]
    p = 1 / (1 + np.exp(-small))
    closed = bernoulli.log_probability(small, np.zeros_like(small))
    opened = bernoulli.log_probability(small, np.ones_like(small))
    np.testing.assert_allclose(np.exp(opened), p, rtol=1e-12)
    np.testing.assert_allclose(np.exp(closed), 1 - p, rtol=1e-12)
    expected = -p * np.log(p) - (1 - p) * np.log(1 - p)
    np.testing.assert_allclose(bernoulli.entropy(small), expected, rtol=1e-10)


@pytest.mark.parametrize("size", [90.0, 1e4, 1e30])
def test_huge_logits_stay_finite(size):
    logits = tf.constant([size, -size], "float32")
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(logits)
        likely = bernoulli.log_probability(logits, tf.constant([1.0, 0.0]))
        unlikely = bernoulli.log_probability(logits, tf.constant([0.0, 1.0]))
        entropy = bernoulli.entropy(logits)
        soft = bernoulli.draw(logits, 0.0, 1e-6, "relaxed")
    np.testing.assert_allclose(likely, [0, 0], atol=1e-30)
    np.testing.assert_allclose(unlikely, [-size, -size], rtol=1e-6)
    np.testing.assert_allclose(entropy, [0, 0], atol=1e-30)
    np.testing.assert_allclose(soft, [1, 0])
    for value in (likely, unlikely, entropy, soft):
        assert np.isfinite(tape.gradient(value, logits)).all()


@pytest.mark.parametrize("estimator", bernoulli.ESTIMATORS)
def test_frequencies_are_the_probabilities(estimator):
    """Each within 4.5 standard errors: a false alarm in 15,000 runs of 9."""
    count = 20_000
    noise = categorical.logistic_noise(
        (count, len(LOGITS)), keras.random.SeedGenerator(3)
    )
    drawn = bernoulli.draw(LOGITS.astype("float32"), noise, 0.7, estimator)
    opened = np.mean(drawn.numpy() > 0.5, axis=0)
    p = 1 / (1 + np.exp(-LOGITS))
    error = np.sqrt(p * (1 - p) / count)
    assert (np.abs(opened - p) <= 4.5 * error + 1e-12).all()


def test_relaxed_gates_are_tfps():
    """The same noise gives TFP's sample; other noise its distribution."""
    temperature, logits = 0.6, np.float32(0.8)
    distribution = tfp.distributions.RelaxedBernoulli(temperature, logits)
    theirs = distribution.sample(20_000, seed=(1, 2)).numpy()
    noise = categorical.logistic_noise((20_000,), keras.random.SeedGenerator(4))
    ours = bernoulli.draw(logits, noise, temperature, "relaxed").numpy()
    # Two-sample Kolmogorov-Smirnov, level 1e-4: 2.225 * sqrt(2 / n).
    points = np.sort(np.concatenate([ours, theirs]))
    shares = [
        np.searchsorted(np.sort(x), points, "right") / len(x)
        for x in (ours, theirs)
    ]
    assert np.max(np.abs(shares[0] - shares[1])) < 2.225 * math.sqrt(1e-4)
    # The formula, from TFP's own logistic variable.
    inner = theirs[(theirs > 1e-4) & (theirs < 1 - 1e-4)]
    noise = temperature * (np.log(inner) - np.log1p(-inner)) - logits
    again = bernoulli.draw(logits, noise, temperature, "relaxed")
    np.testing.assert_allclose(again, inner, rtol=1e-3)


def test_straight_through_is_hard_with_the_soft_gradient():
    logits = tf.constant(LOGITS)
    noise = np.random.default_rng(6).logistic(size=LOGITS.shape)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(logits)
        hard = bernoulli.draw(logits, noise, 0.5, "straight_through")
        soft = bernoulli.draw(logits, noise, 0.5, "relaxed")
    assert (hard.numpy() == (LOGITS + noise > 0)).all()
    np.testing.assert_array_equal(
        tape.gradient(hard, logits), tape.gradient(soft, logits)
    )
    assert (tape.gradient(soft, logits).numpy()[3:6] > 0).all()


def test_excess_counts_real_steps():
    drawn = tf.constant([[1.0, 1, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]])
    mask = tf.constant([[True] * 4, [True, True, False, False], [False] * 4])
    np.testing.assert_allclose(bernoulli.excess(drawn, mask, 0.25), [3, 1.5, 0])
    np.testing.assert_allclose(bernoulli.excess(drawn, None, 0.25), [3, 1, 0])


# The layer.


def run_gate(training=True, mask=None, **options):
    keras.utils.set_random_seed(0)
    layer = BoundaryGate(5, return_gates=True, **options)
    generator = np.random.default_rng(0)
    h = generator.normal(size=(3, 6, 4)).astype("float32")
    q = generator.normal(size=(3, 2)).astype("float32")
    with log_probabilities.collect() as collected:
        drawn, decisions = layer(h, q, sequence_mask=mask, training=training)
    return layer, drawn.numpy(), decisions, collected


MASK = np.array([[1, 1, 1, 1, 1, 1], [1, 0, 1, 1, 0, 0], [0] * 6], "bool")


@pytest.mark.parametrize("estimator", bernoulli.ESTIMATORS)
def test_losses_and_what_is_reported(estimator):
    layer, drawn, decisions, collected = run_gate(
        mask=MASK,
        estimator=estimator,
        openness_target=0.1,
        sparsity_weight=0.5,
        entropy_weight=0.25,
    )
    p = decisions["probabilities"].numpy()
    assert (drawn[~MASK] == 0).all() and (p[~MASK] == 0).all()
    cost = 0.5 * np.maximum(drawn.sum(1) - 0.1 * MASK.sum(1), 0)
    real = p[MASK].astype("float64")
    entropy = -np.sum(real * np.log(real) + (1 - real) * np.log(1 - real))
    sparsity_loss, entropy_loss = layer.losses
    np.testing.assert_allclose(sparsity_loss, cost.mean(), rtol=1e-5)
    np.testing.assert_allclose(entropy_loss, -0.25 * entropy / 3, rtol=1e-5)
    if estimator != "reinforce":
        assert not collected and "log_probability" not in decisions
        return
    (report,) = collected
    chosen = np.where(drawn > 0.5, p, 1 - p)
    np.testing.assert_allclose(
        report.log_probability,
        np.sum(np.log(np.where(MASK, chosen, 1)), axis=1),
        rtol=1e-5,
    )
    np.testing.assert_allclose(report.cost, cost, rtol=1e-5)
    np.testing.assert_allclose(
        np.sum(decisions["log_probability"], axis=1),
        report.log_probability,
        rtol=1e-6,
    )


def test_inference_adds_and_reports_nothing():
    layer, drawn, decisions, collected = run_gate(
        False, openness_target=0.1, sparsity_weight=1.0, entropy_weight=1.0
    )
    assert not layer.losses and not collected
    p = decisions["probabilities"].numpy()
    assert (drawn == (p > 0.5)).all()


def test_a_drawing_gate_that_nobody_collects_from_warns():
    layer = BoundaryGate(5)
    with pytest.warns(UserWarning, match="will not learn"):
        layer(np.ones((2, 3, 4)), np.ones((2, 4)), training=True)


@pytest.mark.parametrize("openness", [0.2, 0.9])
def test_gates_start_about_as_open_as_told(openness):
    layer, _, decisions, _ = run_gate(initial_openness=openness)
    bias = float(layer.output_bias)
    np.testing.assert_allclose(1 / (1 + np.exp(-bias)), openness, rtol=1e-6)


def test_statistics_are_means_over_real_steps():
    layer, drawn, decisions, _ = run_gate(
        mask=MASK, track_statistics=True, name="watched"
    )
    results = {m.name: float(m.result()) for m in layer.metrics}
    p = decisions["probabilities"].numpy()[MASK]
    entropy = -p * np.log(p) - (1 - p) * np.log(1 - p)
    assert results == {
        "watched_openness": pytest.approx(drawn[MASK].mean(), rel=1e-5),
        "watched_gate_entropy": pytest.approx(entropy.mean(), rel=1e-5),
    }


def test_context_of_the_same_size_is_not_projected():
    layer = BoundaryGate(5)
    layer.build((None, 6, 4), (None, 4))
    assert layer.context_kernel is None
    names = [v.name for v in layer.trainable_variables]
    assert names == ["kernel", "bias", "output_kernel", "output_bias"]


@pytest.mark.parametrize("policy", ["float32", "mixed_float16"])
def test_a_context_entry_beyond_a_million_acts_as_a_million(policy):
    """Projected or not; nor do sums of huge products become NaN."""
    signs = np.array([[1, -1, 1], [-1, -1, 1]], "float32")
    for size in (3, 5):
        layer = BoundaryGate(4, return_gates=True, dtype=policy)
        h = np.random.default_rng(0).normal(size=(2, 6, size))
        layer.build(h.shape, signs.shape)
        # Such that gates are undecided: the rest of a context says much.
        layer.kernel.assign(1e-7 * layer.kernel)
        huge, million = (
            layer(h, signs * scale)[1]["probabilities"].numpy()
            for scale in (3e38, 1e6)
        )
        np.testing.assert_array_equal(huge, million)
        assert np.ptp(huge) > 1e-3


def test_logits_beyond_float32_are_no_nan():
    h = np.float32(3e38) * np.sign(
        np.random.default_rng(0).normal(size=(2, 9, 4))
    )
    gate = {k: v.astype("float32") for k, v in make_gate(size=4).items()}
    q = np.full((2, 4), 1e6, "float32")
    assert np.isfinite(bernoulli.boundary_logits(h, q, *gate.values())).all()


def test_weights_of_the_losses_move_without_tracing_again():
    layer = BoundaryGate(
        5,
        estimator="relaxed",
        openness_target=0.01,
        sparsity_weight=0.5,
        entropy_weight=0.25,
        seed=1,
    )
    h, q = np.ones((2, 6, 4), "float32"), np.ones((2, 4), "float32")
    noise_count = layer.seed_generator.state

    @tf.function
    def losses():
        layer(h, q, training=True)
        return layer.losses

    def run():
        noise_count.assign([1, 0])  # the same noise
        return np.array(losses())

    layer.build(h.shape, q.shape)
    assert (
        layer.sparsity_weight.dtype == layer.entropy_weight.dtype == "float32"
    )
    before = run()
    layer.sparsity_weight.assign(1.0)
    layer.entropy_weight.assign(0.0)
    after = run()
    assert losses.experimental_get_tracing_count() == 1
    np.testing.assert_allclose(after, before * [2, 0], rtol=1e-6)
    assert (before != 0).all()
    config = layer.get_config()
    assert (config["sparsity_weight"], config["entropy_weight"]) == (0.5, 0.25)


def test_a_curriculum_finds_the_weights():
    encoder = FocusedHierarchicalEncoder(2, openness_target=0.5, name="encoder")
    inputs = keras.Input((4, 3)), keras.Input((3,))
    model = keras.Model(inputs, encoder(*inputs))
    for name in ("entropy_weight", "sparsity_weight"):
        curriculum = Curriculum(
            name, 4, initial=0.5, final=0.1, layer_names=["encoder"]
        )
        curriculum.set_model(model)
        curriculum.on_train_begin()
        curriculum.on_epoch_begin(2)
        value = float(getattr(encoder.gate, name))
        np.testing.assert_allclose(value, 0.3, rtol=1e-6)
        with pytest.raises(ValueError, match="`final` must"):
            curriculum = Curriculum(name, 4, final=-1.0)
            curriculum.set_model(model)
            curriculum.on_train_begin()


def test_without_a_target_there_is_no_price():
    layer = BoundaryGate(5)
    layer.build((None, 6, 4), (None, 4))
    assert layer.sparsity_weight is None
    names = [v.name for v in layer.weights]
    assert names[-2:] == ["temperature", "entropy_weight"]


def test_sparsity_without_a_target_is_refused():
    with pytest.raises(ValueError, match="`openness_target` must be given"):
        BoundaryGate(5, sparsity_weight=0.1)


def test_expected_log_probability_is_minus_the_entropy():
    """Over all gate sequences: probabilities sum to 1, surprise to H."""
    logits = np.array([-1.2, 0.4, 2.0])
    sequences = np.array(list(itertools.product([0.0, 1.0], repeat=3)))
    logs = np.sum(bernoulli.log_probability(logits, sequences), axis=1)
    np.testing.assert_allclose(np.exp(logs).sum(), 1, rtol=1e-12)
    np.testing.assert_allclose(
        -(np.exp(logs) * logs).sum(),
        np.sum(bernoulli.entropy(logits)),
        rtol=1e-12,
    )
