"""Layers in formats that run without TensorFlow, by their own runtimes."""

import keras
import numpy as np
import pytest

import keras_seqmech
from benchmarks import portable_formats
from tests.tolerances import tolerance

TIME = 6
MASK = np.array([[1] * TIME, [1, 1, 0, 1, 0, 0], [0] * TIME], "float32")

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore:In the future `np.object`"),
    pytest.mark.filterwarnings(r"ignore:\s+Warning. tf.lite.Interpreter"),
]


def reader() -> keras.Model:
    """A model with a layer of every mechanism, decisions among its outputs."""
    x = keras.Input((TIME, 3), name="x")
    given = keras.Input((TIME,), name="mask")
    mask = keras.ops.cast(given, "bool")
    states, field = keras_seqmech.ReceptiveFieldRNN(
        keras.layers.LSTMCell(4), 3, return_sequences=True, return_field=True
    )(x, mask=mask)
    largest = keras_seqmech.MaxPooling()(states, mask=mask)
    upper, gates = keras_seqmech.FocusedHierarchicalEncoder(
        4, return_sequences=True, return_gates=True
    )(states, largest, sequence_mask=mask)
    pooled = keras_seqmech.MaxAttentionPooling()(upper, mask=mask)
    outputs = {"pooled": pooled, "size": field["size"], "gates": gates["gates"]}
    return keras.Model({"x": x, "mask": given}, outputs)


@pytest.mark.parametrize("name", portable_formats.FORMATS)
def test_answers_are_those_of_predict(name, tmp_path):
    inputs = {
        "x": np.random.default_rng(0).normal(size=(3, TIME, 3)),
        "mask": MASK,
    }
    inputs["x"] = inputs["x"].astype("float32")
    model = reader()
    expected = model.predict(inputs, verbose=0)
    portable_formats.leave_unpacked(model)
    export = portable_formats.FORMATS[name]
    found = export(model, inputs, tmp_path / "model")
    assert found.keys() == expected.keys()
    operations = 4 * TIME * 50
    for key, value in expected.items():
        np.testing.assert_allclose(
            found[key], value, atol=tolerance("float32", operations)
        )
    assert set(np.unique(expected["gates"])) == {0.0, 1.0}
