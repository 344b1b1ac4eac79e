"""Locks between processes, which end with the process that holds them."""

import contextlib
import datetime
import fcntl
import os
import socket
from collections.abc import Iterator
from pathlib import Path


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
    was killed: what a file says is of interest only as long as it is claimed.

    Args:
        path: Of the file, with folders that may not exist yet.

    Yields:
        Whether it is claimed by this process now, and not by another.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        file.truncate(0)
        now = datetime.datetime.now().isoformat(" ", "seconds")
        file.write(f"process {os.getpid()} on {socket.gethostname()}, {now}\n")
        file.flush()
        yield True


def owner(path: str | Path) -> str | None:
    """Who claims a file now, if anybody does."""
    path = Path(path)
    if not path.exists():
        return None
    with path.open(encoding="utf8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return file.read().strip()
    return None
