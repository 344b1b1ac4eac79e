"""Continuous integrate-and-fire against a loop that accumulates."""

import keras
import numpy as np
import pytest

from examples.subsampling import integrate_and_fire
from tests.tolerances import assert_close

STATES = np.random.default_rng(5).normal(size=(6, 14, 3))


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


def make_layer(length=9):
    return integrate_and_fire.IntegrateAndFire(
        length, share=0.3, quantity_weight=2.0, dtype="float64", name="fired"
    )


def assert_fires(outputs, mask, alphas):
    for row in range(len(STATES)):
        expected = fire(STATES[row], alphas[row])
        assert mask[row].sum() == len(expected)
        assert mask[row, : len(expected)].all()
        assert_close(outputs[row, : len(expected)], np.array(expected), 64)


def test_it_fires_as_the_loop():
    layer = make_layer()
    outputs, mask = (x.numpy() for x in layer(STATES))
    kernel, bias = layer.logit.get_weights()
    alphas = 1 / (1 + np.exp(-(STATES @ kernel + bias)[..., 0]))
    assert_fires(outputs, mask, alphas)
    assert len(set(mask.sum(axis=1))) > 1
    found = float(layer.length_metric.result())
    assert found == pytest.approx(mask.sum(axis=1).mean())
    # In training scaled to 14 steps times 0.3, rounded down; the distance is
    # added to the loss.
    outputs, mask = (x.numpy() for x in layer(STATES, training=True))
    total = alphas.sum(axis=1, keepdims=True)
    assert (mask.sum(axis=1) == 4).all()
    assert_fires(outputs, mask, alphas * 4 / total)
    (loss,) = layer.losses
    assert float(loss) == pytest.approx(2 * np.abs(total - 4).mean() / 14)
    # Outputs beyond the length are left out.
    outputs, _ = layer(STATES)
    short = make_layer(length=2)
    short.build(STATES.shape)
    short.set_weights(layer.get_weights())
    cut, mask = short(STATES)
    assert_close(cut.numpy(), outputs.numpy()[:, :2], 4)
    assert mask.shape == (6, 2)


@pytest.mark.parametrize("training", [False, True])
def test_masked_steps_are_not_there(training):
    layer, mask = make_layer(), np.arange(14) < 9
    layer(STATES)
    outputs, there = layer(
        np.where(mask[:, None], STATES, 1e3),
        mask=np.tile(mask, (6, 1)),
        training=training,
    )
    expected, expected_there = layer(STATES[:, :9], training=training)
    assert_close(outputs.numpy(), expected.numpy(), 64)
    np.testing.assert_array_equal(there.numpy(), expected_there.numpy())


def test_a_step_may_fire_several_times():
    alphas = keras.ops.convert_to_tensor([[0.5, 2.75, 0.0, 0.75]], "float64")
    found = integrate_and_fire.firing_weights(alphas, 5).numpy()
    expected = [
        [0.5, 0.5, 0, 0],
        [0, 1, 0, 0],
        [0, 1, 0, 0],
        [0, 0.25, 0, 0.75],
        [0, 0, 0, 0],
    ]
    np.testing.assert_allclose(found[0], expected, rtol=0, atol=1e-12)
