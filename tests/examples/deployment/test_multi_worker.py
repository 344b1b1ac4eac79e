"""The example with two workers, run for real on loopback."""

import os
import pathlib
import subprocess
import sys

import pytest

from tests import ROOT

STEPS, SAVE_EVERY, KILL_AFTER = 5, 2, 3


def run(folder, *options) -> str:
    """Runs the example; returns what it and its workers printed."""
    sizes = ["--length", 4, "--units", 3, "--batch-size", 4]
    sizes += ["--steps", STEPS, "--save-every", SAVE_EVERY]
    result = subprocess.run(
        [
            *[sys.executable, "-m", "examples.deployment.multi_worker"],
            *map(str, [*sizes, *options]),
        ],
        # Workers wait for each other, and must answer meanwhile.
        env={
            **os.environ,
            "TF_NUM_INTEROP_THREADS": "4",
            "TMPDIR": str(folder),
        },
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return result.stdout


def left_processes(folder) -> list:
    """Processes that were started for a folder and are still there."""
    left = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            left += [path] * (str(folder) in path.read_text())
        except OSError:
            pass  # ended meanwhile
    return left


@pytest.mark.slow
def test_recovers_from_a_killed_worker(tmp_path):
    """Its numbers at the end are those of a run without a kill."""
    printed = run(tmp_path, "--kill-after", KILL_AFTER)
    lines = printed.splitlines()
    assert lines.count(f"worker 1: killed after step {KILL_AFTER}") == 1
    saved = KILL_AFTER // SAVE_EVERY * SAVE_EVERY
    for worker in range(2):
        assert f"worker {worker}: continues after step {saved}" in lines
        last = f"worker {worker}: step {STEPS} of {STEPS}, loss "
        assert sum(line.startswith(last) for line in lines) == 1
    assert "Both workers hold the same" in printed
    assert not left_processes(tmp_path)
    whole = run(tmp_path)
    assert "continues" not in whole and "killed" not in whole
    assert whole.splitlines()[-1] == lines[-1]
    assert lines[-1].startswith("Their digest: ")
