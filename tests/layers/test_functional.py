"""Functional models as graphs: what is called again, and what it returns."""

import keras
import numpy as np

from keras_seqmech.layers import functional


def test_each_call_is_recorded():
    inputs = keras.Input((3,), name="x")
    dense = keras.layers.Dense(3, name="dense")
    twice = dense(dense(inputs))
    model = keras.Model(inputs, keras.ops.sum(twice, axis=-1), name="model")
    again, calls = functional.record_calls(model)
    assert again.name == "model" and again.get_layer("dense") is dense
    made = [one for one in calls if one[0].name != "x"]
    assert [operation for operation, _ in made][:2] == [dense, dense]
    assert len(made) == 3
    x = np.ones((2, 3), "float32")
    outputs = keras.Model(again.input, [values for _, values in made])(x)
    np.testing.assert_array_equal(outputs[0], dense(x))
    np.testing.assert_array_equal(outputs[1], dense(dense(x)))
    np.testing.assert_array_equal(outputs[2], model(x))
