"""Continuous integrate-and-fire against a loop that accumulates."""

import keras
import numpy as np
import pytest

from examples.subsampling import integrate_and_fire
from tests.finite_differences import gradient_and_difference
from tests.tolerances import assert_close


def fire(states, alphas):
    """Outputs of one sequence: accumulate, fire at 1, keep the overshoot."""
    outputs, total, sum_of_states = [], 0.0, np.zeros(states.shape[-1])
    for state, alpha in zip(states, alphas):
        while total + alpha >= 1:
            needed = 1 - total
            outputs.append(sum_of_states + needed * state)
            alpha -= needed
            total, sum_of_states = 0.0, np.zeros(states.shape[-1])
        total += alpha
        sum_of_states = sum_of_states + alpha * state
    if total >= 0.5:
        outputs.append(sum_of_states)
    return outputs


def make_layer(**options):
    options = {"length": 9, "share": 0.3, "quantity_weight": 2.0, **options}
    return integrate_and_fire.IntegrateAndFire(
        **options, dtype="float64", name="fired"
    )


def inputs():
    generator = np.random.default_rng(5)
    return generator.normal(size=(6, 14, 3))


def alphas_of(layer, states):
    kernel, bias = layer.logit.get_weights()
    return 1 / (1 + np.exp(-(states @ kernel + bias)[..., 0]))


def assert_fires(outputs, mask, states, alphas):
    for row in range(len(states)):
        expected = fire(states[row], alphas[row])
        assert mask[row].sum() == len(expected)
        assert mask[row, : len(expected)].all()
        assert_close(outputs[row, : len(expected)], np.array(expected), 64)


def test_inference_is_the_loop():
    layer, states = make_layer(), inputs()
    outputs, mask = (x.numpy() for x in layer(states))
    assert_fires(outputs, mask, states, alphas_of(layer, states))
    assert len(set(mask.sum(axis=1))) > 1
    found = float(layer.length_metric.result())
    assert found == pytest.approx(mask.sum(axis=1).mean())


def test_training_scales_to_the_target_and_charges_the_distance():
    layer, states = make_layer(), inputs()
    outputs, mask = (x.numpy() for x in layer(states, training=True))
    alphas = alphas_of(layer, states)
    total = alphas.sum(axis=1, keepdims=True)
    # 14 steps times 0.3, rounded down.
    assert (mask.sum(axis=1) == 4).all()
    scaled = alphas * 4 / total
    assert_fires(outputs, mask, states, scaled)
    (loss,) = layer.losses
    distance = np.abs(total - 4).mean() / 14
    assert float(loss) == pytest.approx(2 * distance)


@pytest.mark.parametrize("training", [False, True])
def test_masked_steps_are_not_there(training):
    layer, states = make_layer(), inputs()
    mask = np.arange(14) < 9
    layer(states)
    outputs, there = layer(
        np.where(mask[:, None], states, 1e3),
        mask=np.tile(mask, (6, 1)),
        training=training,
    )
    expected, expected_there = layer(states[:, :9], training=training)
    assert_close(outputs.numpy(), expected.numpy(), 64)
    np.testing.assert_array_equal(there.numpy(), expected_there.numpy())


def test_a_step_may_fire_several_times():
    alphas = np.array([[0.5, 2.75, 0.0, 0.75]])
    found = integrate_and_fire.firing_weights(
        keras.ops.convert_to_tensor(alphas), 5
    ).numpy()
    expected = [
        [0.5, 0.5, 0, 0],
        [0, 1, 0, 0],
        [0, 1, 0, 0],
        [0, 0.25, 0, 0.75],
        [0, 0, 0, 0],
    ]
    np.testing.assert_allclose(found[0], expected, rtol=0, atol=1e-12)


def test_outputs_beyond_the_length_are_left_out():
    states = inputs()
    long, short = make_layer(), make_layer(length=2)
    outputs, _ = long(states)
    short.build(states.shape)
    short.set_weights(long.get_weights())
    cut, mask = short(states)
    assert_close(cut.numpy(), outputs.numpy()[:, :2], 4)
    assert mask.shape == (6, 2)


def test_gradient_of_the_weights():
    """In float64, away from the places where an output begins."""
    generator = np.random.default_rng(7)
    states = generator.normal(size=(1, 8, 3))
    factors = generator.normal(size=(1, 4, 3))

    def function(alphas):
        weights = integrate_and_fire.firing_weights(alphas, 4)
        return keras.ops.sum(keras.ops.matmul(weights, states) * factors)

    alphas = generator.uniform(0.2, 0.6, size=(1, 8))
    found, expected = gradient_and_difference(function, alphas)
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)
