"""Chiefs and workers: a search by three processes, and who is missing."""

import json
import os
import socket
import subprocess
import sys

import pytest

pytest.importorskip("keras_tuner")
pytest.importorskip("tensorboard")

from tests import ROOT  # noqa: E402
from tests.tuning.searches import Counted  # noqa: E402
from tests.tuning.searches import search  # noqa: E402

SEARCH = """
import json, sys
from tests.tuning.searches import Counted, search
hypermodel = Counted(fails=[2], max_size=(1, 9))
search(hypermodel, sys.argv[1], max_trials=8)
print(json.dumps(hypermodel.ran))
"""


@pytest.fixture
def address(monkeypatch):
    """The environment of a worker whose chief is not there."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    monkeypatch.setenv("KERASTUNER_TUNER_ID", "worker0")
    monkeypatch.setenv("KERASTUNER_ORACLE_IP", "127.0.0.1")
    monkeypatch.setenv("KERASTUNER_ORACLE_PORT", str(port))
    return port


@pytest.mark.long
def test_a_chief_and_two_workers(address, tmp_path):
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", SEARCH, tmp_path],
            cwd=ROOT,
            env={**os.environ, "KERASTUNER_TUNER_ID": name},
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("chief", "worker0", "worker1")
    ]
    try:
        answers = [process.communicate(timeout=300)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0, 0]
    by_chief, *ran = [json.loads(a.splitlines()[-1]) for a in answers]
    files = tmp_path.glob("sweep/trial_*/trial.json")
    states = [json.loads(file.read_text()) for file in files]
    assert len(states) == 8 and by_chief == []
    values = {
        (found["max_size"], found["temperature"], state["status"])
        for state in states
        for found in [state["hyperparameters"]["values"]]
    }
    done = {(*one, "COMPLETED") for one in ran[0] + ran[1]}
    assert done == {one for one in values if one[0] != 2}
    assert {one[2] for one in values - done} <= {"FAILED"}


def test_a_port_that_is_taken(address, monkeypatch, tmp_path):
    monkeypatch.setenv("KERASTUNER_TUNER_ID", "chief")
    with socket.create_server(("127.0.0.1", address), reuse_port=True):
        with pytest.raises(OSError, match=f"in use.*{address}"):
            search(Counted(), tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("missing", ["ORACLE_IP", "ORACLE_PORT", "TUNER_ID"])
def test_half_an_address_does_not_search_alone(
    address, monkeypatch, tmp_path, missing
):
    monkeypatch.delenv(f"KERASTUNER_{missing}")
    with pytest.raises(ValueError, match=f"KERASTUNER_{missing}.*: None"):
        search(Counted(), tmp_path)
