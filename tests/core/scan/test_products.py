"""Products in parts: multiplied at once or each alone, they are the same."""

import numpy as np
import pytest
import tensorflow as tf

from keras_seqmech.core.scan import protocol
from keras_seqmech.core.scan.loop import scan
from keras_seqmech.core.scan.protocol import Operands
from keras_seqmech.core.scan.protocol import PartedWeight
from keras_seqmech.core.scan.protocol import ScanOptions
from tests import tolerances

WIDTHS = (3, 1, 2)
GENERATOR = np.random.default_rng(0)
WEIGHT = GENERATOR.normal(size=(4, sum(WIDTHS)))
OPERAND = GENERATOR.normal(size=(5, 4))


@pytest.fixture(params=[0, 2**40], ids=["each alone", "at once"])
def large(request, monkeypatch):
    monkeypatch.setattr(protocol, "LARGE", request.param)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("widths", [WIDTHS, (6,)])
def test_parts_make_up_the_product(widths):
    weight = PartedWeight(tf.constant(WEIGHT), widths)
    parts = weight.multiply(tf.constant(OPERAND))
    assert [part.shape[1] for part in parts] == list(widths)
    whole = np.concatenate(parts, axis=1)
    tolerances.assert_close(whole, OPERAND @ WEIGHT, 4)
    back = weight.multiply_transposed(parts)
    tolerances.assert_close(back, OPERAND @ WEIGHT @ WEIGHT.T, 4 + 6)


@pytest.mark.usefixtures("large")
def test_the_loop_and_its_gradient_are_those_of_plain_products():
    inputs = [tf.constant(GENERATOR.normal(size=(6, 5, n))) for n in (4, 2)]
    weight, state = tf.constant(WEIGHT), tf.constant(OPERAND)

    def step(inputs, states, affine):
        wide, narrow = affine("gates", tf.tanh(states[0]))
        return {"narrow": narrow}, (tf.sin(wide),)

    def looped(inputs, weight, state):
        outputs, (state,) = scan(
            step,
            Operands({"gates": inputs}, {"gates": weight}),
            (state,),
            {"narrow": tf.TensorSpec((5, 2), "float64")},
            ScanOptions(recompute_gradient=True),
        )
        return outputs["narrow"], state

    def plain(inputs, weight, state):
        narrow = []
        for wide_t, narrow_t in zip(*map(tf.unstack, inputs)):
            product = tf.tanh(state) @ weight
            narrow.append(narrow_t + product[:, 4:])
            state = tf.sin(wide_t + product[:, :4])
        return tf.stack(narrow), state

    def values_and_gradients(function):
        sources = (inputs, weight, state)
        with tf.GradientTape() as tape:
            tape.watch(sources)
            results = function(*sources)
            loss = sum(tf.reduce_sum(tf.exp(x)) for x in results)
        return results, tape.gradient(loss, sources)

    found = tf.function(lambda: values_and_gradients(looped))()
    expected = values_and_gradients(plain)
    flat = zip(tf.nest.flatten(found), tf.nest.flatten(expected), strict=True)
    for a, b in flat:
        tolerances.assert_close(a, b, 2 * 6 * 16, scale=np.abs(b).max())
