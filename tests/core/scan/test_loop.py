"""The time loop against a Python loop; its own gradient against TF's."""

import numpy as np
import pytest
import tensorflow as tf

from keras_seqmech.core.scan import protocol
from keras_seqmech.core.scan.loop import scan
from keras_seqmech.core.scan.protocol import Operands
from keras_seqmech.core.scan.protocol import ScanOptions
from tests import tolerances

STEPS, BATCH, WIDTH = 5, 2, 3


def make_arguments():
    generator = np.random.default_rng(0)

    def normal(*shape):
        return tf.constant(generator.normal(size=shape))

    inputs = {
        "scale": normal(STEPS, BATCH, WIDTH),
        "gates": [normal(STEPS, BATCH, WIDTH), normal(STEPS, BATCH, 1)],
    }
    parameters = {
        "gates": normal(WIDTH, WIDTH + 1),
        "closing": normal(WIDTH, WIDTH),
        "alone": normal(WIDTH, 1),
        "bias": normal(WIDTH),
        "diagonal": normal(WIDTH),
    }
    states = (normal(BATCH, WIDTH), normal(BATCH, WIDTH))
    return inputs, parameters, states


CONSTANTS = {"real": tf.constant(np.arange(2 * STEPS).reshape(STEPS, 2, 1) % 3)}


def step(inputs, states, affine):
    """A step that uses every kind of input and of product."""
    first, second = states
    wide, narrow = affine("gates", first * inputs["scale"])
    (closing,) = affine("closing", tf.tanh(wide) * second)
    (alone,) = affine("alone", second)
    (second,) = affine("diagonal", tf.sin(second))
    new = tf.where(inputs["real"] > 0, tf.tanh(closing) + narrow, first)
    return {"sum": alone + new, "narrow": narrow}, (new, second + narrow)


SPECS = {
    "sum": tf.TensorSpec((BATCH, WIDTH), "float64"),
    "narrow": tf.TensorSpec((BATCH, 1), "float64"),
}


def run(arguments, **options):
    inputs, parameters, states = arguments
    weights = {
        k: parameters[k] for k in ("gates", "closing", "alone", "diagonal")
    }
    biases = {"closing": parameters["bias"]}
    operands = Operands(inputs, weights, biases, CONSTANTS)
    return scan(step, operands, states, SPECS, ScanOptions(**options))


def loss_and_gradients(arguments, **kwargs):
    with tf.GradientTape() as tape:
        tape.watch(arguments)
        outputs, states = run(arguments, **kwargs)
        loss = tf.reduce_sum(outputs["sum"] ** 2) + tf.reduce_sum(states[0])
        loss += tf.reduce_sum(tf.sin(outputs["narrow"]))
    return outputs, states, tape.gradient(loss, arguments)


def python_loop(arguments):
    inputs, parameters, (first, second) = tf.nest.map_structure(
        lambda x: x.numpy(), arguments
    )
    sums, narrows = [], []
    for t in range(STEPS):
        product = (first * inputs["scale"][t]) @ parameters["gates"]
        wide = inputs["gates"][0][t] + product[:, :WIDTH]
        narrow = inputs["gates"][1][t] + product[:, WIDTH:]
        closing = (np.tanh(wide) * second) @ parameters["closing"]
        new = np.tanh(closing + parameters["bias"]) + narrow
        new = np.where(CONSTANTS["real"][t] > 0, new, first)
        sums.append(second @ parameters["alone"] + new)
        narrows.append(narrow)
        second = parameters["diagonal"] * np.sin(second)
        first, second = new, second + narrow
    return np.array(sums), np.array(narrows), (first, second)


def assert_same(actual, expected):
    for a, b in zip(tf.nest.flatten(actual), tf.nest.flatten(expected)):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


@pytest.fixture(params=[0, 2**40], ids=["each alone", "at once"])
def large(request, monkeypatch):
    """Products of parts of a weight, multiplied each alone, or at once."""
    monkeypatch.setattr(protocol, "LARGE", request.param)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("widths", [(3, 1, 2), (6,)])
def test_parts_make_up_the_product(widths):
    generator = np.random.default_rng(0)
    weights = generator.normal(size=(4, 6))
    operand = generator.normal(size=(5, 4))
    weight = protocol.PartedWeight(tf.constant(weights), widths)
    parts = weight.multiply(tf.constant(operand))
    assert [part.shape[1] for part in parts] == list(widths)
    whole = np.concatenate(parts, axis=1)
    tolerances.assert_close(whole, operand @ weights, 4)
    back = weight.multiply_transposed(parts)
    tolerances.assert_close(back, operand @ weights @ weights.T, 4 + 6)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("recompute_gradient", [False, True])
@pytest.mark.parametrize("unroll", [False, True])
def test_values_are_those_of_a_python_loop(recompute_gradient, unroll):
    arguments = make_arguments()
    outputs, states = run(
        arguments, recompute_gradient=recompute_gradient, unroll=unroll
    )
    sums, narrows, final = python_loop(arguments)
    assert_same(
        (outputs["sum"], outputs["narrow"], states), (sums, narrows, final)
    )


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("mode", ["eager", "graph", "xla", "unroll"])
def test_recomputing_gradient_is_the_plain_gradient(mode):
    arguments = make_arguments()
    expected = loss_and_gradients(arguments)

    def lean():
        return loss_and_gradients(
            arguments, recompute_gradient=True, unroll=mode == "unroll"
        )

    if mode in ("graph", "xla"):
        lean = tf.function(lean, jit_compile=mode == "xla")
    assert_same(lean(), expected)


@pytest.mark.parametrize("recompute_gradient", [False, True])
def test_loop_compiled_alone_has_the_plain_gradient(recompute_gradient):
    arguments = make_arguments()

    @tf.function
    def run_compiled():
        return loss_and_gradients(
            arguments, recompute_gradient=recompute_gradient, jit_compile=True
        )

    assert_same(run_compiled(), loss_and_gradients(arguments))


@pytest.mark.parametrize("recompute_gradient", [False, True])
@pytest.mark.parametrize("jit_compile", [False, True])
def test_number_of_steps_may_be_unknown(recompute_gradient, jit_compile):
    """One trace serves every length; no step leaves the states alone."""

    def cumulate(inputs, states, affine):
        (total,) = affine("add", states[0])
        return {"total": total}, (total,)

    spec = tf.TensorSpec((None, None, 1), "float64")

    @tf.function(input_signature=[spec], jit_compile=jit_compile)
    def run(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            outputs, states = scan(
                cumulate,
                Operands({"add": [x]}, {"add": tf.ones((1, 1), "float64")}),
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


@pytest.mark.slow
@pytest.mark.parametrize("recompute_gradient", [False, True])
def test_compiled_loop_may_end_early(recompute_gradient):
    """As many steps as a tensor says, of arrays that have room for all."""
    arguments = make_arguments()
    inputs, parameters, states = arguments

    def loss(outputs, states):
        total = tf.reduce_sum(outputs["sum"] ** 2) + tf.reduce_sum(states[0])
        return total + tf.reduce_sum(tf.sin(outputs["narrow"]))

    def run_some(arguments, count, constants, steps=None):
        inputs, parameters, states = arguments
        with tf.GradientTape() as tape:
            tape.watch(arguments)
            outputs, states = scan(
                step,
                Operands(
                    tf.nest.map_structure(lambda x: x[:count], inputs),
                    {k: v for k, v in parameters.items() if k != "bias"},
                    {"closing": parameters["bias"]},
                    constants,
                ),
                states,
                SPECS,
                ScanOptions(recompute_gradient, steps=steps),
            )
            total = loss(outputs, states)
        return outputs, states, tape.gradient(total, arguments)

    compiled = tf.function(
        lambda steps: run_some(arguments, STEPS, CONSTANTS, steps),
        jit_compile=True,
    )
    for count in (3, STEPS, 0):
        outputs, final, gradients = compiled(tf.constant(count))
        for values in outputs.values():
            assert (values[count:].numpy() == 0).all()
        if count == 0:
            assert_same(final, states)
            assert_same(
                gradients[1], tf.nest.map_structure(tf.zeros_like, parameters)
            )
            continue
        real = {"real": CONSTANTS["real"][:count]}
        expected = run_some(arguments, count, real)
        outputs = {name: x[:count] for name, x in outputs.items()}
        assert_same((outputs, final, gradients), expected)
    assert compiled.experimental_get_tracing_count() == 1
