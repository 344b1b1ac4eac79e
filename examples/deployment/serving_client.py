"""Asks a model behind TensorFlow Serving, by REST or by gRPC.

    python -m examples.deployment.serving_client segmenter \\
        --inputs '{"text": ["研究生命的起源"]}'

prints the outputs by name. REST needs nothing but Python. For large arrays,
`--protocol grpc --address localhost:8500` is faster, and needs
`pip install '.[serving]'`.
"""

import argparse
import json
import urllib.request
from typing import Any

from examples.common import arguments

SIGNATURE = "serving_default"
TIMEOUT = 30  # seconds


def ask_rest(args: argparse.Namespace) -> dict[str, Any]:
    """Outputs by name; of a model with one output, under "outputs"."""
    version = f"/versions/{args.version}" if args.version else ""
    path = f"/v1/models/{args.model}{version}:predict"
    body = {"signature_name": SIGNATURE, "inputs": args.inputs}
    request = urllib.request.Request(
        f"http://{args.address}{path}", json.dumps(body).encode()
    )
    with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
        outputs = json.load(answer)["outputs"]
    return outputs if isinstance(outputs, dict) else {"outputs": outputs}


def ask_grpc(args: argparse.Namespace) -> dict[str, Any]:
    """Outputs by name; inputs get the dtypes that the server says."""
    import grpc
    import tensorflow as tf
    from tensorflow_serving.apis import get_model_metadata_pb2 as metadata
    from tensorflow_serving.apis import predict_pb2
    from tensorflow_serving.apis import prediction_service_pb2_grpc

    request = predict_pb2.PredictRequest()
    request.model_spec.name = args.model
    request.model_spec.signature_name = SIGNATURE
    if args.version:
        request.model_spec.version.value = args.version
    with grpc.insecure_channel(args.address) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        found = stub.GetModelMetadata(
            metadata.GetModelMetadataRequest(
                model_spec=request.model_spec, metadata_field=["signature_def"]
            ),
            timeout=TIMEOUT,
        )
        signatures = metadata.SignatureDefMap()
        found.metadata["signature_def"].Unpack(signatures)
        infos = signatures.signature_def[SIGNATURE].inputs
        for name, value in args.inputs.items():
            tensor = tf.make_tensor_proto(value, infos[name].dtype or None)
            request.inputs[name].CopyFrom(tensor)
        answer = stub.Predict(request, timeout=TIMEOUT)
    return {k: tf.make_ndarray(x).tolist() for k, x in answer.outputs.items()}


def main(argv: list[str] | None = None) -> None:
    """Asks once and prints the answer."""
    parser = arguments.parser(__doc__)
    add = parser.add_argument
    add("model", help="name of the model")
    add("--inputs", type=json.loads, required=True, help="JSON, lists by name")
    add("--protocol", choices=("rest", "grpc"), default="rest")
    add("--address", default="localhost:8501", help="mostly 8500 for gRPC")
    add("--version", type=int, help="default: the server's choice")
    args = parser.parse_args(argv)
    ask = {"rest": ask_rest, "grpc": ask_grpc}[args.protocol]
    for name, value in sorted(ask(args).items()):
        text = json.dumps(value, ensure_ascii=False, default=bytes.decode)
        print(f"{name}: {text}")


if __name__ == "__main__":
    main()
