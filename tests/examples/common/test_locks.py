"""Locks: waited for, claimed, given up when a process ends."""

import contextlib
import fcntl
import subprocess
import sys

import pytest

from examples.common import locks

CLAIM = """
import sys, time
from examples.common import locks
with locks.claimed(sys.argv[1]) as is_ours:
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
        assert path.read_text().startswith(f"process {other.pid} on ")
        other.kill()
    with locks.claimed(path) as is_ours:
        assert is_ours
        assert path.read_text().count("\n") == 1


def test_one_claim_at_a_time(tmp_path):
    path = tmp_path / "run.claim"
    with locks.claimed(path) as first, locks.claimed(path) as second:
        assert (first, second) == (True, False)
    with locks.claimed(path) as third:
        assert third


def test_a_claimed_file_stays_where_work_did_not_end(tmp_path):
    path = tmp_path / "run.claim"
    with pytest.raises(KeyboardInterrupt), locks.claimed(path):
        raise KeyboardInterrupt
    assert path.exists()
    with locks.claimed(path):
        pass
    assert not path.exists()


@pytest.mark.parametrize("is_claimed_again", [False, True])
def test_a_file_deleted_before_it_is_locked(
    tmp_path, monkeypatch, is_claimed_again
):
    """Another process gives its claim up after the file was opened."""
    path = tmp_path / "run.claim"
    flock = fcntl.flock
    with contextlib.ExitStack() as others:

        def late(file, operation):
            monkeypatch.setattr(fcntl, "flock", flock)
            path.unlink()
            if is_claimed_again:
                assert others.enter_context(locks.claimed(path))
            flock(file, operation)

        monkeypatch.setattr(fcntl, "flock", late)
        with locks.claimed(path) as is_ours:
            assert is_ours is not is_claimed_again
            with locks.claimed(path) as is_claimed_by_a_third:
                assert not is_claimed_by_a_third


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
    assert list(tmp_path.iterdir()) == []


def test_work_that_stays_pending_is_refused(tmp_path):
    done = []
    with pytest.raises(ValueError, match="longer is. Received: work='a'"):
        locks.do_claimed(
            lambda: ["a"], lambda work: tmp_path / work, done.append
        )
    assert done == ["a"]
