"""What is drawn: its distribution, its limits, and graphs that are freed."""

import gc
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_probability import distributions as tfd

from keras_seqmech.core.decisions import choices


def draws(generator):
    logits = tf.constant([[0.5, -1.0, 2.0]])
    return {
        "gumbel_noise": lambda: choices.gumbel_noise((2, 3), generator),
        "relaxed_one_hot": lambda: choices.relaxed_one_hot(
            logits, 0.5, generator
        ),
        "relaxed_gates": lambda: choices.relaxed_gates(logits, 0.5, generator),
        "hard_gates": lambda: choices.hard_gates(tf.sigmoid(logits), generator),
    }


NAMES = sorted(draws(None))


def test_samples_are_those_of_tfp():
    """The same numbers from the same seeds."""
    generator = keras.random.SeedGenerator(5)
    seeds = keras.random.SeedGenerator(5)
    logits = tf.constant([[0.5, -1.0, 2.0]])
    for name, expected in {
        "gumbel_noise": lambda seed: tfd.Gumbel(0.0, 1.0).sample(
            (2, 3), seed=seed
        ),
        "relaxed_one_hot": tfd.RelaxedOneHotCategorical(
            0.5, logits=logits
        ).sample,
        "relaxed_gates": tfd.RelaxedBernoulli(0.5, logits=logits).sample,
    }.items():
        seed = tf.cast(seeds.next(), "int32")
        np.testing.assert_allclose(
            draws(generator)[name](), expected(seed=seed), rtol=1e-5
        )


def test_hard_gates_have_their_frequencies():
    """Exact at 0 and 1; elsewhere within 4.5 standard errors."""
    p = np.array([0.0, 1e-3, 0.3, 0.5, 0.999, 1.0], "float32")
    count = 50_000
    gates = choices.hard_gates(
        tf.tile(p[None], (count, 1)), keras.random.SeedGenerator(2)
    )
    shares = np.mean(gates, axis=0)
    error = np.sqrt(p * (1 - p) / count)
    assert (np.abs(shares - p) <= 4.5 * error).all()


@pytest.mark.parametrize("temperature", [0.0, 1e-6, 1e6])
@pytest.mark.parametrize("size", [1e4, 1e30])
def test_extreme_draws_are_finite(temperature, size):
    logits = tf.constant([[size, -size, 0.0]])
    generator = keras.random.SeedGenerator(1)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(logits)
        samples = [
            choices.relaxed_one_hot(logits, temperature, generator),
            choices.relaxed_gates(logits, temperature, generator),
        ]
    for sample in samples:
        assert np.isfinite(sample).all()
        assert np.isfinite(tape.gradient(sample, logits)).all()


def graph_of(draw) -> weakref.ref:
    """The graph of a function that draws, which nothing else holds."""
    draw = tf.function(draw)
    draw()
    return weakref.ref(draw.get_concrete_function().graph)


@pytest.mark.parametrize("name", NAMES)
def test_graphs_that_draw_are_freed(name):
    generator = keras.random.SeedGenerator(5)
    graph = graph_of(draws(generator)[name])
    gc.collect()
    assert graph() is None
