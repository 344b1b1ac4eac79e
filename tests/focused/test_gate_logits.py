"""Logits of the boundary gate against the vectors formed, one by one."""

import numpy as np

from keras_seqmech.focused.gate import GateWeights
from keras_seqmech.focused.gate import boundary_logits
from tests import references
from tests.finite_differences import gradient_and_difference


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
    logits = boundary_logits(h, q, GateWeights(**weights))
    assert logits.dtype == "float64"
    # TensorFlow keeps the slope of a LeakyReLU as a float32.
    np.testing.assert_allclose(logits, expected, rtol=1e-7)
    half = boundary_logits(
        h.astype("float16"), q.astype("float16"), GateWeights(**weights)
    )
    assert half.dtype == "float32"


def test_gradient_is_that_of_finite_differences():
    generator = np.random.default_rng(2)
    weights = GateWeights(**make_gate())
    q = generator.normal(size=(2, 3))
    x = 2 * generator.normal(size=(2, 4, 3))
    exact, numeric = gradient_and_difference(
        lambda x: boundary_logits(x, q, weights), x
    )
    assert abs(exact) > 1e-3
    np.testing.assert_allclose(exact, numeric, rtol=1e-6)


def test_logits_beyond_float32_are_no_nan():
    h = np.float32(3e38) * np.sign(
        np.random.default_rng(0).normal(size=(2, 9, 4))
    )
    gate = {k: v.astype("float32") for k, v in make_gate(size=4).items()}
    q = np.full((2, 4), 1e6, "float32")
    assert np.isfinite(boundary_logits(h, q, GateWeights(**gate))).all()
