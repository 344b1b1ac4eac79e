"""What of TensorFlow Serving's protocols a client of ours speaks, in Python.

Written after the server's documentation of its REST format and its protocol
buffers, to test clients where there is no server: it reads a `models.config`,
loads what that says, and answers by gRPC and REST.
"""

import base64
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
from google.protobuf import json_format
from google.protobuf import text_format
from tensorflow_serving.apis import get_model_metadata_pb2
from tensorflow_serving.apis import get_model_status_pb2
from tensorflow_serving.apis import model_service_pb2_grpc
from tensorflow_serving.apis import predict_pb2
from tensorflow_serving.apis import prediction_service_pb2_grpc
from tensorflow_serving.config import model_server_config_pb2

from tests.serving.export_tools import load
from tests.serving.export_tools import signature_proto

URL = re.compile(
    r"/v1/models/(?P<model>[^/:]+)(/versions/(?P<version>\d+))?"
    r"(?P<action>/metadata|:predict)?"
)


class NotFound(Exception):
    """No such model or version."""


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
            self.loaded[model.name] = {
                version: (
                    load(base / str(version)),
                    signature_proto(base / str(version)),
                )
                for version in wanted
            }

    def find(self, name, version):
        versions = self.loaded.get(name, {})
        version = version or max(versions, default=None)
        if version not in versions:
            raise NotFound(f"Servable not found for request: {name}, {version}")
        return version, *versions[version]

    def run(self, name, version, inputs):
        _, serve, proto = self.find(name, version)
        if set(inputs) != set(proto.inputs):
            raise ValueError(f"inputs must be {sorted(proto.inputs)}")
        return serve(**inputs)

    def metadata(self, name, version):
        version, _, proto = self.find(name, version)
        signatures = get_model_metadata_pb2.SignatureDefMap()
        signatures.signature_def["serving_default"].CopyFrom(proto)
        return version, signatures

    def status(self, name):
        self.find(name, None)
        response = get_model_status_pb2.GetModelStatusResponse()
        for version in sorted(self.loaded[name], reverse=True):
            response.model_version_status.add(version=version, state=30)
        return response


def answer_rpc(method):
    """Turns exceptions into gRPC's status codes."""

    def answer(self, request, context):
        spec = request.model_spec
        version = spec.version.value if spec.HasField("version") else None
        try:
            return method(self, request, spec.name, version)
        except NotFound as error:
            context.abort(grpc.StatusCode.NOT_FOUND, str(error))
        except (TypeError, ValueError, tf.errors.OpError) as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))

    return answer


class Predictions(prediction_service_pb2_grpc.PredictionServiceServicer):
    def __init__(self, models):
        self.models = models

    @answer_rpc
    def Predict(self, request, name, version):
        assert request.model_spec.signature_name == "serving_default"
        inputs = {
            key: tf.constant(tf.make_ndarray(tensor))
            for key, tensor in request.inputs.items()
        }
        response = predict_pb2.PredictResponse()
        for key, value in self.models.run(name, version, inputs).items():
            response.outputs[key].CopyFrom(tf.make_tensor_proto(value.numpy()))
        return response

    @answer_rpc
    def GetModelMetadata(self, request, name, version):
        assert list(request.metadata_field) == ["signature_def"]
        _, signatures = self.models.metadata(name, version)
        response = get_model_metadata_pb2.GetModelMetadataResponse()
        response.metadata["signature_def"].Pack(signatures)
        return response


class Status(model_service_pb2_grpc.ModelServiceServicer):
    def __init__(self, models):
        self.models = models

    @answer_rpc
    def GetModelStatus(self, request, name, version):
        return self.models.status(name)


class RestHandler(http.server.BaseHTTPRequestHandler):
    models: Models

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        self.answer({None: self.status, "/metadata": self.metadata})

    def do_POST(self):
        self.answer({":predict": self.predict})

    def answer(self, actions):
        match = URL.fullmatch(self.path)
        try:
            if not match or match["action"] not in actions:
                raise NotFound(f"Malformed request: {self.path}")
            version = match["version"] and int(match["version"])
            code, body = 200, actions[match["action"]](match["model"], version)
        except NotFound as error:
            code, body = 404, {"error": str(error)}
        except (TypeError, ValueError, tf.errors.OpError) as error:
            code, body = 400, {"error": str(error)}
        body = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def status(self, name, version):
        return _to_dict(self.models.status(name))

    def metadata(self, name, version):
        version, signatures = self.models.metadata(name, version)
        return {
            "model_spec": {
                "name": name,
                "signature_name": "",
                "version": str(version),
            },
            "metadata": {"signature_def": _to_dict(signatures)},
        }

    def predict(self, name, version):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert set(body) == {"signature_name", "inputs"}
        proto = self.models.find(name, version)[2]
        inputs = {
            key: _from_json(value, proto.inputs[key].dtype)
            for key, value in body["inputs"].items()
            if key in proto.inputs
        }
        outputs = self.models.run(name, version, inputs)
        outputs = {k: _to_json(v.numpy()) for k, v in outputs.items()}
        if len(outputs) == 1:
            (outputs,) = outputs.values()
        return {"outputs": outputs}


def _to_dict(message):
    return json_format.MessageToDict(message, preserving_proto_field_name=True)


def _from_json(value, dtype):
    dtype = tf.as_dtype(dtype)
    if dtype != tf.string:
        return tf.constant(np.array(value), dtype)

    def decode(part):
        if isinstance(part, list):
            return [decode(x) for x in part]
        if isinstance(part, dict):
            return base64.b64decode(part["b64"])
        return part.encode()

    return tf.constant(decode(value))


def _to_json(array):
    if array.dtype != object:
        return array.tolist()
    if array.ndim:
        return [_to_json(np.asarray(part, object)) for part in array]
    return array.item().decode()


@contextlib.contextmanager
def serve(config: str):
    """Serves on free ports of this machine.

    Yields:
        Addresses for REST and for gRPC.
    """
    models = Models(config)
    handler = type("Handler", (RestHandler,), {"models": models})
    rest = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=rest.serve_forever)
    rpc = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
        Predictions(models), rpc
    )
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(
        Status(models), rpc
    )
    port = rpc.add_insecure_port("127.0.0.1:0")
    thread.start()
    rpc.start()
    try:
        yield f"127.0.0.1:{rest.server_port}", f"127.0.0.1:{port}"
    finally:
        rest.shutdown()
        rest.server_close()
        thread.join()
        rpc.stop(None).wait()
