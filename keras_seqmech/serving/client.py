"""Asks a model behind TensorFlow Serving, by REST or by gRPC."""

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import Any

import numpy as np

from keras_seqmech.serving import client_values

SIGNATURE = "serving_default"
REST_PORT, GRPC_PORT = 8501, 8500


class RestClient:
    """Speaks JSON over HTTP with TensorFlow Serving.

    It converts inputs to the dtypes that the server reports for the model, and
    outputs back to arrays.

    Args:
        address: Host and port of the server's `--rest_api_port`.
        timeout: Seconds to wait for an answer.

    Example:

    >>> client = RestClient("localhost:8501", timeout=5.0)
    >>> client.predict("segmenter", {"text": ["ab"]})  # doctest: +SKIP
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

        Raises:
            ValueError: If inputs are missing, or are not of their dtypes:
                a fraction where the model takes integers, for one.
            RuntimeError: If there is no server, or it refuses.
        """
        inputs_by_name, outputs_by_name = self.signature(model, version)
        arrays = client_values.convert(inputs, inputs_by_name)
        answer = self._send(
            f"{_path(model, version)}:predict",
            "outputs",
            body={
                "signature_name": SIGNATURE,
                "inputs": {
                    k: client_values.to_json(v) for k, v in arrays.items()
                },
            },
        )
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
        signature = self._send(
            f"{_path(model, version)}/metadata",
            *("metadata", "signature_def", "signature_def", SIGNATURE),
        )
        both = (signature[k] for k in ("inputs", "outputs"))
        inputs, outputs = (
            {
                name: client_values.numpy_name(info["dtype"])
                for name, info in infos.items()
            }
            for infos in both
        )
        return inputs, outputs

    def status(self, model: str) -> dict[int, str]:
        """States of the model's versions, such as `AVAILABLE`."""
        answer = self._send(_path(model, None), "model_version_status")
        return {int(entry["version"]): entry["state"] for entry in answer}

    def _send(
        self, path: str, *keys: str, body: dict[str, Any] | None = None
    ) -> Any:
        """The value under nested keys of the answer."""
        data = None if body is None else json.dumps(body).encode()
        try:
            request = urllib.request.Request(
                f"http://{self.address}{path}", data
            )
            with urllib.request.urlopen(request, None, self.timeout) as answer:
                found = json.load(answer)
            for key in keys:
                found = found[key]
            return found
        except urllib.error.HTTPError as error:
            with error:
                why = error.read().decode(errors="replace")
            raise RuntimeError(f"The server refused: {why}") from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise RuntimeError(
                f"No answer in JSON from http://{self.address}: {error}"
            ) from error
        except (KeyError, TypeError) as error:
            raise RuntimeError(
                f"The answer from http://{self.address} has no {key!r}: it is "
                "not TensorFlow Serving's, or not of an exported model."
            ) from error


class GrpcClient:
    """Speaks protocol buffers over gRPC, which is faster for large arrays.

    It needs `pip install 'keras_seqmech[serving]'`.

    Args:
        address: Host and port of the server's `--port`.
        timeout: Seconds to wait for an answer.

    Raises:
        ImportError: Without the extra `serving`.
    """

    def __init__(
        self, address: str = f"localhost:{GRPC_PORT}", timeout: float = 30.0
    ):
        try:
            import grpc
            from tensorflow_serving.apis import model_service_pb2_grpc
            from tensorflow_serving.apis import prediction_service_pb2_grpc
        except ImportError as error:
            raise ImportError(
                "gRPC needs `pip install 'keras_seqmech[serving]'`."
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
                for name, array in client_values.convert(
                    inputs, inputs_by_name
                ).items()
            },
        )
        answer = self._call(self._predictions.Predict, request)
        return {
            name: client_values.strings(tf.make_ndarray(tensor))
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
        if SIGNATURE not in signatures.signature_def:
            raise RuntimeError(f"The model has no signature {SIGNATURE!r}.")
        signature = signatures.signature_def[SIGNATURE]
        inputs, outputs = (
            {
                name: client_values.numpy_name(
                    types_pb2.DataType.Name(info.dtype)
                )
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

    def _call(self, method: Callable, request: Any) -> Any:
        try:
            return method(request, timeout=self.timeout)
        except self._error as error:
            raise RuntimeError(
                f"The server at {self.address} refused: {error.details()}"
            ) from error


def _path(model: str, version: int | None) -> str:
    of_version = "" if version is None else f"/versions/{version}"
    return f"/v1/models/{urllib.parse.quote(model)}{of_version}"


def _spec(model: str, version: int | None, **options: Any) -> Any:
    from tensorflow_serving.apis import model_pb2

    spec = model_pb2.ModelSpec(name=model, **options)
    if version is not None:
        spec.version.value = version
    return spec
