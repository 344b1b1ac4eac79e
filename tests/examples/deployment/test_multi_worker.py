"""The example with two workers, run for real on loopback."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from examples.deployment import multi_worker
from tests import ROOT

pytestmark = pytest.mark.long

STEPS, SAVE_EVERY, KILL_AFTER = 5, 2, 3


def run(directory, *options) -> str:
    """Runs the example; returns what it and its workers printed."""
    sizes = ["--length", 4, "--units", 3, "--batch-size", 4]
    sizes += ["--steps", STEPS, "--save-every", SAVE_EVERY]
    result = subprocess.run(
        [
            *[sys.executable, "-m", "examples.deployment.multi_worker"],
            *map(str, [*sizes, "--output-dir", directory, *options]),
        ],
        # Workers wait for each other, and must answer meanwhile.
        env={**os.environ, "TF_NUM_INTEROP_THREADS": "4"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return result.stdout


def test_clears_what_an_earlier_run_left_and_nothing_else(tmp_path):
    (tmp_path / "checkpoints" / "worker-0").mkdir(parents=True)
    for name in ("worker-0.npz", "worker-1.npz", "thesis.txt"):
        (tmp_path / name).touch()
    multi_worker.clear(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    multi_worker.clear(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


def weights(directory, worker) -> dict:
    with np.load(directory / f"worker-{worker}.npz") as file:
        return dict(file)


def left_processes(directory) -> list:
    """Processes that were started for a directory and are still there."""
    left = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            left += [path] * (str(directory) in path.read_text())
        except OSError:
            pass  # ended meanwhile
    return left


def differences(one, other) -> list:
    assert one.keys() == other.keys()
    return [name for name in one if (one[name] != other[name]).any()]


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    directory = tmp_path_factory.mktemp("killed") / "run"
    return directory, run(directory, "--kill-after", KILL_AFTER)


@pytest.mark.slow
def test_recovers_from_a_killed_worker(killed):
    directory, printed = killed
    lines = printed.splitlines()
    assert lines.count(f"worker 1: killed after step {KILL_AFTER}") == 1
    saved = KILL_AFTER // SAVE_EVERY * SAVE_EVERY
    for worker in range(2):
        assert f"worker {worker}: continues after step {saved}" in lines
        last = f"worker {worker}: step {STEPS} of {STEPS}, loss "
        assert sum(line.startswith(last) for line in lines) == 1
    assert "Both workers hold the same" in printed
    assert not differences(weights(directory, 0), weights(directory, 1))
    assert not left_processes(directory)


@pytest.mark.slow
def test_ends_as_a_run_without_a_kill(killed, tmp_path):
    printed = run(tmp_path / "run")
    assert "continues" not in printed
    assert "killed" not in printed
    one, other = (weights(d, 0) for d in (killed[0], tmp_path / "run"))
    assert not differences(one, other)
