"""Loops whose gradient has a gradient.

The recomputing gradient has no gradient. Within `differentiable_twice` loops
run in a way that TensorFlow itself differentiates, any number of times: over
padded steps, uncompiled, and keeping all intermediate values.
"""

import contextlib
import contextvars
from collections.abc import Iterator

_TWICE = contextvars.ContextVar("differentiable_twice", default=False)


@contextlib.contextmanager
def differentiable_twice() -> Iterator[None]:
    """Within it, loops that are run or traced have a second derivative.

    Cost: a loop keeps all that its steps compute, in place of states and
    products alone, and runs its padded steps.
    """
    token = _TWICE.set(True)
    try:
        yield
    finally:
        _TWICE.reset(token)


def is_differentiable_twice() -> bool:
    """Whether this runs within `differentiable_twice`."""
    return _TWICE.get()
