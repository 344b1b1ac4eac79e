"""Locks: claimed, given up when a process ends."""

import subprocess
import sys

from examples.common import locks

CLAIM = """
import sys, time
from pathlib import Path
from examples.common import locks
with locks.claimed(Path(sys.argv[1])) as is_ours:
    print(is_ours, flush=True)
    time.sleep(60)
"""


def test_a_claim_ends_with_its_process(tmp_path):
    path = tmp_path / "new" / "run.claim"
    other = subprocess.Popen(
        [sys.executable, "-c", CLAIM, str(path)],
        stdout=subprocess.PIPE,
        text=True,
    )
    with other:
        assert other.stdout.readline() == "True\n"
        with locks.claimed(path) as is_ours:
            assert not is_ours
        other.kill()
    with locks.claimed(path) as first, locks.claimed(path) as second:
        assert (first, second) == (True, False)
    with locks.claimed(path) as third:
        assert third


def test_work_is_claimed_then_looked_at_again(tmp_path):
    todo, log = [1, 2, 3], []

    def claim_of(work):
        # Another process does the second after it was found pending.
        if work == 2 and work in todo:
            todo.remove(work)
        return tmp_path / f"{work}.claim"

    def do(work):
        with locks.claimed(tmp_path / f"{work}.claim") as is_free:
            assert not is_free
        log.append(work)
        todo.remove(work)
        # Needed the first.
        if work == 1:
            todo.append(4)

    with locks.claimed(tmp_path / "3.claim"):
        assert locks.do_claimed(lambda: list(todo), claim_of, do) == 2
    assert (log, todo) == ([1, 4], [3])
