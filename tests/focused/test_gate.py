"""The boundary gate layer: masks, losses, what it reports."""

import copy

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_seqmech import BoundaryGate
from keras_seqmech import ContextAttention
from keras_seqmech import DecisionPenalties
from keras_seqmech import FocusedHierarchicalEncoder
from keras_seqmech.core.decisions import reports
from keras_seqmech.core.decisions.choices import ESTIMATORS
from tests import references


def run_gate(training=True, mask=None, **options):
    keras.utils.set_random_seed(0)
    layer = BoundaryGate(5, return_gates=True, **options)
    generator = np.random.default_rng(0)
    h = generator.normal(size=(3, 6, 4)).astype("float32")
    q = generator.normal(size=(3, 2)).astype("float32")
    with reports.collect() as collected:
        drawn, decisions = layer(h, q, mask=mask, training=training)
    return layer, drawn.numpy(), decisions, collected


MASK = np.array([[1, 1, 1, 1, 1, 1], [1, 0, 1, 1, 0, 0], [0] * 6], "bool")


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_losses_and_what_is_reported(estimator):
    """Means over the nine real steps of three rows."""
    layer, drawn, decisions, collected = run_gate(
        mask=MASK,
        estimator=estimator,
        penalties=DecisionPenalties(
            reading=2.0,
            target=0.125,
            target_weight=4.0,
            entropy=0.25,
            indecision=8.0,
        ),
    )
    p = decisions["probabilities"].numpy()
    assert (drawn[~MASK] == 0).all() and (p[~MASK] == 0).all()
    openness = drawn[MASK].mean()
    reading = 2 * openness + 4 * abs(openness - 0.125)
    real = p[MASK].astype("float64")
    entropy = -real * np.log(real) - (1 - real) * np.log(1 - real)
    uncertainty = 8 * np.mean(4 * real * (1 - real))
    uncertainty += 0.25 * (np.log(2) - entropy.mean())
    np.testing.assert_allclose(layer.losses, [reading + uncertainty], rtol=1e-5)
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
    # A row's own gates, as far as they move the means of the batch.
    share = drawn.sum(1) * len(MASK) / MASK.sum()
    side = np.sign(openness - 0.125)
    real = MASK.sum(1) * len(MASK) / MASK.sum()
    expected = 2 * share + 4 * side * (share - 0.125 * real)
    np.testing.assert_allclose(report.penalty, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        np.sum(decisions["log_probability"], axis=1),
        report.log_probability,
        rtol=1e-6,
    )


@pytest.mark.parametrize("openness", [0.2, 0.9])
def test_gates_start_about_as_open_as_told(openness):
    """The bias is that probability; inputs move the others about it."""
    layer, _, decisions, _ = run_gate(initial_openness=openness)
    bias = float(layer.output_bias)
    np.testing.assert_allclose(1 / (1 + np.exp(-bias)), openness, rtol=1e-6)
    mean = float(np.mean(decisions["probabilities"]))
    assert abs(mean - openness) < 0.25


@pytest.mark.parametrize("inference", ["threshold", "running_sum"])
def test_statistics_are_means_over_real_steps(inference):
    layer, drawn, decisions, _ = run_gate(
        mask=MASK, inference=inference, track_statistics=True, name="watched"
    )
    results = {m.name: float(m.result()) for m in layer.statistics.metrics}
    p = decisions["probabilities"].numpy()
    chosen = p > 0.5
    if inference == "running_sum":
        chosen = np.stack([references.running_sum_gates(row) for row in p])
    share = np.mean(chosen[MASK])
    p = p[MASK]
    entropy = -p * np.log(p) - (1 - p) * np.log(1 - p)
    choice_entropy = -share * np.log(share) - (1 - share) * np.log(1 - share)
    assert 0 < share < 1
    assert results == {
        "watched_penalty": pytest.approx(float(sum(layer.losses))),
        "watched_certain": pytest.approx(np.average(p > 0.9, weights=p)),
        "watched_choice_entropy": pytest.approx(choice_entropy, rel=1e-5),
        "watched_openness": pytest.approx(drawn[MASK].mean(), rel=1e-5),
        "watched_gate_entropy": pytest.approx(entropy.mean(), rel=1e-5),
    }


@pytest.mark.parametrize(
    "layer", [BoundaryGate, FocusedHierarchicalEncoder, ContextAttention]
)
@pytest.mark.parametrize("context", [None, [[1.0, 2.0]]])
def test_a_context_is_an_array(layer, context):
    layer = layer() if layer is ContextAttention else layer(2)
    for _ in range(2):
        with pytest.raises(ValueError, match="`context` must be.*Received"):
            layer(np.ones((1, 3, 2)), context=context)
        layer(np.ones((1, 3, 2)), np.ones((1, 2)))


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


@pytest.mark.parametrize("return_gates", [False, True])
def test_gates_carry_no_mask_that_a_loss_would_apply(return_gates):
    tokens, context = keras.Input((None,)), keras.Input((2,))
    x = keras.layers.Embedding(5, 3, mask_zero=True)(tokens)
    gates = BoundaryGate(2, return_gates=return_gates)(x, context)
    gates = gates[1]["gates"] if return_gates else gates
    model = keras.Model([tokens, context], gates)
    model.compile("sgd", "mse")
    inputs = [np.array([[1, 2, 0], [3, 0, 0]]), np.ones((2, 2))]
    history = model.fit(inputs, np.zeros((2, 3)), verbose=0).history
    assert np.isfinite(history["loss"][0])


def test_huge_states_have_finite_gradients():
    """Their products with a huge context are beyond float32."""
    gate = BoundaryGate(2)
    sequence, context = tf.fill((1, 3, 2), 1e35), tf.fill((1, 2), 1e6)
    gate(sequence, context)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(gate(sequence, context, training=True))
    for gradient in tape.gradient(loss, gate.trainable_weights):
        assert np.isfinite(gradient).all()


def test_a_copy_before_it_is_built():
    gate = copy.deepcopy(BoundaryGate(2))
    assert gate(np.ones((1, 3, 2)), np.ones((1, 4))).shape == (1, 3)
