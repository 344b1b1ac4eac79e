"""The latest output at each step, against all outcomes."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_seqmech.subsample import expectation
from keras_seqmech.subsample.upsampling import upsample
from tests import subsample_references

FEATURES = 2


def random_inputs(time, length, batch=2):
    generator = np.random.default_rng(time + length)
    outputs = generator.normal(size=(batch, length, FEATURES))
    emission = generator.uniform(size=(batch, time))
    initial = generator.normal(size=(batch, FEATURES))
    return outputs, emission, initial


def latest(outputs, chosen, initial):
    """The definition, for one row and one outcome."""
    found, count = [], 0
    for kept in chosen:
        count = min(count + int(kept), len(outputs))
        found.append(outputs[count - 1] if count else initial)
    return np.array(found)


def by_matrix(outputs, emission, mask=None, initial=None):
    matrix = expectation.emission_matrix(emission, outputs.shape[1], mask)
    return upsample(outputs, matrix, initial)


@pytest.mark.parametrize("length", [1, 3, 13])
def test_expectation_over_all_outcomes(length):
    outputs, emission, initial = random_inputs(10, length)
    mask = np.ones((2, 10), "bool")
    mask[0, [0, 4, 9]] = False
    expected = np.zeros((2, 10, FEATURES))
    for b in range(2):
        for p, chosen in subsample_references.outcomes(emission[b] * mask[b]):
            expected[b] += p * latest(outputs[b], chosen, initial[b])
    found = by_matrix(outputs, emission, mask, tf.constant(initial))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("length", [1, 7, 40])
def test_hard_decisions_give_exactly_the_latest_output(length):
    outputs, emission, initial = random_inputs(37, length)
    keep = emission < 0.4
    keep[1] = False
    hard = keep.astype("float64")
    for start in (initial, None):
        first = 0 * initial if start is None else initial
        expected = np.stack([*map(latest, outputs, keep, first)])
        found = by_matrix(outputs, hard, initial=start)
        np.testing.assert_array_equal(found, expected)


def test_symbolic_tensors_and_dtypes():
    outputs = keras.Input((4, FEATURES), dtype="float16")
    matrix = keras.Input((4, 9))
    start = keras.Input((FEATURES,))
    model = keras.Model(
        [outputs, matrix, start], upsample(outputs, matrix, start)
    )
    values, emission, initial = random_inputs(9, 4)
    values = values.astype("float16")
    expected = by_matrix(values, emission, initial=initial)
    given = expectation.emission_matrix(emission, 4).numpy()
    again = keras.Model.from_config(model.get_config())
    found = again.predict_on_batch([values, given, initial])
    assert found.dtype == "float16"
    # Rounded to float16 at the end.
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=1e-3)
