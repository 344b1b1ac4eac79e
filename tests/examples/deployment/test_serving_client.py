"""The command line that asks a server."""

import json

import pytest

pytest.importorskip("tensorflow_serving", reason="needs keras_seqmech[serving]")

from examples.deployment import serving_client  # noqa: E402
from tests.serving import served_models  # noqa: E402


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """Models, and clients of a server that has loaded them."""
    with served_models.serve(tmp_path_factory.mktemp("served")) as found:
        yield found


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
