"""Clients, against a stand-in for TensorFlow Serving."""

import http.server
import re
import threading

import keras
import numpy as np
import pytest

pytest.importorskip("tensorflow_serving", reason="needs keras_seqmech[serving]")

from keras_seqmech.serving import client as clients  # noqa: E402
from keras_seqmech.serving import client_values  # noqa: E402
from tests.serving import served_models  # noqa: E402

TOKENS = np.random.default_rng(3).normal(size=(2, 4, 3)).round(3)
MASK = np.array([[True, True, False, True], [True] * 4])
TEXTS = ["ab 字", "", "ba"]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """Models, and clients of a server that has loaded them."""
    with served_models.serve(tmp_path_factory.mktemp("served")) as found:
        yield found


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
    client = getattr(clients, name)("127.0.0.1:1", timeout=5)
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
        client_values.convert({"x": value}, {"x": dtype})


def test_values_that_fit():
    for dtype, value in (("int64", [1.0]), ("bool", [1, 0]), ("uint8", [])):
        (found,) = client_values.convert({"x": value}, {"x": dtype}).values()
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
    client = clients.RestClient(address, timeout=5)
    for call in (client.status, client.signature):
        with pytest.raises(RuntimeError, match=re.escape(address)):
            call("older")


def test_rest_to_the_port_of_grpc(served):
    address = served[1]["grpc"].address
    for wrong in (address, "localhost:port"):
        client = clients.RestClient(wrong, timeout=5)
        with pytest.raises(RuntimeError, match=f"No answer.*{wrong}"):
            client.status("older")
