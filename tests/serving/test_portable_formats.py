"""Layers in formats that run without TensorFlow, by their own runtimes."""

import keras
import numpy as np
import onnxruntime
import pytest
import tensorflow as tf

import keras_seqmech
from benchmarks import portable_formats
from keras_seqmech import serving
from tests.test_readme import blocks_of
from tests.tolerances import tolerance

TIME = 4
MASK = np.array([[1] * TIME, [1, 0, 1, 0], [0] * TIME], "float32")

pytestmark = [
    pytest.mark.filterwarnings("ignore:In the future `np.object`"),
    pytest.mark.filterwarnings(r"ignore:\s+Warning. tf.lite.Interpreter"),
]


def reader() -> keras.Model:
    """A model with a layer of every mechanism, decisions among its outputs."""
    x = keras.Input((TIME, 3), name="x")
    given = keras.Input((TIME,), name="mask")
    mask = keras.ops.cast(given, "bool")
    states, field = keras_seqmech.ReceptiveFieldRNN(
        keras.layers.LSTMCell(4),
        3,
        return_sequences=True,
        return_field=True,
        track_statistics=True,
    )(x, mask=mask)
    largest = keras_seqmech.MaxPooling()(states, mask=mask)
    upper, gates = keras_seqmech.FocusedHierarchicalEncoder(
        4, inference="running_sum", return_sequences=True, return_gates=True
    )(states, largest, mask=mask)
    pooled = keras_seqmech.MaxAttentionPooling()(upper, mask=mask)
    emission = keras_seqmech.EmissionProbabilities(share=0.5)(upper)
    short, decisions = keras_seqmech.ExpectedSubsample(
        4, return_emission=True, track_statistics=True
    )(upper, emission, mask=mask)
    outputs = {
        "pooled": pooled,
        "size": field["size"],
        "gates": gates["gates"],
        "short": short,
        "lengths": decisions["length_distribution"],
    }
    return keras.Model({"x": x, "mask": given}, outputs)


@pytest.fixture(scope="module")
def answered():
    """A model that is ready for the formats, inputs, and its answers."""
    x = np.random.default_rng(0).normal(size=(3, TIME, 3)).astype("float32")
    model, inputs = reader(), {"x": x, "mask": MASK}
    expected = model.predict(inputs, verbose=0)
    assert set(np.unique(expected["gates"])) == {0.0, 1.0}
    serving.use_padded_loops(model)
    return model, inputs, expected


@pytest.mark.long
@pytest.mark.parametrize("name", portable_formats.FORMATS)
def test_answers_are_those_of_predict(name, answered, tmp_path):
    model, inputs, expected = answered
    export = portable_formats.FORMATS[name]
    found = export(model, inputs, tmp_path / "model")
    assert found.keys() == expected.keys()
    operations = 4 * TIME * 50
    for key, value in expected.items():
        np.testing.assert_allclose(
            found[key], value, atol=tolerance("float32", operations)
        )


def field() -> keras.Layer:
    cell = keras.layers.SimpleRNNCell(2)
    return keras_seqmech.ReceptiveFieldRNN(cell, 2, return_sequences=True)


def test_layers_within_layers_are_padded_too():
    fields = [field() for _ in range(3)]
    both = keras.layers.Bidirectional(fields[0])
    within = keras.Sequential([keras_seqmech.LearnedInitialState(fields[1])])
    model = keras.Sequential([both, within, fields[2]])
    assert all(layer.packed for layer in fields)
    serving.use_padded_loops(model)
    assert not any(layer.packed for layer in (*fields[1:], both.forward_layer))
    assert not both.backward_layer.packed


def test_what_is_no_model_is_refused():
    with pytest.raises(ValueError, match=r"`model`.*Received: model='a'"):
        serving.use_padded_loops("a")


@pytest.mark.long
def test_the_guide(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()
    ids = keras.Input((40,), dtype="int64", name="text_ids")
    vectors = keras.layers.Embedding(9, 2)(ids)
    model = keras.Model({"text_ids": ids}, {"tags": field()(vectors)})
    (block,) = (b for b in blocks_of("docs/serving.md") if "onnx" in b)
    exec(block, {"keras": keras, "serving": serving, "tagger": model})
    inputs = {"text_ids": np.ones((1, 40), "int64")}
    expected = model.predict(inputs, verbose=0)["tags"]
    runner = tf.lite.Interpreter("models/tagger.tflite").get_signature_runner()
    session = onnxruntime.InferenceSession("models/tagger.onnx")
    for found in (runner(**inputs)["tags"], session.run(["tags"], inputs)[0]):
        np.testing.assert_allclose(
            found, expected, atol=tolerance("float32", 40 * 10)
        )
