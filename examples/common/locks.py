"""Work that processes share."""

import sys
from collections.abc import Callable
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from filelock import FileLock
from filelock import Timeout

Work = TypeVar("Work")


def do_claimed(
    pending: Callable[[], Sequence[Work]],
    claim_of: Callable[[Work], Path],
    do: Callable[[Work], None],
) -> int:
    """Does pending work that no other process does, each piece claimed first.

    The operating system gives a claim up when its process ends, even if that
    was killed. So what is pending is looked through again as long as this
    process finds some to do.

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
