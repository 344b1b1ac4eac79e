"""Choices by stopping, at their limits.

The references of layers that stop walk from value to value.
"""

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_seqmech.core.decisions import choices

PATTERNS = [
    [True] * 4,
    [True, True, True, False],
    [True, False, True, True],
    [True, False, True, False],
    [False, True, True, True],
    [False, False, True, False],
    [True, False, False, False],
]


def logits_of(stop_logits, exist, dtype="float64"):
    values = choices.value_mask(ops.convert_to_tensor(exist), dtype)
    return choices.stop_log_probabilities(
        ops.convert_to_tensor(stop_logits, dtype), values
    )


def test_two_values_are_a_sigmoid():
    logits = logits_of([[0.3], [-40.0]], [[True, True]])
    expected = [
        [-np.log1p(np.exp(-0.3)), -0.3 - np.log1p(np.exp(-0.3))],
        [-40 - np.log1p(np.exp(-40.0)), -np.log1p(np.exp(-40.0))],
    ]
    np.testing.assert_allclose(logits, expected, rtol=1e-14)


@pytest.mark.parametrize(
    "value", [0.0, 90.0, -90.0, 1e30, -1e38, np.inf, -np.inf, np.nan]
)
@pytest.mark.parametrize("exist", [*PATTERNS, [False] * 4])
def test_float32_stays_finite_in_value_and_gradient(exist, value):
    stop_logits = tf.fill((1, 3), tf.constant(value, "float32"))
    with tf.GradientTape() as tape:
        tape.watch(stop_logits)
        logits = logits_of(stop_logits, [exist], "float32")
        entropy = choices.size_entropy(logits)
        relaxed = choices.tempered_softmax(logits, 1e-6)
        loss = entropy + relaxed[:, 1] + tf.math.log_softmax(logits)[:, 0]
    gradient = tape.gradient(loss, stop_logits)
    for tensor in (logits, entropy, relaxed, gradient):
        assert np.all(np.isfinite(tensor))


def test_as_likely_as_not_is_a_stop():
    two = logits_of([[0.0], [-1e-9]], [[True, True]])
    one_hot = choices.first_stop(two)
    np.testing.assert_array_equal(one_hot, [[1, 0], [0, 1]])
