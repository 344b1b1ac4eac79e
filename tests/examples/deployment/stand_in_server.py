"""What of TensorFlow Serving's protocols the example speaks, in Python.

Written after the server's documentation of its REST format and its protocol
buffers, to test a client where there is no server: it reads a `models.config`,
loads what that says, and answers by gRPC and REST.
"""

import concurrent.futures
import contextlib
import http.server
import json
import pathlib
import re
import threading

import grpc
import numpy as np
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_serving.apis import get_model_metadata_pb2
from tensorflow_serving.apis import predict_pb2
from tensorflow_serving.apis import prediction_service_pb2_grpc
from tensorflow_serving.config import model_server_config_pb2

from tests.serving.export_tools import load
from tests.serving.export_tools import signature_proto

URL = re.compile(r"/v1/models/([^/:]+)(?:/versions/(\d+))?:predict")


class Models:
    """The versions that a `models.config` asks for, loaded."""

    def __init__(self, config: str):
        proto = model_server_config_pb2.ModelServerConfig()
        text_format.Parse(config, proto)
        self.loaded = {}
        for model in proto.model_config_list.config:
            assert model.model_platform == "tensorflow"
            base = pathlib.Path(model.base_path)
            wanted = list(model.model_version_policy.specific.versions)
            wanted = wanted or [max(int(p.name) for p in base.iterdir())]
            for version in wanted:
                path = base / str(version)
                found = load(path), signature_proto(path)
                self.loaded[model.name, version] = found

    def find(self, name, version):
        known = [number for key, number in self.loaded if key == name]
        version = version or max(known, default=0)
        if version not in known:
            raise ValueError(f"Servable not found for request: {name}")
        return self.loaded[name, version]

    def run(self, name, version, inputs):
        serve, proto = self.find(name, version)
        if set(inputs) != set(proto.inputs):
            raise ValueError(f"inputs must be {sorted(proto.inputs)}")
        return serve(**inputs)


class Predictions(prediction_service_pb2_grpc.PredictionServiceServicer):
    def __init__(self, models):
        self.models = models

    def Predict(self, request, context):
        spec = request.model_spec
        assert spec.signature_name == "serving_default"
        inputs = {
            key: tf.constant(tf.make_ndarray(tensor))
            for key, tensor in request.inputs.items()
        }
        response = predict_pb2.PredictResponse()
        try:
            outputs = self.models.run(spec.name, spec.version.value, inputs)
        except (TypeError, ValueError, tf.errors.OpError) as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        for key, value in outputs.items():
            response.outputs[key].CopyFrom(tf.make_tensor_proto(value.numpy()))
        return response

    def GetModelMetadata(self, request, context):
        assert list(request.metadata_field) == ["signature_def"]
        spec = request.model_spec
        try:
            _, proto = self.models.find(spec.name, spec.version.value)
        except ValueError as error:
            context.abort(grpc.StatusCode.NOT_FOUND, str(error))
        signatures = get_model_metadata_pb2.SignatureDefMap()
        signatures.signature_def["serving_default"].CopyFrom(proto)
        response = get_model_metadata_pb2.GetModelMetadataResponse()
        response.metadata["signature_def"].Pack(signatures)
        return response


class RestHandler(http.server.BaseHTTPRequestHandler):
    models: Models

    def log_message(self, *arguments):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert set(body) == {"signature_name", "inputs"}
        try:
            name, version = URL.fullmatch(self.path).groups()
            version = version and int(version)
            _, proto = self.models.find(name, version)
            inputs = {
                key: tf.constant(value, proto.inputs[key].dtype)
                for key, value in body["inputs"].items()
                if key in proto.inputs
            }
            found = self.models.run(name, version, inputs)
            outputs = {k: _to_json(x.numpy()) for k, x in found.items()}
            if len(outputs) == 1:
                (outputs,) = outputs.values()
            code, answer = 200, {"outputs": outputs}
        except (TypeError, ValueError, tf.errors.OpError) as error:
            code, answer = 400, {"error": str(error)}
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())


def _to_json(array):
    return np.vectorize(
        lambda x: x.decode() if isinstance(x, bytes) else x, otypes=[object]
    )(array).tolist()


@contextlib.contextmanager
def serve(config: str):
    """Serves on free ports of this machine.

    Yields:
        Addresses by protocol.
    """
    models = Models(config)
    handler = type("Handler", (RestHandler,), {"models": models})
    rest = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=rest.serve_forever)
    rpc = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
        Predictions(models), rpc
    )
    port = rpc.add_insecure_port("127.0.0.1:0")
    thread.start()
    rpc.start()
    try:
        yield {
            "rest": f"127.0.0.1:{rest.server_port}",
            "grpc": f"127.0.0.1:{port}",
        }
    finally:
        rest.shutdown()
        rest.server_close()
        thread.join()
        rpc.stop(None).wait()
