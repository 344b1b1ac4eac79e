"""A chief and two workers, one of which is killed in the middle."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest

from tests import ROOT

SCRIPT = ROOT / "examples" / "receptive_field" / "tune_distributed.sh"
TRIALS = 6
NAMES = ("max_size", "temperature")

pytestmark = pytest.mark.skipif(
    shutil.which("bash") is None, reason="needs bash"
)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(tmp_path, command, **environment):
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "TINY_LOG": str(tmp_path / "log"),
        **environment,
    }
    with (tmp_path / "output").open("w") as output:
        return subprocess.Popen(
            [str(SCRIPT), *command],
            cwd=ROOT,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def events(tmp_path):
    path = tmp_path / "log"
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def trials(folder):
    files = sorted(folder.glob("trial_*/trial.json"))
    return [json.loads(file.read_text()) for file in files]


def wait_until(condition, process, tmp_path, seconds=240):
    end = time.monotonic() + seconds
    while not condition():
        output = (tmp_path / "output").read_text()[-3000:]
        assert process.poll() is None, output
        assert time.monotonic() < end, output
        time.sleep(0.05)


@pytest.mark.slow
def test_a_worker_is_killed_and_no_trial_is_lost(tmp_path):
    folder = tmp_path / "search"
    options = f"--trials {TRIALS} --output {folder} --verbose 0 --epochs 1"
    program = "tests.examples.receptive_field.tiny_search"
    process = start(
        tmp_path,
        [sys.executable, "-m", program, "segmentation", *options.split()],
        KERASTUNER_ORACLE_PORT=str(free_port()),
        TINY_SECONDS="3",
    )
    try:
        # One worker has finished a trial, and has begun another.
        def victim():
            for name in ("worker0", "worker1"):
                own = [e for e in events(tmp_path) if e["tuner"] == name]
                if len(own) > 3 and own[-1]["event"] == "train":
                    return own[-1]

        wait_until(victim, process, tmp_path)
        killed = victim()
        before = [t for t in trials(folder) if t["status"] == "COMPLETED"]
        os.kill(killed["process"], signal.SIGKILL)
        assert process.wait(timeout=240) == 0, (tmp_path / "output").read_text()
    finally:
        process.terminate()
        process.wait()
    after = {t["trial_id"]: t for t in trials(folder)}
    assert len(after) == TRIALS
    assert {t["status"] for t in after.values()} == {"COMPLETED"}
    for trial in before:
        assert after[trial["trial_id"]] == trial
    # Every trial ran to its end once, the one that was killed began twice.
    found = events(tmp_path)
    scored = [e["trial"] for e in found if e["event"] == "scored"]
    assert sorted(scored) == sorted(
        [t["hyperparameters"]["values"][name] for name in NAMES]
        for t in after.values()
    )
    began = [e["trial"] for e in found if e["event"] == "train"]
    assert len(began) == TRIALS + 1
    assert began.count(killed["trial"]) == 2
    # Both workers worked, and nobody is left behind.
    again = [e for e in found if e["trial"] == killed["trial"]][-1]
    assert again["tuner"] == killed["tuner"]
    assert again["process"] != killed["process"]
    tuners = {e["tuner"] for e in found if e["event"] == "scored"}
    assert tuners == {"worker0", "worker1"}
    for event in found:
        with pytest.raises(ProcessLookupError):
            os.kill(event["process"], 0)
    output = (tmp_path / "output").read_text()
    assert f"{killed['tuner']} ended early, with status 137." in output
    assert f"{TRIALS} trials, 0 failed." in output
    assert (folder / "sweep.png").stat().st_size
    table = (folder / "results.md").read_text().splitlines()
    assert len(table) == TRIALS + 2
