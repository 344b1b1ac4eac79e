"""Locks between processes, which end with the process that holds them."""

import contextlib
import datetime
import fcntl
import os
import socket
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO
from typing import TypeVar

Work = TypeVar("Work")


@contextlib.contextmanager
def held(path: str | Path) -> Iterator[None]:
    """Holds the lock of a file or folder that exists; waits for it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def claimed(path: str | Path) -> Iterator[bool]:
    """Claims a file, which says by whom; does not wait.

    The operating system gives a claim up when its process ends, even if that
    was killed. The file is deleted when the claim ends, but by an exception or
    a kill: a file that nobody claims is of work that was begun and not
    finished.

    Args:
        path: The file, with folders that may not exist yet.

    Yields:
        Whether it is claimed by this process now, and not by another.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    file = _locked(path)
    if file is None:
        yield False
        return
    with file:
        file.truncate(0)
        now = datetime.datetime.now().isoformat(" ", "seconds")
        file.write(f"process {os.getpid()} on {socket.gethostname()}, {now}\n")
        file.flush()
        yield True
        path.unlink(missing_ok=True)


def _locked(path: Path) -> TextIO | None:
    """Opens and locks a file; None if another process has locked it."""
    while True:
        file = path.open("a+", encoding="utf8")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return None
        # Another process may have deleted the file since it was opened.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file
        file.close()


def do_claimed(
    pending: Callable[[], Sequence[Work]],
    claim_of: Callable[[Work], Path],
    do: Callable[[Work], None],
) -> int:
    """Does pending work that no other process does, each piece claimed first.

    It is looked through again as long as this process finds some to do: a
    process that claimed a piece may have been killed, and work may become
    pending when other work is done.

    Args:
        pending: What is to be done, by what all processes have done so far.
        claim_of: The file of a piece of work that is claimed.
        do: Does a piece, after which it is no longer pending.

    Returns:
        The number of pieces that this process did.

    Raises:
        ValueError: If a piece is still pending when it is done.
    """
    done, before = 0, -1
    while done > before:
        before = done
        for work in pending():
            with claimed(claim_of(work)) as is_ours:
                # Another process may have done it before it was claimed.
                if not is_ours or work not in pending():
                    continue
                do(work)
                done += 1
                if work in pending():
                    raise ValueError(
                        "Argument `do` must do what is pending, so that it no "
                        f"longer is. Received: work={work!r}, which still is"
                    )
    return done
