"""Choices by stopping, against a walk from value to value."""

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_seqmech.core.decisions import choices

ALL = [True] * 4
PATTERNS = [
    ALL,
    [True, True, True, False],
    [True, False, True, True],
    [True, False, True, False],
    [False, True, True, True],
    [False, False, True, False],
    [True, False, False, False],
]


def walk(stop_logits, exist):
    """Goes from value to value; may stop at all that exist but the last."""
    last = max(i for i, exists in enumerate(exist) if exists)
    left, result = 1.0, []
    for i, exists in enumerate(exist):
        stop = 0.0
        if i == last:
            stop = 1.0
        elif exists:
            stop = 1 / (1 + np.exp(-stop_logits[i]))
        result.append(left * stop)
        left *= 1 - stop
    return np.array(result)


def logits_of(stop_logits, exist, dtype="float64"):
    values = choices.value_mask(ops.convert_to_tensor(exist), dtype)
    return choices.stop_log_probabilities(
        ops.convert_to_tensor(stop_logits, dtype), values
    )


@pytest.mark.parametrize("exist", PATTERNS)
def test_probabilities_are_those_of_the_walk(exist):
    stop_logits = np.random.default_rng(0).normal(size=(5, 3))
    logits = logits_of(stop_logits, [exist] * 5)
    expected = [walk(row, exist) for row in stop_logits]
    np.testing.assert_allclose(np.exp(logits), expected, rtol=0, atol=1e-15)
    np.testing.assert_allclose(np.exp(logits).sum(-1), 1, rtol=1e-14)


def test_one_pattern_serves_all_rows_and_axes():
    stop_logits = np.random.default_rng(1).normal(size=(2, 3, 3))
    exist = [[[True, True, False, True]]]
    repeated = np.tile(exist, (2, 3, 1))
    np.testing.assert_array_equal(
        logits_of(stop_logits, exist), logits_of(stop_logits, repeated)
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


@pytest.mark.parametrize("size", [2, 3, 7])
def test_uniform_stops_make_values_equally_likely(size):
    stop_logits = [choices.uniform_stops((size - 1,), "float64").numpy()]
    logits = logits_of(stop_logits, [[True] * size])
    np.testing.assert_allclose(np.exp(logits), 1 / size, rtol=1e-14)


@pytest.mark.parametrize("exist", PATTERNS)
def test_first_stop_is_where_a_walk_stops_as_likely_as_not(exist):
    last = max(i for i, exists in enumerate(exist) if exists)
    stop_logits = np.random.default_rng(3).normal(size=(50, 3))
    expected = [
        next(
            (i for i in range(last) if exist[i] and row[i] >= 0),
            last,
        )
        for row in stop_logits
    ]
    one_hot = choices.first_stop(logits_of(stop_logits, [exist] * 50))
    np.testing.assert_array_equal(np.argmax(one_hot, -1), expected)


def test_as_likely_as_not_is_a_stop():
    two = logits_of([[0.0], [-1e-9]], [[True, True]])
    one_hot = choices.first_stop(two)
    np.testing.assert_array_equal(one_hot, [[1, 0], [0, 1]])
