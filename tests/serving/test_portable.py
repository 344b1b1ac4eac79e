"""A step of a stream in LiteRT and ONNX, by their own runtimes."""

import keras
import numpy as np
import pytest
from keras import layers

from keras_seqmech import LookAhead
from keras_seqmech import ReadingWeight
from keras_seqmech import serving
from keras_seqmech.serving import StreamingModel
from keras_seqmech.serving import _fresh_step
from keras_seqmech.serving import export
from keras_seqmech.serving import portable
from tests.serving import streamed
from tests.tolerances import within

ENDINGS = (".tflite", ".onnx")
SHORT = (("tagger", ".tflite"), ("looking", ".onnx"))
# An operation that a format cannot hold, by model and ending.
REFUSED = {
    ("each_step", ".onnx"): "activation.*/Gelu/Erfc",
    ("convolutions", ".onnx"): "conv1d.*StatefulPartitionedCall",
}
LENGTH = 9

pytestmark = [
    pytest.mark.filterwarnings(r"ignore:\s+Warning. tf.lite.Interpreter"),
    pytest.mark.filterwarnings("ignore:In the future `np.object`"),
]


def stream_rows(run, step, inputs, lengths, generator):
    """What a step answers to rows of other lengths, whose steps come at random.

    Returns:
        For each row, a dict of outputs.
    """
    sequences, rows = step.sequences, np.arange(len(lengths))
    state = {
        name: np.repeat(x, len(rows), 0) for name, x in step.states.items()
    }
    passed, pending = np.zeros_like(lengths), True
    found = [{} for _ in rows]
    while pending or np.any(passed < lengths):
        present = (passed < lengths) & (generator.random(len(rows)) < 0.6)
        at = np.minimum(passed, lengths - 1)
        given = {
            name: x[rows, at][:, None] if name in sequences else x
            for name, x in inputs.items()
        }
        passed = passed + present
        flags = {"present": present, "end": passed == lengths}
        answer = run({**given, **flags, **state})
        state = {name: answer.pop(f"next_{name}") for name in state}
        emitted, pending = answer.pop("emitted"), answer.pop("pending")
        for name, x in answer.items():
            for row in rows:
                if name not in sequences:
                    found[row][name] = x[row]
                elif emitted[row]:
                    found[row].setdefault(name, []).append(x[row, 0])
    return found


CASES = [
    pytest.param(
        name,
        ending,
        marks=[] if (name, ending) in SHORT else [pytest.mark.long],
    )
    for name in streamed.MODELS
    for ending in ENDINGS
    if name != "strings" and (name, ending) not in REFUSED
]


@pytest.mark.parametrize(("name", "ending"), CASES)
def test_rows_at_their_own_pace_are_those_of_a_call(name, ending, tmp_path):
    """Decisions too; the export itself compares rows that go alike."""
    keras.utils.set_random_seed(3)
    make, _ = streamed.MODELS[name]
    model, shown = make(), name != "each_step"
    file = serving.export_step(model, tmp_path / f"m{ending}", decisions=shown)
    stream = StreamingModel(model, decisions=shown)
    generator = np.random.default_rng(5)
    inputs = streamed.example(stream.specs, generator, 3, LENGTH)
    lengths = np.array([LENGTH, 2, LENGTH - 3])
    step = portable.Step(stream, None)
    run = _fresh_step.load(str(file))
    found = stream_rows(run, step, inputs, lengths, generator)
    for row, length in enumerate(lengths):
        alone = {
            name: x[row : row + 1, :length]
            if name in step.sequences
            else x[row : row + 1]
            for name, x in inputs.items()
        }
        expected = streamed.whole(stream, model, alone)
        for name, x in found[row].items():
            near = within("float32", operations=1000)
            np.testing.assert_allclose(x, expected[name][0], **near)


@pytest.mark.long
@pytest.mark.parametrize(("name", "ending"), REFUSED)
def test_an_error_names_what_a_format_cannot_hold(name, ending, tmp_path):
    keras.utils.set_random_seed(3)
    kept = tmp_path / f"m{ending}"
    kept.write_text("an older file")
    named = REFUSED[name, ending]
    with pytest.raises(ValueError, match=f"`model`.*ONNX.*operations.*{named}"):
        serving.export_step(streamed.MODELS[name][0](), kept)
    assert kept.read_text() == "an older file"
    assert [*tmp_path.iterdir()] == [kept]


def trained():
    """A model with the weight of what is read as an input, and its ids."""
    keras.utils.set_random_seed(0)
    ids = keras.Input((None,), dtype="int32", name="ids")
    weight = keras.Input((), name="weight")
    states = layers.LSTM(64, return_sequences=True)(
        layers.Embedding(50, 64)(ids)
    )
    read, field = LookAhead(
        8, size_from="field", return_field=True, name="look"
    )(states, weight=ReadingWeight(0.001, 1.0)(weight))
    tags = layers.Dense(5, activation="softmax")(read)
    outputs = {"tags": tags, "size": field["size"]}
    model = keras.Model([ids, weight], outputs)
    generator = np.random.default_rng(0)
    ids = generator.integers(0, 50, (512, 16)).astype("int32")
    # Some words are told by one that comes later.
    later = np.pad(ids, ((0, 0), (0, 5)))[:, 5:]
    tags = np.where(ids < 25, ids % 5, later % 5)
    model.compile("adam", {"tags": "sparse_categorical_crossentropy"})
    weights = np.ones(len(ids), "float32")
    model.fit([ids, weights], {"tags": tags}, 32, 20, verbose=0)
    return model, ids[:64]


@pytest.mark.long
@pytest.mark.parametrize("ending", ENDINGS)
def test_eight_bits_change_few_sizes_and_little_else(ending, tmp_path):
    model, ids = trained()
    weights = np.geomspace(0.001, 1.0, len(ids)).astype("float32")
    inputs = {"ids": ids, "weight": weights}
    expected = model.predict(inputs, verbose=0)
    assert len(np.unique(expected["size"])) > 2
    small = tmp_path / f"small{ending}"
    serving.export_step(model, small, inputs, quantize=True)
    whole = serving.export_step(model, tmp_path / f"whole{ending}", inputs)
    assert small.stat().st_size < 0.75 * whole.stat().st_size
    step = portable.Step(StreamingModel(model), None)
    run = _fresh_step.load(str(small))
    found = _fresh_step.stream(run, step.states, inputs, step.sequences)
    same = found["size"] == expected["size"]
    assert np.mean(same) > 0.97
    # Weights have steps of 1/127 of the largest one.
    np.testing.assert_allclose(
        found["tags"][same], expected["tags"][same], atol=0.1
    )


def named(x="x", y="y"):
    inputs = keras.Input((None, 2), name=x)
    return keras.Model(inputs, {y: LookAhead(2)(inputs)})


EXAMPLES = r"`example_inputs` must hold an example.*shapes {'x': \([02], "


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_is_not_selected_has_no_effect(ending, tmp_path):
    """Neither NaN of a branch, nor of a masked step, nor of an absent one."""
    x = keras.Input((None, 2), name="given")
    logs = keras.ops.where(x > 0, keras.ops.log(x), 0.0)
    mask = keras.Input((None,), dtype="bool", name="mask")
    states = layers.GRU(2, return_sequences=True)(x, mask=mask)
    model = keras.Model([x, mask], {"logs": logs, "states": states})
    file = serving.export_step(model, tmp_path / f"m{ending}")
    inputs = {
        "given": np.array(
            [[[2.0, -1.0], [1.0, np.nan], [0.0, 3.0]]], "float32"
        ),
        "mask": np.array([[True, False, True]]),
    }
    step = portable.Step(StreamingModel(model), None)
    run = _fresh_step.load(str(file))
    absent = {
        **step.states,
        **{name: x[:, 1:2] for name, x in inputs.items()},
        "present": np.array([False]),
        "end": np.array([False]),
    }
    after = run(absent)
    for name, state in step.states.items():
        np.testing.assert_array_equal(after[f"next_{name}"], state)
    found = _fresh_step.stream(run, step.states, inputs, step.sequences)
    near = within("float32", operations=100)
    for name, expected in model(inputs).items():
        np.testing.assert_allclose(found[name], expected, **near)


@pytest.mark.parametrize(
    ("names", "path", "options", "message"),
    [
        ({}, "m.pb", {}, "`path`.*tflite.*onnx.*Received: path='m.pb'"),
        ({}, 3, {}, "`path`.*Received: path=3"),
        ({}, "gs://b/m.onnx", {}, "`path`.*local.*Received: path='gs"),
        ({}, "m.onnx", {"example_inputs": np.ones((0, 4, 2))}, EXAMPLES),
        ({}, "m.onnx", {"example_inputs": np.ones((2, 0, 2))}, EXAMPLES),
        ({}, "m.onnx", {"quantize": "int8"}, "`quantize`.*'int8'"),
        ({}, "m.onnx", {"batch_size": 0}, "`batch_size`.*0"),
        ({"x": "pending"}, "m.onnx", {}, "`model`.*name='pending'"),
        ({"x": "End"}, "m.tflite", {}, "`model`.*name='end'"),
        ({"y": "emitted"}, "m.onnx", {}, "`model`.*name='emitted'"),
        ({"y": "X"}, "m.tflite", {}, "`model`.*capitals.*name='x'"),
        ({"y": "x"}, "m.onnx", {}, "`model`.*differ.*name='x'"),
        (None, "m.tflite", {}, "`model`.*numbers.*name='words'"),
    ],
)
def test_bad_input_is_refused(
    names, path, options, message, tmp_path, monkeypatch
):
    """Names of a model, or None for one of strings."""
    model = streamed.strings() if names is None else named(**names)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=message):
        serving.export_step(model, path, **options)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("wrong", [0.8, np.nan])
def test_eight_bits_may_change_a_tenth_of_the_numbers(wrong):
    expected = {"tags": np.ones(100)}
    found = {"tags": np.full(100, 0.95)}
    found["tags"][:10] = wrong
    model = named()
    export.compare("step", found, expected, model, eight_bits=True)
    found["tags"][10] = wrong
    with pytest.raises(RuntimeError, match=r"'tags' of `step`.*exported"):
        export.compare("step", found, expected, model, eight_bits=True)
