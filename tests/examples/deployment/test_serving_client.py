"""The example client, against a stand-in for TensorFlow Serving."""

import http.server
import json
import re
import threading

import keras
import numpy as np
import pytest

pytest.importorskip("tensorflow_serving", reason="needs keras_seqmech[serving]")

from examples.deployment import serving_client  # noqa: E402
from examples.deployment import serving_values  # noqa: E402
from keras_seqmech import MaxAttentionPooling  # noqa: E402
from keras_seqmech import MaxPooling  # noqa: E402
from keras_seqmech import serving  # noqa: E402
from keras_seqmech.serving import export  # noqa: E402
from tests.examples.deployment import stand_in_server  # noqa: E402
from tests.serving import export_tools  # noqa: E402

TOKENS = np.random.default_rng(3).normal(size=(2, 4, 3)).round(3)
MASK = np.array([[True, True, False, True], [True] * 4])
TEXTS = ["ab 字", "", "ba"]


def pooler():
    """Two inputs of two dtypes, two outputs."""
    tokens = keras.Input((None, 3), name="tokens")
    mask = keras.Input((None,), dtype="bool", name="mask")
    sentence, scores = MaxAttentionPooling(return_attention_scores=True)(
        tokens, mask=mask
    )
    outputs = {"sentence": sentence, **scores}
    return keras.Model({"tokens": tokens, "mask": mask}, outputs)


def reader():
    """Strings in, strings out, and one output alone."""
    text = keras.Input((), dtype="string", name="text")
    ids = keras.layers.TextVectorization(
        standardize=None, split="character", vocabulary=list("ab字 ")
    )(text)
    embedded = keras.layers.Embedding(9, 4)(ids)
    pooled = MaxPooling()(embedded, mask=keras.ops.not_equal(ids, 0))
    label = keras.layers.StringLookup(
        vocabulary=["是", "no"], num_oov_indices=0, invert=True
    )(keras.ops.argmax(keras.layers.Dense(2)(pooled), axis=-1))
    return keras.Model({"text": text}, {"label": label})


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """Models, and clients of a server that has loaded them."""
    directory = tmp_path_factory.mktemp("served")
    keras.utils.set_random_seed(0)
    models = {"pooler": pooler(), "reader": reader(), "older": tiny(2.0)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            export, "_serve_in_fresh_process", export_tools.answer_here
        )
        for name, model in models.items():
            serving.export_model(model, directory / name)
        serving.export_model(tiny(3.0), directory / "older")
        patch.setenv("no_proxy", "127.0.0.1")
        config = serving.models_config(
            [directory / name for name in models], versions={"older": [1, 2]}
        )
        with stand_in_server.serve(config) as (rest, rpc):
            grpc_client = serving_client.GrpcClient(rpc)
            clients = {
                "rest": serving_client.RestClient(rest),
                "grpc": grpc_client,
            }
            yield models, clients
            grpc_client.close()


def tiny(factor):
    inputs = keras.Input((1,), name="x")
    return keras.Model({"x": inputs}, {"y": inputs * factor})


@pytest.fixture(params=["rest", "grpc"])
def client(request, served):
    return served[1][request.param]


def test_arrays(client, served):
    answer = client.predict("pooler", {"tokens": TOKENS, "mask": MASK.tolist()})
    expected = served[0]["pooler"].predict(
        {"tokens": TOKENS, "mask": MASK}, verbose=0
    )
    assert sorted(answer) == ["attention_scores", "sentence"]
    for name, value in expected.items():
        assert answer[name].dtype == "float32"
        np.testing.assert_allclose(answer[name], value, rtol=1e-6, atol=1e-6)


def test_strings(client, served):
    answer = client.predict("reader", {"text": TEXTS})
    (expected,) = served[0]["reader"](
        {"text": keras.ops.convert_to_tensor(TEXTS)}
    ).values()
    assert answer["label"].tolist() == [x.decode() for x in expected.numpy()]
    (same,) = client.predict("reader", {"text": [b"ab \xe5\xad\x97"]}).values()
    assert same[0] == answer["label"][0]


def test_versions(client):
    assert client.status("older") == {1: "AVAILABLE", 2: "AVAILABLE"}
    assert client.status("pooler") == {1: "AVAILABLE"}
    answers = [
        client.predict("older", {"x": [[1.0]]}, version)["y"][0, 0]
        for version in (1, 2, None)
    ]
    assert answers == [2.0, 3.0, 3.0]


def test_numbers_that_json_lacks(client):
    values = np.array([[np.nan], [np.inf], [-np.inf]])
    answer = client.predict("older", {"x": values}, 1)
    np.testing.assert_array_equal(answer["y"], values.astype("float32"))


def test_signature(client):
    assert client.signature("pooler") == (
        {"mask": "bool", "tokens": "float32"},
        {"attention_scores": "float32", "sentence": "float32"},
    )


def test_refusals(client):
    with pytest.raises(RuntimeError, match="refused.*nobody"):
        client.predict("nobody", {})
    with pytest.raises(RuntimeError, match="refused"):
        client.predict("older", {"x": [[1.0]]}, 7)
    with pytest.raises(RuntimeError, match=r"(?s)refused.*\[4,3\].*,3\]"):
        client.predict("pooler", {"tokens": TOKENS[0], "mask": MASK})
    for wrong in ({"z": 1}, ["x"], None):
        with pytest.raises(ValueError, match=r"keys \['x'\].*Received: inputs"):
            client.predict("older", wrong)


@pytest.mark.parametrize("name", ["RestClient", "GrpcClient"])
def test_no_server(name):
    client = getattr(serving_client, name)("127.0.0.1:1", timeout=5)
    with pytest.raises(RuntimeError, match="127.0.0.1:1"):
        client.status("older")


@pytest.mark.parametrize(
    "dtype, value",
    [
        ("int64", [1.5]),
        ("int64", [np.nan]),
        ("int64", "5"),
        ("int64", [1, [2]]),
        ("int64", [2**70]),
        ("uint8", np.array([300])),
        ("bool", [2]),
        ("float32", ["a"]),
        ("object", [5]),
        ("object", ["a", ["b"]]),
        ("object", None),
    ],
)
def test_values_that_do_not_fit(dtype, value):
    with pytest.raises(ValueError, match="'x'.*Received: inputs"):
        serving_values.convert({"x": value}, {"x": dtype})


def test_values_that_fit():
    for dtype, value in (("int64", [1.0]), ("bool", [1, 0]), ("uint8", [])):
        (found,) = serving_values.convert({"x": value}, {"x": dtype}).values()
        assert found.dtype == dtype and found.tolist() == value


@pytest.fixture
def page():
    """Address of a server that sends any path the text of its list."""
    texts = ["<html>"]

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(texts[0].encode())

        def log_message(self, *args):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=[0.01]).start()
        yield f"127.0.0.1:{server.server_port}", texts
        server.shutdown()


@pytest.mark.parametrize(
    "text", ["<html>", "", "{}", "[]", '{"metadata": {"signature_def": 1}}']
)
def test_answers_of_something_else(page, text):
    address, page[1][:] = page[0], [text]
    client = serving_client.RestClient(address, timeout=5)
    for call in (client.status, client.signature):
        with pytest.raises(RuntimeError, match=re.escape(address)):
            call("older")


def test_rest_to_the_port_of_grpc(served):
    address = served[1]["grpc"].address
    for wrong in (address, "localhost:port"):
        client = serving_client.RestClient(wrong, timeout=5)
        with pytest.raises(RuntimeError, match=f"No answer.*{wrong}"):
            client.status("older")


@pytest.mark.parametrize("text", ["{", "null", "5", "[1]"])
def test_command_line_inputs_that_are_no_object(capsys, text):
    with pytest.raises(SystemExit):
        serving_client.main(["older", "--inputs", text])
    assert "must be a JSON object" in capsys.readouterr().err


def test_command_line_without_a_server():
    with pytest.raises(SystemExit, match="No answer"):
        serving_client.main(["older", "--status", "--address", "127.0.0.1:1"])


@pytest.mark.parametrize("protocol", ["rest", "grpc"])
def test_command_line(served, capsys, protocol):
    address = served[1][protocol].address
    ask = ["--protocol", protocol, "--address", address]
    text = json.dumps({"text": ["ab 字"]})
    serving_client.main(["reader", *ask, "--inputs", text])
    expected = served[1][protocol].predict("reader", {"text": ["ab 字"]})
    assert capsys.readouterr().out == f'label: ["{expected["label"][0]}"]\n'
    serving_client.main(["older", *ask, "--status"])
    assert capsys.readouterr().out == "1 AVAILABLE\n2 AVAILABLE\n"
    with pytest.raises(SystemExit):
        serving_client.main(["older", *ask])
