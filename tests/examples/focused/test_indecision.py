"""The charge for undecided gates."""

import numpy as np
import pytest
import tensorflow as tf

from examples.focused import indecision
from examples.focused import picking
from tests.examples.focused.small_models import small


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_undecided_gates_cost(dtype):
    """A mean over steps and rows, and a gradient to the probabilities."""
    layer = indecision.IndecisionPenalty(dtype=dtype)
    states = np.ones((2, 2, 3))
    probabilities = tf.constant([[0.9, 0.5], [0.2, 1.0]], dtype)
    costs = {True: 3 * (0.36 + 1 + 0.64 + 0) / 4, False: 0}
    for training, cost in costs.items():
        layer(states, probabilities, training=training)
        layer.indecision_weight.assign(3)
        with tf.GradientTape() as tape:
            tape.watch(probabilities)
            found = layer(states, probabilities, training=training)
            total = tf.add_n([tf.zeros(()), *layer.losses])
        np.testing.assert_array_equal(found, states)
        assert float(total) == pytest.approx(cost, rel=1e-2)
        gradient = tape.gradient(total, probabilities)
        if training:
            slopes = 3 * (1 - 2 * probabilities.numpy())
            np.testing.assert_allclose(gradient, slopes, atol=1e-2)


@pytest.mark.long
def test_what_undecided_gates_cost_is_of_their_probabilities():
    args = picking.parse(small("unused"))
    asked, _ = picking.picking.examples(16, 6)
    model = picking.build("fhe", "straight_through", args)
    gate = model.get_layer("encoder").gate
    for weight in (gate.sparsity_weight, gate.entropy_weight):
        weight.assign(0)
    model.get_layer("indecision").indecision_weight.assign(1)
    # Drawn gates are decided and would cost nothing.
    model(asked, training=True)
    assert float(sum(model.losses)) > 0.9
