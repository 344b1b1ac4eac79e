"""Asks a model behind TensorFlow Serving, by REST or by gRPC.

    python -m examples.deployment.serving_client segmenter \\
        --inputs '{"text": ["研究生命的起源"]}'

prints the outputs by name. `--protocol grpc` speaks gRPC, which is faster for
large arrays and needs `pip install 'keras_seqmech[serving]'`. `--status` lists
the versions that are loaded. In a program of your own use
`keras_seqmech.serving.RestClient` and `GrpcClient`.
"""

import argparse
import json
import sys

from keras_seqmech.serving import GrpcClient
from keras_seqmech.serving import RestClient


def _json_object(text):
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(
            f"must be a JSON object, {{name: list}}. Received: {text!r}"
        )
    return value


def main(argv: list[str] | None = None) -> None:
    """Asks once and prints the answer."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("model", help="name of the model")
    add("--inputs", type=_json_object, help="lists by name of input, as JSON")
    add("--protocol", choices=("rest", "grpc"), default="rest")
    add("--address", help="host:port; default: localhost, 8501 or 8500")
    add("--model-version", type=int, help="default: the server's choice")
    add("--status", action="store_true", help="list versions")
    arguments = parser.parse_args(argv)
    if arguments.inputs is None and not arguments.status:
        parser.error("--inputs or --status is needed")
    try:
        ask(arguments)
    except (ImportError, RuntimeError, ValueError) as error:
        sys.exit(str(error))


def ask(arguments: argparse.Namespace) -> None:
    """Prints versions, or outputs."""
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
