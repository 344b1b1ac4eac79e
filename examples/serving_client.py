"""Asks a model behind TensorFlow Serving, by REST or by gRPC.

    python -m examples.serving_client segmenter \\
        --inputs '{"text": ["研究生命的起源"]}'

prints the outputs by name. `--protocol grpc` speaks gRPC, which is faster for
large arrays and needs `pip install keras_seqmech[serving]`; REST needs nothing
but numpy. `--status` lists the versions that are loaded. Both clients convert
what they are given to the dtypes that the server says the model takes.
"""

import argparse
import base64
import json
import urllib.error
import urllib.request
from typing import Any

import numpy as np

SIGNATURE = "serving_default"
REST_PORT, GRPC_PORT = 8501, 8500
_NAMES = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "bfloat16": "float32",
    "string": "object",
}


class RestClient:
    """Speaks JSON over HTTP.

    Args:
        address: Host and port of the server's `--rest_api_port`.
        timeout: Seconds to wait for an answer.
    """

    def __init__(
        self, address: str = f"localhost:{REST_PORT}", timeout: float = 30.0
    ):
        self.address = address
        self.timeout = timeout

    def predict(
        self, model: str, inputs: dict[str, Any], version: int | None = None
    ) -> dict[str, np.ndarray]:
        """Answers of a model, or of one of its versions.

        Args:
            model: The model's name.
            inputs: Arrays, or nested lists, by the name of the input.
            version: Defaults to the server's choice, the newest it serves.

        Returns:
            Arrays by name of output; strings as `str`.
        """
        inputs_by_name, outputs_by_name = self.signature(model, version)
        arrays = _convert(inputs, inputs_by_name)
        answer = self._send(
            f"{_path(model, version)}:predict",
            {
                "signature_name": SIGNATURE,
                "inputs": {k: _to_json(v) for k, v in arrays.items()},
            },
        )["outputs"]
        if len(outputs_by_name) == 1:  # Then the server leaves its name out.
            answer = {next(iter(outputs_by_name)): answer}
        return {
            name: np.array(value, outputs_by_name[name])
            for name, value in answer.items()
        }

    def signature(
        self, model: str, version: int | None = None
    ) -> tuple[dict[str, str], dict[str, str]]:
        """numpy dtypes of inputs and of outputs, by name."""
        answer = self._send(f"{_path(model, version)}/metadata")
        signatures = answer["metadata"]["signature_def"]["signature_def"]
        both = (signatures[SIGNATURE][k] for k in ("inputs", "outputs"))
        inputs, outputs = (
            {name: _numpy_name(info["dtype"]) for name, info in infos.items()}
            for infos in both
        )
        return inputs, outputs

    def status(self, model: str) -> dict[int, str]:
        """States of the model's versions, such as `AVAILABLE`."""
        answer = self._send(_path(model, None))["model_version_status"]
        return {int(entry["version"]): entry["state"] for entry in answer}

    def _send(self, path, body=None):
        request = urllib.request.Request(
            f"http://{self.address}{path}",
            None if body is None else json.dumps(body).encode(),
        )
        try:
            with urllib.request.urlopen(request, None, self.timeout) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                why = error.read().decode(errors="replace")
            raise RuntimeError(f"The server refused: {why}") from error
        except OSError as error:
            raise RuntimeError(
                f"No answer from http://{self.address}: {error}"
            ) from error


class GrpcClient:
    """Speaks protocol buffers over gRPC; for arguments see `RestClient`."""

    def __init__(
        self, address: str = f"localhost:{GRPC_PORT}", timeout: float = 30.0
    ):
        try:
            import grpc
            from tensorflow_serving.apis import model_service_pb2_grpc
            from tensorflow_serving.apis import prediction_service_pb2_grpc
        except ImportError as error:
            raise ImportError(
                "gRPC needs `pip install keras_seqmech[serving]`."
            ) from error
        self.address = address
        self.timeout = timeout
        self._error = grpc.RpcError
        self._channel = grpc.insecure_channel(address)
        self._predictions = prediction_service_pb2_grpc.PredictionServiceStub(
            self._channel
        )
        self._models = model_service_pb2_grpc.ModelServiceStub(self._channel)

    def close(self) -> None:
        """Ends the connection."""
        self._channel.close()

    def predict(
        self, model: str, inputs: dict[str, Any], version: int | None = None
    ) -> dict[str, np.ndarray]:
        """As `RestClient.predict`."""
        import tensorflow as tf
        from tensorflow_serving.apis import predict_pb2

        inputs_by_name, _ = self.signature(model, version)
        request = predict_pb2.PredictRequest(
            model_spec=_spec(model, version, signature_name=SIGNATURE),
            inputs={
                name: tf.make_tensor_proto(array)
                for name, array in _convert(inputs, inputs_by_name).items()
            },
        )
        answer = self._call(self._predictions.Predict, request)
        return {
            name: _strings(tf.make_ndarray(tensor))
            for name, tensor in answer.outputs.items()
        }

    def signature(
        self, model: str, version: int | None = None
    ) -> tuple[dict[str, str], dict[str, str]]:
        """As `RestClient.signature`."""
        from tensorflow.core.framework import types_pb2
        from tensorflow_serving.apis import get_model_metadata_pb2 as metadata

        answer = self._call(
            self._predictions.GetModelMetadata,
            metadata.GetModelMetadataRequest(
                model_spec=_spec(model, version),
                metadata_field=["signature_def"],
            ),
        )
        signatures = metadata.SignatureDefMap()
        answer.metadata["signature_def"].Unpack(signatures)
        signature = signatures.signature_def[SIGNATURE]
        inputs, outputs = (
            {
                name: _numpy_name(types_pb2.DataType.Name(info.dtype))
                for name, info in infos.items()
            }
            for infos in (signature.inputs, signature.outputs)
        )
        return inputs, outputs

    def status(self, model: str) -> dict[int, str]:
        """As `RestClient.status`."""
        from tensorflow_serving.apis import get_model_status_pb2 as messages

        answer = self._call(
            self._models.GetModelStatus,
            messages.GetModelStatusRequest(model_spec=_spec(model, None)),
        )
        name = messages.ModelVersionStatus.State.Name
        return {x.version: name(x.state) for x in answer.model_version_status}

    def _call(self, method, request):
        try:
            return method(request, timeout=self.timeout)
        except self._error as error:
            raise RuntimeError(
                f"The server at {self.address} refused: {error.details()}"
            ) from error


def _path(model, version):
    of_version = "" if version is None else f"/versions/{version}"
    return f"/v1/models/{urllib.request.quote(model)}{of_version}"


def _spec(model, version, **options):
    from tensorflow_serving.apis import model_pb2

    spec = model_pb2.ModelSpec(name=model, **options)
    if version is not None:
        spec.version.value = version
    return spec


def _numpy_name(dtype):
    """`DT_FLOAT` is `float32`."""
    name = dtype.removeprefix("DT_").lower()
    return _NAMES.get(name, name)


def _convert(inputs, dtypes):
    if set(inputs) != set(dtypes):
        raise ValueError(
            f"Argument `inputs` must have the keys {sorted(dtypes)}. "
            f"Received: inputs with the keys {sorted(inputs)}"
        )
    return {name: np.asarray(x, dtypes[name]) for name, x in inputs.items()}


def _to_json(array):
    """Nested lists; bytes that need not be text go as base 64."""
    if array.dtype != object:
        return array.tolist()
    if array.ndim:
        return [_to_json(np.asarray(part, object)) for part in array]
    value = array.item()
    if isinstance(value, bytes):
        return {"b64": base64.b64encode(value).decode()}
    return value


def _strings(array):
    if array.dtype != object:
        return array
    texts = [value.decode(errors="replace") for value in array.flat]
    return np.array(texts, object).reshape(array.shape)


def main(argv: list[str] | None = None) -> None:
    """Asks once and prints the answer."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("model", help="name of the model")
    add("--inputs", type=json.loads, help="lists by name of input, as JSON")
    add("--protocol", choices=("rest", "grpc"), default="rest")
    add("--address", help="host:port; default: localhost, 8501 or 8500")
    add("--model-version", type=int, help="default: the server's choice")
    add("--status", action="store_true", help="list versions")
    arguments = parser.parse_args(argv)
    if arguments.inputs is None and not arguments.status:
        parser.error("--inputs or --status is needed")
    client_class = {"rest": RestClient, "grpc": GrpcClient}[arguments.protocol]
    client = client_class(*filter(None, [arguments.address]))
    if arguments.status:
        for version, state in sorted(client.status(arguments.model).items()):
            print(version, state)
    else:
        answer = client.predict(
            arguments.model, arguments.inputs, arguments.model_version
        )
        for name, array in sorted(answer.items()):
            print(f"{name}: {json.dumps(array.tolist(), ensure_ascii=False)}")


if __name__ == "__main__":
    main()
