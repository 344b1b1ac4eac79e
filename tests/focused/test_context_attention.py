"""Both read-outs of the encoder, against loops and Keras' attention."""

import numpy as np
import pytest

from keras_seqmech import ContextAttention

ROWS, TIME, SIZE = 3, 5, 4
MASK = np.array([[1, 1, 1, 1, 1], [0, 1, 0, 1, 1], [0] * 5], "bool")
GATES = np.array([[1, 0, 0.5, 0, 1], [1, 1, 0, 0, 1], [1] * 5])


def draw(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize("states", ["every", "open"])
@pytest.mark.parametrize("context_size", [SIZE, 3])
def test_is_the_definition(states, context_size):
    layer = ContextAttention(
        states, return_attention_scores=True, dtype="float64"
    )
    s, q = draw(ROWS, TIME, SIZE), draw(ROWS, context_size, seed=1)
    read, decisions = layer(s, q, gates=GATES, mask=MASK)
    assert len(layer.weights) == (context_size != SIZE)
    query = q
    for kernel in layer.weights:
        query = q @ kernel.numpy()
    for row in range(ROWS):
        share = MASK[row] * (GATES[row] if states == "open" else 1)
        masses = share * np.exp(s[row] @ query[row] / np.sqrt(SIZE))
        weights = masses / max(masses.sum(), 1e-300)
        np.testing.assert_allclose(
            decisions["attention_scores"][row], weights, rtol=1e-12
        )
        np.testing.assert_allclose(
            read[row], weights @ s[row], rtol=1e-12, atol=1e-15
        )


def test_half_precision_keeps_gates():
    """Gates below what float16 holds still count as open."""
    layer = ContextAttention("open", dtype="mixed_float16")
    s, q = draw(1, 2, SIZE), draw(1, SIZE, seed=1)
    read = layer(s, q, np.array([[1e-9, 0]], "float32"))
    assert read.dtype == "float16"
    np.testing.assert_allclose(read[0], s[0, 0], rtol=2e-3)
