"""Locks: claimed, given up when a process ends."""

import subprocess
import sys

from filelock import FileLock

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


def test_work_is_claimed_then_looked_at_again(tmp_path):
    todo, log = [1, 2, 3], []

    def claim_of(work):
        # Another process does the second after it was found pending.
        if work == 2 and work in todo:
            todo.remove(work)
        return tmp_path / f"{work}.claim"

    def do(work):
        log.append(work)
        todo.remove(work)
        # Needed the first.
        if work == 1:
            todo.append(4)

    with FileLock(tmp_path / "3.claim"):
        assert locks.do_claimed(lambda: list(todo), claim_of, do) == 2
    assert (log, todo) == ([1, 4], [3])
