"""Learned initial states against layers that are told where to start."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

import keras_seqmech
from tests.conformance.registry import fields

UNITS = 4
MASK = np.array(
    [[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [0, 1, 0, 1, 1], [0, 0, 0, 0, 0]], "bool"
)
OPTIONS = {"return_sequences": True, "return_state": True}


RNNS = {
    "lstm": lambda: keras.layers.LSTM(UNITS, **OPTIONS),
    "gru-backwards": lambda: keras.layers.GRU(
        UNITS, go_backwards=True, **OPTIONS
    ),
    "custom": lambda: keras.layers.RNN(fields.custom(), **OPTIONS),
    "stack": lambda: keras.layers.RNN(
        [fields.gru(), fields.lstm(), fields.custom()], **OPTIONS
    ),
    "field": lambda: keras_seqmech.ReceptiveFieldRNN(
        fields.stack(), 2, return_field=True, **OPTIONS
    ),
    "bidirectional": lambda: keras.layers.Bidirectional(
        keras.layers.LSTM(UNITS, **OPTIONS)
    ),
}


def draw(*shape, dtype="float32", seed=1):
    values = np.random.default_rng(seed).normal(size=shape)
    return tf.constant(values, dtype)


def run(function, x, weights):
    """Outputs of a call, gradients of the inputs and of the weights."""
    with tf.GradientTape() as tape:
        tape.watch([x, *weights])
        outputs = keras.tree.flatten(function(x))
        loss = sum(ops.sum(ops.square(y)) for y in outputs)
    gradients = tape.gradient(loss, [x, *weights])
    return [y.numpy() for y in (*outputs, *gradients)]


def assert_close(results, expected, **tolerance):
    assert len(results) == len(expected)
    for result, value in zip(results, expected):
        np.testing.assert_allclose(result, value, **tolerance)


@pytest.mark.parametrize("make", RNNS.values(), ids=list(RNNS))
def test_vectors_are_the_initial_state_of_every_row(make):
    layer = keras_seqmech.LearnedInitialState(make(), "random_uniform")
    x = draw(4, 5, 3)
    nest = layer(x)
    vectors = [
        draw(*v.shape, seed=i) for i, v in enumerate(layer.initial_states)
    ]
    for variable, vector in zip(layer.initial_states, vectors):
        variable.assign(vector)
    weights = [v.value for v in layer.rnn.trainable_variables]
    rows = [tf.constant(np.tile(v, (4, 1))) for v in vectors]
    states = [s for s in nest[1:] if not isinstance(s, dict)]
    states = keras.tree.pack_sequence_as(states, rows)
    result = run(
        lambda x: layer(x, mask=MASK),
        x,
        [*weights, *(v.value for v in layer.initial_states)],
    )
    expected = run(
        lambda x: layer.rnn(x, initial_state=states, mask=MASK),
        x,
        [*weights, *rows],
    )
    # A vector has the gradients of all rows.
    expected, by_row = expected[: -len(rows)], expected[-len(rows) :]
    summed = [gradient.sum(axis=0) for gradient in by_row]
    assert_close(result, [*expected, *summed], rtol=1e-5, atol=1e-5)
    # It goes on from the same states if they are given, flat or not.
    for given in (states, keras.tree.flatten(states)):
        again = run(
            lambda x, given=given: layer(x, initial_state=given, mask=MASK),
            x,
            weights,
        )
        assert_close(again, expected, rtol=1e-6, atol=1e-6)


def test_given_states_leave_the_vectors_without_gradient():
    layer = keras_seqmech.LearnedInitialState(keras.layers.GRU(UNITS))
    x = draw(2, 5, 3)
    layer(x)
    with tf.GradientTape() as tape:
        y = layer(x, initial_state=draw(2, UNITS))
    assert tape.gradient(y, layer.initial_states) == [None]


def test_row_without_a_real_step_keeps_where_it_started():
    layer = keras_seqmech.LearnedInitialState(
        keras.layers.LSTM(UNITS, **OPTIONS), "random_normal"
    )
    outputs, h, c = layer(draw(4, 5, 3), mask=MASK)
    assert (outputs[3].numpy() == 0).all()
    for state, vector in zip((h, c), layer.initial_states):
        np.testing.assert_array_equal(state[3], vector.numpy())
    given = [draw(4, UNITS), draw(4, UNITS, seed=2)]
    _, h, c = layer(draw(4, 5, 3), mask=MASK, initial_state=given)
    np.testing.assert_array_equal(h[3], given[0][3])
    np.testing.assert_array_equal(c[3], given[1][3])


def test_initializer_and_regularizer():
    layer = keras_seqmech.LearnedInitialState(
        keras.layers.LSTM(UNITS),
        keras.initializers.RandomNormal(stddev=1.0),
        keras.regularizers.L2(0.5),
    )
    layer(draw(2, 5, 3))
    h, c = (v.numpy() for v in layer.initial_states)
    assert (h != c).all()
    np.testing.assert_allclose(
        sum(layer.losses), 0.5 * np.sum(h**2 + c**2), rtol=1e-6
    )


def test_dtype_is_that_of_the_wrapped_layer():
    rnn = keras.layers.GRU(UNITS, dtype="mixed_float16")
    layer = keras_seqmech.LearnedInitialState(rnn)
    assert layer(draw(2, 5, 3)).dtype == "float16"
    assert layer.initial_states[0].dtype == "float32"


def test_a_built_layer_keeps_its_weights():
    rnn = keras.layers.GRU(UNITS)
    x = draw(2, 5, 3)
    expected = rnn(x).numpy()
    layer = keras_seqmech.LearnedInitialState(rnn)
    np.testing.assert_array_equal(layer(x), expected)
    assert [v.shape for v in layer.weights[:1]] == [(UNITS,)]


def test_wrong_states():
    layer = keras_seqmech.LearnedInitialState(keras.layers.LSTM(UNITS))
    x = draw(2, 5, 3)
    for states in ([draw(2, UNITS)], [draw(2, UNITS), draw(2, 3)]):
        with pytest.raises(ValueError, match="Received: initial_state of"):
            layer(x, initial_state=states)
    # One batch for all.
    with pytest.raises(ValueError, match="Received: initial_state of"):
        layer(x, initial_state=[draw(3, UNITS), draw(3, UNITS)])
