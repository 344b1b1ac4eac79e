"""Locks between processes, which end with the process that holds them."""

import contextlib
import fcntl
import os
import sys
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

Work = TypeVar("Work")


@contextlib.contextmanager
def held(path: Path) -> Iterator[None]:
    """Holds the lock of a folder that exists; waits for it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def claimed(path: Path) -> Iterator[bool]:
    """Claims a file; says whether it is claimed now, and not by another.

    The operating system gives a claim up when its process ends, even if that
    was killed. The file stays, for nobody to claim another one of its name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def do_claimed(
    pending: Callable[[], Sequence[Work]],
    claim_of: Callable[[Work], Path],
    do: Callable[[Work], None],
) -> int:
    """Does pending work that no other process does, each piece claimed first.

    It is looked through again as long as this process finds some to do: a
    process that claimed a piece may have been killed.

    Args:
        pending: What is to be done, by what all processes have done so far.
        claim_of: The file of a piece of work that is claimed.
        do: Does a piece, after which it is no longer pending.

    Returns:
        The number of pieces that this process did.

    Raises:
        SystemExit: At Ctrl-C, with a line that says how to go on.
    """
    done, before = 0, -1
    while done > before:
        before = done
        for work in pending():
            with claimed(claim_of(work)) as is_ours:
                # Another process may have done it before it was claimed.
                if is_ours and work in pending():
                    try:
                        do(work)
                    except KeyboardInterrupt:
                        sys.exit("Stopped; the same command continues.")
                    done += 1
    return done
