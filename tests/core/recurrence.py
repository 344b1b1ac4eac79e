"""A recurrent step with every kind of input and of product."""

import numpy as np
import tensorflow as tf

from keras_seqmech.core.loop import Constant
from keras_seqmech.core.loop import Product

WIDTH = 3
SPECS = {
    "sum": tf.TensorSpec((None, WIDTH), "float64"),
    "narrow": tf.TensorSpec((None, 1), "float64"),
}


def make_arguments(batch, steps, seed=0):
    """Inputs, time first; parameters; states."""
    generator = np.random.default_rng(seed)

    def normal(*shape):
        return tf.constant(generator.normal(size=shape) / 2)

    inputs = {
        "scale": normal(steps, batch, WIDTH),
        "gates": [normal(steps, batch, WIDTH), normal(steps, batch, 1)],
        "noise": normal(steps, batch, WIDTH),
    }
    parameters = {
        "gates": normal(WIDTH, WIDTH + 1),
        "closing": normal(WIDTH, WIDTH),
        "alone": normal(WIDTH, 1),
        "bias": normal(WIDTH),
    }
    return inputs, parameters, (normal(batch, WIDTH), normal(batch, 2, WIDTH))


def operands_of(inputs, parameters):
    return {
        "scale": inputs["scale"],
        "noise": Constant(inputs["noise"]),
        "gates": Product(parameters["gates"], inputs["gates"]),
        "closing": Product(parameters["closing"], bias=parameters["bias"]),
        "alone": Product(parameters["alone"]),
    }


def step(operands, states):
    first, second = states
    wide, narrow = operands["gates"](first * operands["scale"])
    (closing,) = operands["closing"](tf.tanh(wide) * second[:, 0])
    (alone,) = operands["alone"](second[:, 1])
    turned = tf.sin(second[:, 1])
    first = tf.tanh(closing + operands["noise"]) + narrow
    outputs = {"sum": alone + first, "narrow": narrow}
    return outputs, (first, tf.stack([first + second[:, 0], turned], axis=1))


def python_loop(arguments):
    """The same, written out."""
    inputs, parameters, (first, second) = tf.nest.map_structure(
        lambda x: x.numpy(), arguments
    )
    sums, narrows = [], []
    for t in range(len(inputs["scale"])):
        product = (first * inputs["scale"][t]) @ parameters["gates"]
        wide = inputs["gates"][0][t] + product[:, :WIDTH]
        narrow = inputs["gates"][1][t] + product[:, WIDTH:]
        closing = (np.tanh(wide) * second[:, 0]) @ parameters["closing"]
        closing += parameters["bias"] + inputs["noise"][t]
        first = np.tanh(closing) + narrow
        sums.append(second[:, 1] @ parameters["alone"] + first)
        narrows.append(narrow)
        turned = np.sin(second[:, 1])
        second = np.stack([first + second[:, 0], turned], axis=1)
    outputs = {"sum": np.array(sums), "narrow": np.array(narrows)}
    return outputs, (first, second)


def differentiated(run):
    """Outputs, final states, and gradients of a loss of all of them."""

    def outcome(arguments, *more):
        with tf.GradientTape() as tape:
            tape.watch(arguments)
            outputs, states = run(arguments, *more)
            loss = tf.reduce_sum(outputs["sum"] ** 2)
            loss += tf.reduce_sum(tf.sin(outputs["narrow"]))
            loss += sum(tf.reduce_sum(tf.cos(x)) for x in states)
        gradients = tape.gradient(loss, arguments, unconnected_gradients="zero")
        # The loop gives constants no gradient.
        del gradients[0]["noise"]
        return outputs, states, gradients

    return outcome


def assert_same(actual, expected):
    tf.nest.assert_same_structure(actual, expected)
    for a, b in zip(tf.nest.flatten(actual), tf.nest.flatten(expected)):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)
