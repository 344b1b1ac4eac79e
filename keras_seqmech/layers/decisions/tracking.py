"""Whether layers with `track_statistics=True` update their statistics."""

import contextlib
import threading
from collections.abc import Iterator

_context = threading.local()


@contextlib.contextmanager
def without_statistics() -> Iterator[None]:
    """Within it, in this thread, no layer updates its statistics.

    For calls that are no training and no evaluation, such as the trace of a
    served model. The layers themselves stay as they are.

    Example:

    >>> with without_statistics():
    ...     is_active()
    False
    >>> is_active()
    True
    """
    before = is_active()
    _context.is_active = False
    try:
        yield
    finally:
        _context.is_active = before


def is_active() -> bool:
    """Whether a layer that is called now is to update its statistics."""
    return getattr(_context, "is_active", True)
