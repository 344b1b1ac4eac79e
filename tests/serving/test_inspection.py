"""What an export is said to hold, and which are said to be served."""

import dataclasses
import importlib.util
import inspect
import pathlib
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from keras_seqmech import ReceptiveFieldRNN
from keras_seqmech import serving
from keras_seqmech.serving import export
from keras_seqmech.serving import graph
from tests.serving import export_tools

NEEDS_SERVING_API = pytest.mark.skipif(
    importlib.util.find_spec("tensorflow_serving") is None,
    reason="needs tensorflow-serving-api",
)
SHAPE = (2, 3)
DRAWS = {
    "normal": lambda seed: keras.random.normal(SHAPE, seed=seed),
    "uniform": lambda seed: keras.random.uniform(SHAPE, seed=seed),
    "randint": lambda seed: keras.random.randint(SHAPE, 0, 9, seed=seed),
    "truncated": lambda s: keras.random.truncated_normal(SHAPE, seed=s),
    "gamma": lambda seed: keras.random.gamma(SHAPE, 2.0, seed=seed),
    "binomial": lambda s: keras.random.binomial(SHAPE, 4.0, 0.5, seed=s),
    "beta": lambda seed: keras.random.beta(SHAPE, 2.0, 2.0, seed=seed),
    "dropout": lambda s: keras.random.dropout(tf.ones(SHAPE), 0.5, seed=s),
    "shuffle": lambda s: keras.random.shuffle(tf.ones(SHAPE), seed=s),
    "categorical": lambda s: keras.random.categorical(
        tf.ones(SHAPE), 2, seed=s
    ),
    "stateful": lambda seed: tf.random.normal(SHAPE),
    "generator": lambda seed: GENERATOR.normal(SHAPE),
}
GENERATOR = tf.random.Generator.from_seed(5)
STEPS = 7


class Calls(tf.Module):
    """Functions whose ops are known."""

    def __init__(self):
        super().__init__()
        self.kernel = tf.Variable(tf.ones((2, 2)))
        self.generator = GENERATOR
        self.seeds = keras.random.SeedGenerator(3)
        self.seed = self.seeds.state.value

    @tf.function(input_signature=[tf.TensorSpec((None, 2), tf.float32, "x")])
    def plain(self, x):
        return {"y": self.square(self.square(tf.nn.relu(x @ self.kernel)))}

    @tf.function(input_signature=[tf.TensorSpec((2, 2), tf.float32)])
    def square(self, x):
        return tf.math.square(x)

    @tf.function(input_signature=[tf.TensorSpec(None, tf.int32, "n")])
    def loop(self, n):
        def body(i):
            return tf.cond(i > 3, lambda: i + 2, lambda: tf.bitwise.invert(i))

        return {"n": tf.while_loop(lambda i: i < n, body, [n - STEPS])[0]}


@pytest.fixture(scope="module")
def calls(tmp_path_factory):
    """One SavedModel with a signature a case."""
    module = Calls()
    signatures = {"plain": module.plain, "loop": module.loop}
    for name, draw in DRAWS.items():

        @tf.function(input_signature=[])
        def drawn(draw=draw):
            return {"drawn": draw(module.seeds)}

        signatures[name] = drawn
    path = tmp_path_factory.mktemp("calls") / "1"
    tf.saved_model.save(module, str(path), signatures=signatures)
    return path


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """It draws when served; its export answers as it does here even so."""
    tokens = keras.Input((None, 3), name="tokens")
    hidden, field = ReceptiveFieldRNN(
        keras.layers.GRUCell(2), 2, return_field=True, sample_at_inference=True
    )(tokens)
    model = keras.Model(tokens, {"hidden": hidden, "size": field["size"]})
    example = np.ones((2, 4, 3), "float32")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            export, "_serve_in_fresh_process", export_tools.answer_here
        )
        return serving.export_model(
            model, tmp_path_factory.mktemp("models"), None, example
        )


def copy(path, directory, change):
    """A SavedModel whose file is another."""
    shutil.copytree(path, directory)
    file = directory / "saved_model.pb"
    proto = saved_model_pb2.SavedModel()
    proto.ParseFromString(file.read_bytes())
    change(proto.meta_graphs[0])
    file.write_bytes(proto.SerializeToString())
    return directory


def test_ops_are_counted_where_they_are(calls):
    found = serving.inspect(calls).signatures
    plain = found["plain"]
    assert plain.inputs == {"x": tf.TensorSpec((None, 2), tf.float32, "x")}
    assert plain.outputs["y"].dtype == tf.float32
    # What reads the kernel, multiplies, and squares by one function twice.
    for op, count in {
        "MatMul": 1,
        "Relu": 1,
        "Square": 1,
        "ReadVariableOp": 1,
        "VarHandleOp": 1,
    }.items():
        assert plain.ops[op] == count, op
    assert not {"SaveV2", "RestoreV2", "AssignVariableOp"} & set(plain.ops)
    assert "MatMul" not in found["loop"].ops
    for op in ("StatelessWhile", "StatelessIf", "Invert", "Less"):
        assert found["loop"].ops[op] == 1, op
    counts = list(plain.ops.values())
    assert counts == sorted(counts, reverse=True)


@pytest.mark.parametrize("name", ["plain", "loop", *DRAWS])
def test_draws_are_found(calls, name):
    found = serving.inspect(calls)
    assert bool(found.signatures[name].random_ops) == (name in DRAWS)
    assert not found.is_deterministic
    assert not found.needs_custom_ops
    assert found.warmup_requests == 0
    dry = "  deterministic: nothing in it draws random numbers"
    assert str(found).splitlines().count(dry) == 2


def test_ops_that_take_seeds_draw():
    """All but those of data sets, queues, cuDNN and initial clusters."""
    others = ("Dataset", "Queue", "Cudnn", "Initialization")
    for name in filter(str.isidentifier, dir(tf.raw_ops)):
        op = getattr(tf.raw_ops, name)
        if callable(op) and not any(other in name for other in others):
            if {"seed", "alg"} & set(inspect.signature(op).parameters):
                exempt = ("AnonymousSeedGenerator", "ComputeAccidentalHits")
                assert graph.draws(name) != (name in exempt), name
    for name in ("MatMul", "RandomDataset", "Shape", "GatherV2", "Unique"):
        assert not graph.draws(name)


def test_report(exported):
    found = serving.inspect(str(exported))
    assert found.path == exported
    assert not found.is_deterministic
    size = sum(f.stat().st_size for f in exported.rglob("*") if f.is_file())
    requests = 0
    if importlib.util.find_spec("tensorflow_serving"):
        requests = 1
    assert (found.size, found.warmup_requests) == (size, requests)
    lines = str(found).splitlines()
    assert lines[0] == f"SavedModel {exported}, by TensorFlow {tf.__version__}"
    assert lines[1] == f"size: {size:,} bytes"
    assert lines[2] == f"warm-up requests: {requests or 'none'}"
    assert lines[3:9] == [
        "signature serve, serving_default",
        "  inputs",
        "    tokens: float32 (?, ?, 3)",
        "  outputs",
        "    hidden: float32 (?, 2)",
        "    size: float32 (?, ?)",
    ]
    ops = found.signatures["serve"].ops
    assert lines[9].startswith(
        f"  ops: {sum(ops.values())}, Const {ops['Const']}"
    )
    assert lines[9].endswith(f", {len(ops) - 8} others")
    assert lines[10] == "  needs no ops but TensorFlow's own"
    assert lines[11].startswith("  draws random numbers: Stateless")
    assert len(lines) == 12
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.size = 0


def test_ops_unknown_here(calls, tmp_path):
    """They cannot be loaded, but read."""

    def change(meta_graph):
        for function in meta_graph.graph_def.library.function:
            for node in function.node_def:
                if node.op == "MatMul":
                    node.op = "TFText>Multiply"

    path = copy(calls, tmp_path / "1", change)
    found = serving.inspect(path)
    assert found.needs_custom_ops
    assert found.signatures["plain"].custom_ops == ["TFText>Multiply"]
    assert found.signatures["loop"].custom_ops == []
    assert (
        "  needs ops that TensorFlow lacks: TFText>Multiply; if they are "
        "TensorFlow Text's, load it after `import tensorflow_text`"
    ) in str(found).splitlines()


def test_no_saved_model(calls, exported, tmp_path):
    def refused(path, reason):
        message = r"`path` must be the directory of a SavedModel. Received: "
        with pytest.raises(ValueError, match=f"(?s){message}path='.*{reason}"):
            serving.inspect(path)

    missing = "there is no file saved_model.pb"
    refused(tmp_path / "none", missing)
    for path in (None, 5, ["x/1"]):
        with pytest.raises(ValueError, match="`path` must be a string or"):
            serving.inspect(path)
    refused(tmp_path, missing)
    refused(exported / "saved_model.pb", missing)
    refused(exported.parent, rf"{missing}; it holds versions \[1\]")
    (tmp_path / "saved_model.pb").write_bytes(b"\xff\xff\xff\xff no protobuf")
    refused(tmp_path, "is damaged")
    (tmp_path / "saved_model.pb").write_bytes(b"")
    refused(tmp_path, "has nothing tagged `serve`")
    other = copy(
        calls, tmp_path / "1", lambda g: g.meta_info_def.ClearField("tags")
    )
    refused(other, "has nothing tagged `serve`")


@pytest.mark.parametrize("kept", [30, 100])
def test_warmup_requests_that_are_cut(exported, tmp_path, kept):
    path = shutil.copytree(exported, tmp_path / "1")
    file = path / "assets.extra" / "tf_serving_warmup_requests"
    if not file.exists():
        file.parent.mkdir(exist_ok=True)
        with tf.io.TFRecordWriter(str(file)) as writer:
            writer.write(b"." * 200)
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(ValueError, match="`path`.*warmup_requests is damaged"):
        serving.inspect(path)


def make_versions(directory, *versions):
    for version in versions:
        (directory / str(version)).mkdir(parents=True)
    return directory


def parse(text):
    from google.protobuf import text_format
    from tensorflow_serving.config import model_server_config_pb2

    proto = model_server_config_pb2.ModelServerConfig()
    text_format.Parse(text, proto)
    return [
        (
            config.name,
            config.base_path,
            config.model_platform,
            list(config.model_version_policy.specific.versions),
        )
        for config in proto.model_config_list.config
    ]


@NEEDS_SERVING_API
def test_config_parses(tmp_path):
    tagger = make_versions(tmp_path / "tagger", 1, 2, 10)
    strange = make_versions(tmp_path / 'a "b" \\ 字\n', "007")
    text = serving.models_config(
        [str(tagger), strange], versions={"tagger": [10, 2]}
    )
    assert text.isascii()
    assert parse(text) == [
        ("tagger", str(tagger), "tensorflow", [2, 10]),
        (strange.name, str(strange), "tensorflow", []),
    ]
    for root in ("/models/", pathlib.Path("/models")):
        text = serving.models_config([tagger], root, {"tagger": [1, 1]})
        assert parse(text) == [("tagger", "/models/tagger", "tensorflow", [1])]
    with pytest.raises(ValueError, match="`root` must be .*root=5"):
        serving.models_config([tagger], root=5)


@pytest.mark.parametrize(
    "directories, versions, message",
    [
        ("tagger", None, "`directories` must be a list of paths.*'tagger'"),
        ([], None, r"`directories` must hold at least one.*\[\]"),
        (["a/tagger", "b/tagger"], None, "no two of the same last name"),
        (["empty"], None, r"`directories` must hold .* versions.*empty"),
        (["none"], None, r"`directories` must hold .* versions.*none"),
        (["tagger"], {"taggre": [1]}, r"keys of \['tagger'\].*taggre"),
        (["tagger"], {"tagger": [3]}, r"versions of \[1, 2\].*: \[3\]"),
        (["tagger"], {"tagger": []}, r"versions of \[1, 2\].*: \[\]"),
        (["tagger"], {"tagger": 1}, r"versions of \[1, 2\].*: 1}"),
        (["tagger"], {"tagger": "1"}, r"versions of \[1, 2\].*: '1'}"),
        (["tagger"], {"tagger": [True]}, r"versions of \[1, 2\].*\[True\]"),
        (["tagger"], {"tagger": [1.0]}, r"versions of \[1, 2\].*\[1.0\]"),
        (["tagger"], [1], r"`versions` must have keys of \['tagger'\].*\[1\]"),
        ([5], None, "`directories` must hold paths"),
        (5, None, "`directories` must be a list of paths.*=5"),
    ],
)
def test_bad_config(tmp_path, monkeypatch, directories, versions, message):
    monkeypatch.chdir(tmp_path)
    for name in ("tagger", "a/tagger", "b/tagger"):
        make_versions(pathlib.Path(name), 1, 2)
    pathlib.Path("empty").mkdir()
    with pytest.raises(ValueError, match=f"(?s){message}") as info:
        serving.models_config(directories, versions=versions)
    assert "Received: " in str(info.value)
