"""Functional models as graphs: what is called again, and what it returns."""

import keras
import numpy as np
import pytest

from keras_seqmech.core import graph


@pytest.mark.parametrize("is_called", [False, True])
def test_a_built_sequential_is_its_graph(is_called):
    model = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(2, name="first"),
            keras.layers.Dense(1, name="second"),
        ]
    )
    if is_called:
        model(keras.Input((3,)))
    again, calls = graph.record_calls(model)
    names = [operation.name for operation, _ in calls]
    assert names[-2:] == ["first", "second"]
    x = np.ones((2, 3), "float32")
    np.testing.assert_array_equal(again(x), model(x))


def test_each_call_is_recorded():
    inputs = keras.Input((3,), name="x")
    dense = keras.layers.Dense(3, name="dense")
    twice = dense(dense(inputs))
    model = keras.Model(inputs, keras.ops.sum(twice, axis=-1), name="model")
    again, calls = graph.record_calls(model)
    assert again.name == "model" and again.get_layer("dense") is dense
    made = [one for one in calls if one[0].name != "x"]
    assert [operation for operation, _ in made][:2] == [dense, dense]
    assert len(made) == 3
    x = np.ones((2, 3), "float32")
    outputs = keras.Model(again.input, [values for _, values in made])(x)
    np.testing.assert_array_equal(outputs[0], dense(x))
    np.testing.assert_array_equal(outputs[1], dense(dense(x)))
    np.testing.assert_array_equal(outputs[2], model(x))
