"""Exports for TensorFlow Serving: names, versions, answers, interruptions."""

import importlib.util
import os
import signal
import sys
import time

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_seqmech import FocusedHierarchicalEncoder
from keras_seqmech import ReceptiveFieldRNN
from keras_seqmech import analysis
from keras_seqmech import serving
from keras_seqmech.serving import export
from keras_seqmech.serving import signature
from tests import ROOT
from tests.processes import run_python
from tests.serving.export_tools import answer_here
from tests.serving.export_tools import load
from tests.serving.export_tools import signature_proto

EXAMPLE = np.random.default_rng(5).normal(size=(3, 6, 2)).astype("float32")
NEEDS_SERVING_API = pytest.mark.skipif(
    importlib.util.find_spec("tensorflow_serving") is None,
    reason="needs tensorflow-serving-api",
)


def field_rnn(**kwargs):
    kwargs = {
        "max_size": 3,
        "estimator": "straight_through",
        "return_sequences": True,
        "return_field": True,
        "name": "field",
        **kwargs,
    }
    return ReceptiveFieldRNN(keras.layers.LSTMCell(4), **kwargs)


class Sharpen(keras.layers.Layer):
    """A custom layer that Keras is not told of, with a weight."""

    def build(self, input_shape):
        three = keras.initializers.Constant(3.0)
        self.scale = self.add_weight(shape=(), initializer=three, name="scale")

    def call(self, inputs):
        return inputs * self.scale


def tagger(name="tokens"):
    """A model whose outputs are tags and decisions by name."""
    tokens = keras.Input((None, 2), name=name)
    hidden, field = field_rnn()(tokens)
    tags = Sharpen()(keras.layers.Dense(3, name="classifier")(hidden))
    return keras.Model(tokens, {"tags": tags, **field})


def tiny():
    return keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])


class Counter(keras.layers.Layer):
    """Answers by Python state, which no graph can hold."""

    calls = 0

    def call(self, inputs):
        self.calls += 1
        return inputs * float(self.calls)


def make_version(path):
    path.mkdir()
    (path / "saved_model.pb").touch()


def names(path):
    proto = signature_proto(path)
    return sorted(proto.inputs), sorted(proto.outputs)


def shape(tensor_info):
    return [axis.size for axis in tensor_info.tensor_shape.dim]


def check_answers(answers, model, inputs):
    expected = model(inputs, training=False)
    assert sorted(answers) == sorted(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(
            answers[name], value, rtol=1e-5, atol=1e-6, err_msg=name
        )


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A model and its export, which a fresh process has checked."""
    model = tagger()
    directory = tmp_path_factory.mktemp("models") / "tagger"
    path = serving.export_model(model, directory, example_inputs=EXAMPLE)
    return model, path


@pytest.fixture
def same_process(monkeypatch):
    """Spares the fresh process where it is not what a test is about."""

    monkeypatch.setattr(export, "_serve_in_fresh_process", answer_here)


def test_what_the_only_version_takes_and_returns(exported):
    _, path = exported
    assert path.name == "1" and os.listdir(path.parent) == ["1"]
    proto = signature_proto(path)
    assert names(path) == (["tokens"], ["probabilities", "size", "tags"])
    assert shape(proto.inputs["tokens"]) == [-1, -1, 2]
    assert shape(proto.outputs["tags"]) == [-1, -1, 3]
    assert shape(proto.outputs["size"]) == [-1, -1]


def test_answers_as_the_model_does(exported):
    """Its custom layer is not registered: the fresh process knew no code."""
    model, path = exported
    registered = keras.saving.get_registered_name(Sharpen)
    assert keras.saving.get_registered_object(registered) is None
    serve = load(path)
    for rows, steps in ((1, 1), (4, 9)):
        inputs = np.random.default_rng(6).normal(size=(rows, steps, 2))
        inputs = inputs.astype("float32")
        check_answers(serve(tokens=tf.constant(inputs)), model, inputs)


@NEEDS_SERVING_API
def test_warmup_request_holds_the_example(exported):
    from tensorflow_serving.apis import prediction_log_pb2

    _, path = exported
    file = path / "assets.extra" / "tf_serving_warmup_requests"
    (record,) = tf.data.TFRecordDataset(str(file))
    log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
    request = log.predict_log.request
    assert request.model_spec.name == "tagger"
    assert request.model_spec.signature_name == "serving_default"
    (name,) = request.inputs
    assert name == "tokens"
    np.testing.assert_array_equal(
        tf.make_ndarray(request.inputs[name]), EXAMPLE
    )


def test_no_warmup_without_the_serving_package(
    same_process, monkeypatch, caplog, tmp_path
):
    monkeypatch.setitem(sys.modules, "tensorflow_serving.apis", None)
    path = serving.export_model(tiny(), tmp_path, example_inputs=EXAMPLE[0])
    assert not (path / "assets.extra").exists()
    assert "pip install '.[serving]'" in caplog.text


@pytest.mark.parametrize("structure", ["array", "list", "dict"])
def test_example_inputs_are_what_the_model_is_called_with(
    same_process, tmp_path, structure
):
    tokens = keras.Input((None, 2), name="tokens")
    weight = keras.Input((), dtype="int32", name="weight")
    inputs, example = {
        "array": ([tokens], EXAMPLE),
        "list": ([tokens, weight], [EXAMPLE.tolist(), np.array([-1, 2, 3])]),
        "dict": (
            {"weight": weight, "tokens": tokens},
            {"tokens": EXAMPLE, "weight": [-1, 2, 3]},
        ),
    }[structure]
    mean = keras.layers.GlobalAveragePooling1D(name="mean")(tokens)
    if structure != "array":
        mean *= keras.ops.cast(weight, "float32")[:, None]
    model = keras.Model(inputs, {"mean": mean})
    path = serving.export_model(model, tmp_path, example_inputs=example)
    expected = EXAMPLE.mean(axis=1)
    feeds = {"tokens": tf.constant(EXAMPLE)}
    if structure != "array":
        expected = expected * np.array([[-1], [2], [3]])
        feeds["weight"] = tf.constant([-1, 2, 3])
    np.testing.assert_allclose(load(path)(**feeds)["mean"], expected, 1e-5)
    by_name = {name: value.numpy() for name, value in feeds.items()}
    assert serving.export_model(model, tmp_path, None, by_name).name == "2"


def test_names_of_nested_outputs(same_process, tmp_path):
    tokens = keras.Input((None, 2))
    hidden = keras.layers.Dense(4, name="field")(tokens)
    tags = keras.layers.Dense(3, name="tags")(hidden)
    sizes = {"size": keras.ops.mean(hidden, axis=-1)}
    model = keras.Model(tokens, [tags, sizes, {"more": sizes}, hidden, sizes])
    path = serving.export_model(model, tmp_path)
    assert names(path) == (
        ["inputs"],
        ["field", "more_size", "size", "size_1", "tags"],
    )
    answers = load(path)(inputs=tf.constant(EXAMPLE))
    expected = model(EXAMPLE)
    for name, value in {
        "tags": expected[0],
        "more_size": expected[2]["more"]["size"],
        "field": expected[3],
        "size_1": expected[4]["size"],
    }.items():
        np.testing.assert_allclose(answers[name], value, rtol=1e-5, atol=1e-6)


class Tagger(keras.Model):
    """A subclassed model with nested outputs."""

    def __init__(self):
        super().__init__()
        self.classifier = keras.layers.Dense(3)

    def call(self, words):
        return [self.classifier(words), {"size": keras.ops.sum(words, -1)}]


@pytest.mark.long
def test_decisions_are_served(tmp_path):
    """Of layers that return none, beside outputs and in streams of chunks."""
    tokens = keras.Input((None, 2), name="tokens")
    inner = field_rnn(return_field=False, name="in-ner")
    hidden = keras.Model(tokens, inner(tokens))(tokens)
    tags, field = field_rnn(name="tags")(hidden)
    model = keras.Model(tokens, {"tags": tags, "tags_size": field["size"]})
    path = serving.export_model(model, tmp_path, streaming=True, decisions=True)
    served = load(path)(tokens=tf.constant(EXAMPLE))
    expected = dict(model(EXAMPLE))
    # An output has its name still.
    names = {"size": "tags_size_1", "probabilities": "tags_probabilities"}
    found = analysis.decisions(model, EXAMPLE)
    expected |= {names[key]: x for key, x in found["tags"].items()}
    expected |= {f"in-ner_{key}": x for key, x in found["in-ner"].items()}
    assert served.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(served[name], value, rtol=1e-5, atol=1e-6)
    assert {*signature_proto(path, "step").outputs} > {*expected, "count"}
    with pytest.raises(ValueError, match="must call layers that decide"):
        serving.export_model(tiny(), tmp_path / "new", decisions=True)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "streaming", [False, pytest.param(True, marks=pytest.mark.long)]
)
def test_nothing_served_needs_a_compiler(same_process, tmp_path, streaming):
    """Stock TensorFlow Serving has none."""
    x = keras.Input((None, 2), name="tokens")
    context = keras.Input((3,), name="context")
    xla = {"jit_compile": True}
    hidden = field_rnn(return_field=False, **xla)(x)
    encoder = FocusedHierarchicalEncoder(4, return_sequences=True, **xla)
    model = keras.Model([x, context], encoder(hidden, context))
    path = serving.export_model(model, tmp_path, streaming=streaming)
    file = (path / "saved_model.pb").read_bytes()
    assert b"_XlaMustCompile" not in file
    model.export(tmp_path / "keras", verbose=False)
    file = (tmp_path / "keras" / "saved_model.pb").read_bytes()
    assert b"_XlaMustCompile" in file


def test_subclassed_model_on_an_input(same_process, tmp_path):
    words = keras.Input((None, 2), name="words")
    model = keras.Model(words, Tagger()(words))
    path = serving.export_model(model, tmp_path)
    assert names(path) == (["words"], ["size", "tagger"])
    answers = load(path)(words=tf.constant(EXAMPLE))
    np.testing.assert_allclose(answers["size"], EXAMPLE.sum(-1), 1e-5, 1e-6)


def test_sequential_model(same_process, tmp_path):
    model = keras.Sequential([keras.layers.Dense(3, name="tags")])
    model(EXAMPLE)
    path = serving.export_model(model, tmp_path)
    assert names(path) == (["inputs"], ["tags"])
    assert shape(signature_proto(path).inputs["inputs"]) == [-1, 6, 2]


@pytest.mark.parametrize(
    "policy", ["float64", "mixed_float16", "mixed_bfloat16"]
)
def test_dtype_policies(same_process, tmp_path, policy):
    keras.config.set_dtype_policy(policy)
    assert serving.export_model(tiny(), tmp_path).name == "1"


def test_strings_in(same_process, tmp_path):
    text = keras.Input((), dtype="string", name="text")
    vectorize = keras.layers.TextVectorization(
        vocabulary=["how", "far", "ahead"], split="whitespace"
    )
    embedded = keras.layers.Embedding(5, 3, mask_zero=True)(vectorize(text))
    hidden = keras.layers.GlobalAveragePooling1D()(embedded)
    model = keras.Model(text, {"label": keras.layers.Dense(2)(hidden)})
    example = ["how far", "ahead", "字 far ahead far"]
    path = serving.export_model(model, tmp_path, example_inputs=example)
    inputs = tf.constant(["far far ahead", "how"])
    check_answers(load(path)(text=inputs), model, inputs)
    assert names(path) == (["text"], ["label"])


@pytest.mark.long
def test_ops_of_tensorflow_text(tmp_path):
    tensorflow_text = pytest.importorskip("tensorflow_text")

    class Normalize(keras.layers.Layer):
        def call(self, text):
            return tensorflow_text.normalize_utf8(text, "NFKC")

        def compute_output_spec(self, text):
            return keras.KerasTensor(text.shape, "string")

    text = keras.Input((), dtype="string", name="text")
    model = keras.Model(text, {"normal": Normalize()(text)})
    path = serving.export_model(model, tmp_path)
    (normal,) = load(path)(text=tf.constant(["ﬁeld"]))["normal"].numpy()
    assert normal == b"field"


def test_next_version_is_one_above_the_largest(same_process, tmp_path):
    for name in ("2", "007", "note", ".tmp-export-old"):
        (tmp_path / name).mkdir()
    model = tiny()
    assert serving.export_model(model, tmp_path) == tmp_path / "8"
    assert serving.export_model(model, tmp_path, 3) == tmp_path / "3"
    assert serving.export_model(model, str(tmp_path)) == tmp_path / "9"


def test_no_version_after_the_largest(same_process, monkeypatch, tmp_path):
    largest = 2**63 - 1
    (tmp_path / str(largest - 1)).mkdir()
    (tmp_path / str(largest + 1)).mkdir()  # No server reads it.
    monkeypatch.setattr(
        export,
        "compare",
        lambda *args: make_version(tmp_path / str(largest)),
    )
    message = f"`version` must be.*{largest}.*version=None"
    for _ in range(2):  # Another export takes the last one; it was there.
        with pytest.raises(ValueError, match=message):
            serving.export_model(tiny(), tmp_path)
    assert len(os.listdir(tmp_path)) == 3


def test_nothing_is_overwritten(exported):
    model, path = exported

    def snapshot():
        return {
            file: (file.stat().st_mtime_ns, file.read_bytes())
            for file in path.parent.rglob("*")
            if file.is_file()
        }

    before = snapshot()
    with pytest.raises(ValueError, match="`version` must be one that does not"):
        serving.export_model(model, path.parent, version=1)
    assert snapshot() == before
    assert os.listdir(path.parent) == ["1"]


@pytest.mark.parametrize("version", [None, 1])
def test_a_number_that_is_taken_meanwhile(
    same_process, monkeypatch, tmp_path, version
):
    compare = export.compare

    def compare_slowly(*args):
        make_version(tmp_path / "1")
        compare(*args)

    monkeypatch.setattr(export, "compare", compare_slowly)
    if version is None:
        assert serving.export_model(tiny(), tmp_path).name == "2"
        return
    with pytest.raises(ValueError, match="`version` must be one that does not"):
        serving.export_model(tiny(), tmp_path, version)
    assert os.listdir(tmp_path / "1") == ["saved_model.pb"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_interrupted_export_leaves_nothing(monkeypatch, tmp_path, error):
    seen = []

    def interrupt(*args):
        seen.extend(tmp_path.rglob("saved_model.pb"))
        raise error

    monkeypatch.setattr(export, "_serve_in_fresh_process", interrupt)
    with pytest.raises(error):
        serving.export_model(tiny(), tmp_path, example_inputs=EXAMPLE[0])
    assert len(seen) == 1
    assert os.listdir(tmp_path) == []


KILLED = """
import os, signal, sys
import keras
from keras_seqmech import serving
from keras_seqmech.serving import export

HEAVY = {"tensorflow_serving", "tensorflow_text", "grpc"}

def kill(*args):
    print(HEAVY & set(sys.modules), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

export._serve_in_fresh_process = kill
model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
serving.export_model(model, sys.argv[1])
"""


@pytest.mark.long
@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_killed_export_leaves_no_version(same_process, tmp_path):
    model = tiny()
    result = run_python("-c", KILLED, tmp_path)
    assert result.returncode == -signal.SIGKILL, result.stderr
    assert result.stdout == "set()\n"  # nothing of the extras is imported
    (left,) = tmp_path.iterdir()
    assert not left.name[0].isdigit()
    assert (left / "model" / "saved_model.pb").exists()
    assert serving.export_model(model, tmp_path).name == "1"


def test_folders_of_killed_exports_are_removed_a_day_later(
    same_process, tmp_path
):
    yesterday = time.time() - 25 * 60 * 60
    names = f"{export.SCRATCH}old", f"{export.SCRATCH}new", ".tmp-of-others"
    for name in names:
        (tmp_path / name / "model").mkdir(parents=True)
        if name != names[1]:
            os.utime(tmp_path / name, (yesterday, yesterday))
    serving.export_model(tiny(), tmp_path)
    assert {x.name for x in tmp_path.iterdir()} == {"1", *names[1:]}


def test_other_answers_are_refused(same_process, tmp_path):
    model = keras.Sequential([keras.Input((2,)), Counter(name="counter")])
    with pytest.raises(
        RuntimeError,
        match=r"not answer as `model` does here.*'counter'.* at \(0, 0\)",
    ):
        serving.export_model(model, tmp_path)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "wrong, right, tolerance, same",
    [
        ([1.0, 0.1], [1.00001, 0.10001], 1e-5, True),
        ([1.0, 0.1], [1.00003, 0.1], 1e-5, False),
        ([0.0, 2e-6], [0.0, 0.0], 1e-5, False),
        ([np.nan, np.inf], [np.nan, np.inf], 1e-5, True),
        ([1.0, np.nan], [1.0, 2.0], 1e-5, False),
        ([[1.0, 1.0]], [1.0, 1.0], 1e-5, False),
        ([1, 2], [1, 2], 1e-5, True),
        ([1, 2], [1, 3], 1e-5, False),
        ([b"a", b"b"], [b"a", b"c"], 1e-5, False),
        ([True], [True], 1e-5, True),
    ],
)
def test_comparison(wrong, right, tolerance, same):
    right, wrong = np.array(right), np.array(wrong)
    if right.dtype.kind == "S":
        right, wrong = right.astype(object), wrong.astype(object)
    assert (export.difference(right, wrong, tolerance) == "") is same


@pytest.mark.parametrize("dtype", ["int32", "float32", object])
@pytest.mark.parametrize(
    "differing, size, tolerance, same",
    [
        (1, 100, 5e-2, True),
        (2, 100, 5e-2, False),
        (1, 10, 1e-2, True),
        (2, 10, 1e-2, False),
        (1, 100, 1e-5, False),
    ],
)
def test_comparison_of_labels(dtype, differing, size, tolerance, same):
    here = np.full(size, 3).astype(dtype)
    there = here.copy()
    there[:differing] += 4
    assert (export.difference(here, there, tolerance) == "") is same


def test_comparison_of_16_bit_fractions_lets_none_pass():
    here = np.full(1000, 0.5)
    there = here.copy()
    there[0] = 0.75
    assert export.difference(here, there, 5e-2)


@pytest.mark.long
def test_fresh_process_knows_tensorflow_only(tmp_path):
    (tmp_path / "tensorflow.py").write_text(
        "import importlib\n"
        "for name in ('keras', 'keras_seqmech', 'serving'):\n"
        "    try:\n"
        "        importlib.import_module(name)\n"
        "        print(name, 'found')\n"
        "    except ImportError:\n"
        "        print(name, 'unknown')\n"
        "raise SystemExit\n"
    )
    script = ROOT / "keras_seqmech" / "serving" / "_fresh_process.py"
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    result = run_python(script, PYTHONPATH=path)
    assert result.stdout.split("\n")[:-1] == [
        "keras unknown",
        "keras_seqmech unknown",
        "serving unknown",
    ], result.stderr


def stateful():
    tokens = keras.Input(batch_shape=(3, None, 2))
    layer = field_rnn(stateful=True, return_field=False)
    return keras.Model(tokens, keras.layers.Bidirectional(layer)(tokens))


@pytest.mark.parametrize(
    "model, message",
    [
        (lambda: keras.Model(), "`model` must be a functional model"),
        (
            lambda: keras.Sequential([keras.layers.Dense(2)]),
            "or a built `keras.Sequential`",
        ),
        (lambda: keras.layers.Dense(2), "`model` must be a functional model"),
        (stateful, "`model` must not be stateful"),
        (lambda: tagger("my tokens"), "letters, digits .*'my tokens'"),
        (lambda: tagger("class"), "not a keyword of Python.*'class'"),
    ],
)
def test_models_that_cannot_be_exported(tmp_path, model, message):
    with pytest.raises(ValueError, match=message):
        serving.export_model(model(), tmp_path / "new")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("version", [0, -1, 1.0, "1", True, 2**63])
def test_bad_version(exported, tmp_path, version):
    with pytest.raises(ValueError, match=f"`version`.*version={version!r}"):
        serving.export_model(exported[0], tmp_path, version)


@pytest.mark.parametrize(
    "directory", [None, 5, b"models", ["models"], "", "gs://bucket/models"]
)
def test_directory_that_is_no_path(directory):
    with pytest.raises(ValueError, match="`directory` must be a .*Received"):
        serving.export_model(tiny(), directory)


@pytest.mark.parametrize("name", ["file", "link", "link/models", "n" * 300])
def test_directory_that_cannot_be_made(tmp_path, name):
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    with pytest.raises(OSError, match=name.partition("/")[0]):
        serving.export_model(tiny(), tmp_path / name)
    assert sorted(os.listdir(tmp_path)) == ["file", "link"]


def test_warmup_names_the_directory(same_process, monkeypatch, tmp_path):
    seen = []
    monkeypatch.setattr(
        export, "_write_warmup", lambda path, name, _: seen.append(name)
    )
    directory = tmp_path / "other" / ".."
    (tmp_path / "other").mkdir()
    serving.export_model(tiny(), directory, np.int64(3), EXAMPLE[0])
    assert seen == [tmp_path.name]
    assert (tmp_path / "3").exists()


@pytest.mark.parametrize(
    "example_inputs, message",
    [
        (
            EXAMPLE[..., :1],
            r"`tokens` with a shape like \(None, None, 2\).*3, 6",
        ),
        (EXAMPLE[0], r"Received: tokens.shape=\(6, 2\)"),
        ({"words": EXAMPLE}, r"dict with the keys \['tokens'\]"),
        ([EXAMPLE, EXAMPLE], "Argument `example_inputs` must be what"),
        (np.array(["a", "b"]), "must hold arrays of float32"),
        (EXAMPLE[:0], r"an example or more.*\(0, 6, 2\)"),
    ],
)
def test_bad_example_inputs(exported, tmp_path, example_inputs, message):
    with pytest.raises(ValueError, match=message):
        serving.export_model(exported[0], tmp_path, None, example_inputs)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "string"])
def test_random_inputs(dtype):
    spec = tf.TensorSpec((None, None, 3), dtype)
    random = signature.example(tiny(), {"inputs": spec}, None)["inputs"]
    assert random.shape == (2, 5, 3)
    assert tf.as_dtype(random.dtype) == dtype
    assert len(np.unique(random)) > 1
    if dtype == "string":
        assert all(isinstance(value, bytes) for value in random.flat)
    else:
        assert random.min() >= 0 and random.max() <= 1


@pytest.mark.parametrize(
    "dtype, numbers",
    [
        ("int32", np.array([0.5])),
        ("int32", np.array([2**40 + 3])),
        ("uint8", np.array([-1])),
        ("int64", np.array([2**64 - 1], "uint64")),
        ("float32", np.array([1e300])),
        ("float32", [1e300]),
        ("float16", np.array([70000])),
    ],
)
def test_numbers_that_a_dtype_cannot_hold(tmp_path, dtype, numbers):
    ids = keras.Input((), dtype=dtype, name="ids")
    model = keras.Model(ids, keras.layers.Identity(dtype=dtype)(ids))
    with pytest.raises(ValueError, match=f"must hold arrays of {dtype}"):
        serving.export_model(model, tmp_path, example_inputs=numbers)
