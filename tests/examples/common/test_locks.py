"""Locks: claimed, given up when a process ends."""

import subprocess
import sys

from examples.common import locks

CLAIM = """
import sys, time
from pathlib import Path
from examples.common import locks
todo = [1]
def do(work):
    print("claimed", flush=True)
    time.sleep(60)
locks.do_claimed(lambda: todo, lambda work: Path(sys.argv[1]), do)
"""


def test_a_claim_ends_with_its_process(tmp_path):
    path = tmp_path / "new" / "run.claim"
    todo = [1]

    def do_claimed():
        return locks.do_claimed(lambda: [*todo], lambda work: path, todo.remove)

    other = subprocess.Popen(
        [sys.executable, "-c", CLAIM, str(path)],
        stdout=subprocess.PIPE,
        text=True,
    )
    with other:
        assert other.stdout.readline() == "claimed\n"
        assert (do_claimed(), todo) == (0, [1])
        other.kill()
    assert (do_claimed(), todo) == (1, [])
