"""Parts of a graph that are compiled with XLA on their own."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from keras_seqmech.typing import Tensor


def compiled(function: Callable, jit_compile: bool = True) -> Callable:
    """A function of tensors, compiled where the code around it may not be.

    XLA compiles anew for every shape.

    Args:
        function: Function of tensors, variables and Nones, without side
            effects.
        jit_compile: Whether to compile; if False the function is as it was.

    Returns:
        The function; in eager execution, unchanged.
    """
    if not jit_compile or tf.executing_eagerly():
        return function
    traced = tf.function(function, jit_compile=True, autograph=False)

    def run(*arguments: Tensor | None) -> Any:
        return traced(
            *[None if x is None else tf.convert_to_tensor(x) for x in arguments]
        )

    return run
