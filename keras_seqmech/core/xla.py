"""Compilation of parts of layers with XLA, as `jit_compile` asks."""

import contextlib
import contextvars
from collections.abc import Callable
from collections.abc import Iterator

import tensorflow as tf

_WITHOUT_XLA = contextvars.ContextVar("without_xla", default=False)


@contextlib.contextmanager
def without_xla() -> Iterator[None]:
    """Within it `jit_compile` of layers has no effect.

    For exports: servers may have no compiler.
    """
    token = _WITHOUT_XLA.set(True)
    try:
        yield
    finally:
        _WITHOUT_XLA.reset(token)


def compiles(jit_compile: bool) -> bool:
    """Returns whether a `jit_compile` compiles what is called now.

    Eager code is not.
    """
    eager = tf.executing_eagerly()
    return jit_compile and not (eager or _WITHOUT_XLA.get())


@contextlib.contextmanager
def not_clustered() -> Iterator[None]:
    """Within it, operations are left out of XLA's auto-clustering.

    For values that become sizes: XLA fails where it compiles a size together
    with what it depends on.
    """
    if tf.executing_eagerly():
        yield
        return
    with tf.xla.experimental.jit_scope(compile_ops=False):
        yield


def compiled(function: Callable, jit_compile: bool) -> Callable:
    """A function compiled with XLA where the code around it may not be.

    It takes tensors, and has no side effects. XLA compiles anew for every
    shape. Where nothing `compiles`, it is as it was.
    """
    if not compiles(jit_compile):
        return function
    return tf.function(function, jit_compile=True, autograph=False)
