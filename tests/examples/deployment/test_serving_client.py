"""The example that asks a server, by both protocols; the guide's config."""

import concurrent.futures
import http.server
import json
import re
import threading

import grpc
import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_serving.apis import get_model_metadata_pb2
from tensorflow_serving.apis import predict_pb2
from tensorflow_serving.apis import prediction_service_pb2_grpc
from tensorflow_serving.config import model_server_config_pb2

from examples.deployment import serving_client
from tests import ROOT


class RestHandler(http.server.BaseHTTPRequestHandler):
    """Doubles x, as the REST format of TensorFlow Serving has it."""

    def log_message(self, *arguments):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert body.keys() == {"signature_name", "inputs"}
        factor = {
            "/v1/models/double:predict": 2.0,
            "/v1/models/double/versions/1:predict": 1.0,
        }[self.path]
        outputs = {"y": [factor * x for x in body["inputs"]["x"]]}
        if "text" in body["inputs"]:
            outputs["text"] = body["inputs"]["text"]
        # One output has no name.
        outputs = outputs if len(outputs) > 1 else outputs["y"]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"outputs": outputs}).encode())


class Predictions(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Doubles x, which is float32, and repeats the text."""

    def GetModelMetadata(self, request, context):
        assert list(request.metadata_field) == ["signature_def"]
        signatures = get_model_metadata_pb2.SignatureDefMap()
        inputs = signatures.signature_def["serving_default"].inputs
        inputs["x"].dtype = tf.float32.as_datatype_enum
        inputs["text"].dtype = tf.string.as_datatype_enum
        response = get_model_metadata_pb2.GetModelMetadataResponse()
        response.metadata["signature_def"].Pack(signatures)
        return response

    def Predict(self, request, context):
        spec = request.model_spec
        assert (spec.name, spec.signature_name) == ("double", "serving_default")
        inputs = {k: tf.make_ndarray(x) for k, x in request.inputs.items()}
        assert inputs["x"].dtype == "float32"
        inputs["y"] = inputs.pop("x") * (spec.version.value or 2)
        response = predict_pb2.PredictResponse()
        for name, value in inputs.items():
            response.outputs[name].CopyFrom(tf.make_tensor_proto(value))
        return response


@pytest.fixture(scope="module")
def addresses():
    rest = http.server.ThreadingHTTPServer(("127.0.0.1", 0), RestHandler)
    thread = threading.Thread(target=rest.serve_forever)
    rpc = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
        Predictions(), rpc
    )
    port = rpc.add_insecure_port("127.0.0.1:0")
    thread.start()
    rpc.start()
    yield {
        "rest": f"127.0.0.1:{rest.server_port}",
        "grpc": f"127.0.0.1:{port}",
    }
    rest.shutdown()
    rest.server_close()
    thread.join()
    rpc.stop(None).wait()


@pytest.mark.parametrize("protocol", ["rest", "grpc"])
def test_answers_are_those_of_the_server(
    protocol, addresses, capsys, monkeypatch
):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    options = ["--protocol", protocol, "--address", addresses[protocol]]

    def ask(inputs, *more):
        given = ["--inputs", json.dumps(inputs), *more]
        serving_client.main(["double", *options, *given])
        lines = capsys.readouterr().out.splitlines()
        return [line.split(": ", 1) for line in lines]

    found = ask({"x": [1, 2], "text": ["字", "a"]})
    assert found == [["text", '["字", "a"]'], ["y", "[2.0, 4.0]"]]
    ((name, value),) = ask({"x": [3]}, "--version", "1")
    assert (name, value) == (
        "outputs" if protocol == "rest" else "y",
        "[3.0]",
    )


def test_the_server_is_given_what_its_messages_allow():
    folder = ROOT / "examples/deployment/serving"
    proto = model_server_config_pb2.ModelServerConfig()
    text_format.Parse((folder / "models.config").read_text("utf8"), proto)
    (config,) = proto.model_config_list.config
    assert config.base_path == f"/models/{config.name}"
    assert config.model_platform == "tensorflow"
    versions = [*config.model_version_policy.specific.versions]
    assert versions == [1, 2]
    assert dict(config.version_labels) == {"stable": 1, "next": 2}
    compose = (folder / "compose.yaml").read_text("utf8")
    for name in re.findall(r"=/models/(\S+)", compose):
        assert (folder / name).is_file()
