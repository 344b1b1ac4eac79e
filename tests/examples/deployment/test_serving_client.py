"""The example that asks a server, by both protocols; the guide's config."""

import json
import re

import keras
import numpy as np
import pytest

grpc = pytest.importorskip("grpc")
pytest.importorskip("tensorflow_serving", reason="needs keras_seqmech[serving]")

from google.protobuf import text_format  # noqa: E402
from tensorflow_serving.config import model_server_config_pb2  # noqa: E402

from examples.deployment import serving_client  # noqa: E402
from keras_seqmech import MaxAttentionPooling  # noqa: E402
from keras_seqmech import serving  # noqa: E402
from keras_seqmech.serving import export  # noqa: E402
from tests import ROOT  # noqa: E402
from tests.examples.deployment import stand_in_server  # noqa: E402
from tests.serving import export_tools  # noqa: E402


def reader():
    """Ids and strings in; numbers and strings out."""
    ids = keras.Input((None,), dtype="int64", name="ids")
    text = keras.Input((), dtype="string", name="text")
    embedded = keras.layers.Embedding(9, 4)(ids)
    sentence, scores = MaxAttentionPooling(return_attention_scores=True)(
        embedded, mask=keras.ops.not_equal(ids, 0)
    )
    label = keras.layers.StringLookup(
        vocabulary=["是", "no"], num_oov_indices=0, invert=True
    )(keras.layers.StringLookup(vocabulary=["字"])(text))
    outputs = {"sentence": sentence, "label": label, **scores}
    return keras.Model({"ids": ids, "text": text}, outputs)


def times(factor):
    inputs = keras.Input((1,), name="x")
    return keras.Model({"x": inputs}, {"y": inputs * factor})


CONFIG = """
model_config_list {
  config {
    name: "reader" base_path: "DIRECTORY/reader" model_platform: "tensorflow"
  }
  config {
    name: "older" base_path: "DIRECTORY/older" model_platform: "tensorflow"
    model_version_policy { specific { versions: 1 versions: 2 } }
  }
}
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A model, and addresses of a server that has loaded it."""
    directory = tmp_path_factory.mktemp("models")
    models = {"reader": reader(), "older": times(2.0)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            export, "_serve_in_fresh_process", export_tools.answer_here
        )
        for name, model in models.items():
            serving.export_model(model, directory / name)
        serving.export_model(times(3.0), directory / "older")
        patch.setenv("no_proxy", "127.0.0.1")
        config = CONFIG.replace("DIRECTORY", str(directory))
        with stand_in_server.serve(config) as addresses:
            yield models["reader"], addresses


@pytest.fixture(params=["rest", "grpc"])
def ask(request, served, capsys):
    """Runs the example; returns what it prints, by name."""
    address = served[1][request.param]
    options = ["--protocol", request.param, "--address", address]

    def run(model, inputs, *more):
        text = json.dumps(inputs)
        serving_client.main([model, *options, "--inputs", text, *more])
        lines = capsys.readouterr().out.splitlines()
        return {k: json.loads(x) for k, x in (s.split(": ", 1) for s in lines)}

    return run


def test_answers_are_those_of_the_model(ask, served):
    inputs = {"ids": [[1, 2, 0], [3, 4, 5]], "text": ["字", "ab"]}
    answer = ask("reader", inputs)
    tensors = {
        "ids": keras.ops.convert_to_tensor(inputs["ids"], "int64"),
        "text": keras.ops.convert_to_tensor(inputs["text"]),
    }
    expected = served[0](tensors)
    labels = [x.decode() for x in expected.pop("label").numpy()]
    assert answer.pop("label") == labels
    assert answer.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(answer[name], value, rtol=1e-6, atol=1e-6)


def test_versions(ask):
    for version, factor in (("1", 2.0), ("2", 3.0), (None, 3.0)):
        more = ["--version", version] if version else []
        ((value,),) = ask("older", {"x": [[1]]}, *more).values()
        assert value == [factor]


def test_the_configs_of_the_guide():
    guide = ROOT.joinpath("docs/serving.md").read_text(encoding="utf8")
    blocks = re.findall(r"```\n(model_config_list.*?)```", guide, re.DOTALL)
    versions = []
    for block in blocks:
        proto = model_server_config_pb2.ModelServerConfig()
        text_format.Parse(block, proto)
        (config,) = proto.model_config_list.config
        assert (config.name, config.base_path, config.model_platform) == (
            "segmenter",
            "/models/segmenter",
            "tensorflow",
        )
        versions.append(list(config.model_version_policy.specific.versions))
    assert versions == [[], [1]]
