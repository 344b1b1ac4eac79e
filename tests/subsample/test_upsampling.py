"""The latest output at each step, against all outcomes and itself."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_seqmech.core import compaction
from keras_seqmech.subsample import blocks
from keras_seqmech.subsample import expectation
from keras_seqmech.subsample import upsampling
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
    return upsampling.upsample(outputs, matrix, initial)


@pytest.fixture(params=["plain", "blocks"])
def path(request, monkeypatch):
    """Each way to compute the same, at any size."""
    if request.param == "blocks":
        monkeypatch.setattr(blocks, "BLOCK_STEPS", 8)
        monkeypatch.setattr(blocks, "PLAIN_STEPS", 0)
    return request.param


def close(actual, expected, tolerance=1e-12):
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("length", [1, 3, 10, 13])
@pytest.mark.parametrize("masked", [False, True])
def test_expectation_over_all_outcomes(path, length, masked):
    outputs, emission, initial = random_inputs(10, length)
    mask = np.ones((2, 10), "bool")
    if masked:
        mask[0, [0, 4, 9]], mask[1] = False, False
    expected = np.zeros((2, 10, FEATURES))
    for b in range(2):
        for p, chosen in subsample_references.outcomes(emission[b] * mask[b]):
            expected[b] += p * latest(outputs[b], chosen, initial[b])
    for function in (upsampling.expected_upsample, by_matrix):
        found = function(
            outputs, emission, mask if masked else None, tf.constant(initial)
        )
        close(found, expected)


@pytest.mark.parametrize("length", [1, 7, 40])
def test_hard_decisions_give_exactly_the_latest_output(path, length):
    outputs, emission, initial = random_inputs(37, length)
    keep = emission < 0.4
    keep[1] = False
    expected = np.stack([*map(latest, outputs, keep, initial)])
    hard = keep.astype("float64")
    for found in (
        upsampling.upsample_kept(outputs, keep, initial),
        upsampling.expected_upsample(outputs, hard, initial=initial),
        by_matrix(outputs, hard, initial=initial),
    ):
        np.testing.assert_array_equal(found, expected)
    without = np.stack([*map(latest, outputs, keep, 0 * initial)])
    for found in (
        upsampling.upsample_kept(outputs, keep),
        upsampling.expected_upsample(outputs, hard),
        by_matrix(outputs, hard),
    ):
        np.testing.assert_array_equal(found, without)


@pytest.mark.parametrize("time", [1, 8, 9, 37])
@pytest.mark.parametrize("length", [1, 11, 45])
def test_paths_agree_in_values_and_gradients(path, time, length):
    arguments = [tf.constant(x) for x in random_inputs(time, length)]
    weights = np.random.default_rng(1).normal(size=(2, time, FEATURES))

    def run(function):
        with tf.GradientTape() as tape:
            tape.watch(arguments)
            outputs, emission, initial = arguments
            found = function(outputs, emission, initial=initial)
            loss = tf.reduce_sum(found * weights)
        return [found, *tape.gradient(loss, arguments)]

    for a, b in zip(run(upsampling.expected_upsample), run(by_matrix)):
        close(a, b, 1e-11)


@pytest.mark.long
@pytest.mark.parametrize("jit_compile", [False, True])
def test_unknown_sizes(path, jit_compile):
    arguments = [x.astype("float32") for x in random_inputs(37, 9)]

    @tf.function(
        jit_compile=jit_compile,
        autograph=False,
        input_signature=[
            tf.TensorSpec((None, None, FEATURES)),
            tf.TensorSpec((None, None)),
            tf.TensorSpec((None, FEATURES)),
        ],
    )
    def run(*arguments):
        with tf.GradientTape() as tape:
            tape.watch(arguments)
            outputs, emission, initial = arguments
            found = upsampling.expected_upsample(
                outputs, emission, initial=initial
            )
            loss = tf.reduce_sum(found**2)
        return [found, *tape.gradient(loss, arguments)]

    outputs, emission, initial = map(tf.constant, arguments)
    with tf.GradientTape() as tape:
        tape.watch([outputs, emission, initial])
        found = by_matrix(outputs, emission, initial=initial)
        loss = tf.reduce_sum(found**2)
    gradients = tape.gradient(loss, [outputs, emission, initial])
    # Sums of at most 37 * 9 products in float32.
    for a, b in zip(run(*arguments), [found, *gradients]):
        close(a, b, 1e-4)


def test_it_undoes_a_subsample_of_runs():
    """Of a sequence that changes where it is kept alone."""
    keep = np.random.default_rng(0).uniform(size=(3, 12)) < 0.5
    keep[:, 0] = True
    runs = np.cumsum(keep, axis=1)[:, :, None].astype("float32")
    indices, real = compaction.compact(tf.constant(keep), 12)
    short = compaction.gather(tf.constant(runs), tf.constant(keep), indices)
    short = tf.where(real[..., None], short, 0)
    np.testing.assert_array_equal(upsampling.upsample_kept(short, keep), runs)


def test_dtypes():
    outputs, emission, initial = random_inputs(9, 4)
    outputs = tf.cast(outputs, "float16")
    emission = tf.cast(emission, "float32")
    for found in (
        upsampling.expected_upsample(outputs, emission, initial=initial),
        upsampling.upsample_kept(outputs, emission > 0.5, initial),
        by_matrix(outputs, emission, initial=initial),
    ):
        assert found.dtype == "float16"
        assert found.shape == (2, 9, FEATURES)


def test_symbolic_tensors():
    outputs = keras.Input((4, FEATURES))
    matrix = keras.Input((4, 9))
    start = keras.Input((FEATURES,))
    model = keras.Model(
        [outputs, matrix, start], upsampling.upsample(outputs, matrix, start)
    )
    values, emission, initial = random_inputs(9, 4)
    expected = by_matrix(values, emission, initial=initial)
    given = expectation.emission_matrix(emission, 4).numpy()
    again = keras.Model.from_config(model.get_config())
    for each in (model, again):
        found = each.predict_on_batch([values, given, initial])
        # Float32 here, float64 there; at most 5 products a sum.
        close(found, expected, 1e-5)
