"""Locks: waited for, claimed, given up when a process ends."""

import subprocess
import sys

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
        assert locks.owner(path).startswith(f"process {other.pid} on ")
        other.kill()
    assert locks.owner(path) is None
    with locks.claimed(path) as is_ours:
        assert is_ours
    assert path.read_text().count("\n") == 1


def test_one_claim_at_a_time(tmp_path):
    path = tmp_path / "run.claim"
    with locks.claimed(path) as first, locks.claimed(path) as second:
        assert (first, second) == (True, False)
    with locks.claimed(path) as third:
        assert third
    assert locks.owner(tmp_path / "another.claim") is None


def test_a_lock_is_waited_for(tmp_path):
    path, log = tmp_path / "folder", tmp_path / "log"
    path.mkdir()
    code = (
        "import sys\nfrom examples.common import locks\n"
        "print('ready', flush=True)\n"
        "with locks.held(sys.argv[1]), open(sys.argv[2], 'a') as log:\n"
        "    log.write('other')\n"
    )
    command = [sys.executable, "-c", code, str(path), str(log)]
    with locks.held(path):
        other = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert other.stdout.readline() == "ready\n"
        with open(log, "a") as file:
            file.write("ours, ")
    with other:
        assert other.wait() == 0
    assert log.read_text() == "ours, other"
