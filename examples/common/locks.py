"""Work that processes share."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from filelock import FileLock
from filelock import Timeout

Work = TypeVar("Work")


def do_claimed(
    pending: Callable[[], list[Work]],
    claim_of: Callable[[Work], Path],
    do: Callable[[Work], None],
) -> int:
    """Does pending work that no other process does; returns how many pieces.

    A piece is claimed first, by a lock on the file `claim_of` it. The operating
    system gives a claim up when its process ends, even if that was killed. So
    what is pending, by what all processes have done so far, is looked through
    again as long as this process finds some to do.
    """
    done, before = 0, -1
    while done > before:
        before = done
        for work in pending():
            path = claim_of(work)
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                claim = FileLock(path).acquire(blocking=False)
            except Timeout:
                continue
            with claim:
                # Another process may have done it before it was claimed.
                if work in pending():
                    try:
                        do(work)
                    except KeyboardInterrupt:
                        sys.exit("Stopped; the same command continues.")
                    done += 1
    return done
