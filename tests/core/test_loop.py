"""The time loop against a Python loop; its own gradient against TF's."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from keras_seqmech.core import loop
from keras_seqmech.core.kept_steps import Padded
from keras_seqmech.core.kept_steps import layout_of
from keras_seqmech.core.loop import Product
from keras_seqmech.core.loop import ScanOptions
from keras_seqmech.core.loop import scan
from tests import tolerances
from tests.core.recurrence import SPECS
from tests.core.recurrence import assert_same
from tests.core.recurrence import differentiated
from tests.core.recurrence import make_arguments
from tests.core.recurrence import operands_of
from tests.core.recurrence import python_loop
from tests.core.recurrence import step

STEPS = 5
ARGUMENTS = make_arguments(2, STEPS)


def run(arguments, layout=Padded(), **options):  # noqa: B008
    inputs, parameters, states = arguments
    operands = operands_of(inputs, parameters)
    return scan(step, operands, states, SPECS, ScanOptions(**options), layout)


def outcome(arguments=ARGUMENTS, **options):
    """Outputs, final states and gradients."""
    return differentiated(lambda x: run(x, **options))(arguments)


@pytest.fixture(params=[0, 2**40], ids=["each alone", "at once"])
def large(request, monkeypatch):
    """Products of parts of a weight, multiplied each alone, or at once."""
    monkeypatch.setattr(loop, "LARGE", request.param)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("widths", [(3, 1, 2), (6,)])
def test_parts_make_up_the_product(widths):
    generator = np.random.default_rng(0)
    weights = generator.normal(size=(4, 6))
    operand = generator.normal(size=(5, 4))
    weight = loop.PartedWeight(tf.constant(weights), widths)
    parts = weight.multiply(tf.constant(operand))
    assert [part.shape[1] for part in parts] == list(widths)
    whole = np.concatenate(parts, axis=1)
    tolerances.assert_close(whole, operand @ weights, 4)
    back = weight.multiply_transposed(parts)
    tolerances.assert_close(back, operand @ weights @ weights.T, 4 + 6)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("recompute_gradient", [False, True])
def test_values_are_those_of_a_python_loop(recompute_gradient):
    found = run(ARGUMENTS, recompute_gradient=recompute_gradient)
    assert_same(found, python_loop(ARGUMENTS))


@pytest.mark.parametrize(
    "mode, large",
    [("eager", 0), ("graph", 2**40), ("xla", 0)],
    indirect=["large"],
)
@pytest.mark.usefixtures("large")
def test_recomputing_gradient_is_the_plain_gradient(mode):
    def lean():
        return outcome(recompute_gradient=True)

    if mode != "eager":
        lean = tf.function(lean, jit_compile=mode == "xla")
    assert_same(lean(), outcome())


@pytest.mark.parametrize(
    "recompute_gradient", [pytest.param(False, marks=pytest.mark.slow), True]
)
def test_loop_compiled_alone_has_the_plain_gradient(recompute_gradient):
    options = {"recompute_gradient": recompute_gradient, "jit_compile": True}
    assert_same(tf.function(lambda: outcome(**options))(), outcome())


@pytest.mark.parametrize(
    "recompute_gradient, jit_compile", [(False, True), (True, False)]
)
def test_number_of_steps_may_be_unknown(recompute_gradient, jit_compile):
    """One trace serves every length; no step leaves the states alone."""

    def cumulate(add, states):
        (total,) = add(states[0])
        return {"total": total}, (total,)

    spec = tf.TensorSpec((None, None, 1), "float64")

    @tf.function(input_signature=[spec], jit_compile=jit_compile)
    def run(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            outputs, states = scan(
                cumulate,
                Product(tf.ones((1, 1), "float64"), [x]),
                (tf.zeros_like(x[0]),),
                {"total": tf.TensorSpec((None, 1), "float64")},
                ScanOptions(recompute_gradient),
            )
            loss = tf.reduce_sum(outputs["total"])
        return outputs["total"], states[0], tape.gradient(loss, x)

    for steps in (1, 4):
        x = np.arange(1.0, steps + 1).reshape(steps, 1, 1)
        totals, state, gradient = run(x)
        np.testing.assert_allclose(totals[:, 0, 0], np.cumsum(x))
        np.testing.assert_allclose(state[0, 0], np.sum(x))
        np.testing.assert_allclose(gradient[:, 0, 0], np.arange(steps, 0, -1))


def begun(tensors, count):
    """Their first steps."""
    return tf.nest.map_structure(lambda x: x[:count], tensors)


@pytest.mark.slow
@pytest.mark.parametrize("recompute_gradient", [False, True])
def test_compiled_loop_may_end_early(recompute_gradient):
    """As many steps as rows keep, of arrays that have room for all."""

    @functools.partial(tf.function, jit_compile=True)
    def compiled(count):
        keep = tf.repeat([tf.range(STEPS) < count], 2, axis=0)
        layout = layout_of(keep, packs=False, skips=True)
        return outcome(recompute_gradient=recompute_gradient, layout=layout)

    inputs, *others = ARGUMENTS
    for count in (3, STEPS, 0):
        outputs, states, gradients = compiled(tf.constant(count))
        for values in (*outputs.values(), *tf.nest.flatten(gradients[0])):
            assert (values[count:].numpy() == 0).all()
        if count == 0:
            assert_same(states, others[1])
            zeros = tf.nest.map_structure(tf.zeros_like, others[0])
            assert_same(gradients[1], zeros)
            continue
        gradients = (begun(gradients[0], count), *gradients[1:])
        assert_same(
            (begun(outputs, count), states, gradients),
            outcome((begun(inputs, count), *others)),
        )
    assert compiled.experimental_get_tracing_count() == 1
