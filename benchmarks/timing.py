"""Side-by-side timing: interleaved repeats, medians, the machine's name."""

import platform
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from examples.common.interleaved import median_ms
from examples.common.machine import machine


def compiled(
    layer: keras.layers.Layer,
    inputs: tf.Tensor,
    training: bool,
    xla: bool,
    of_inputs: bool = False,
    **keywords,
) -> Callable[[], None]:
    """A call of `layer`, and in training of its gradients, ready to time.

    Args:
        layer: A built layer that maps `inputs` to one tensor.
        inputs: Its input.
        training: Whether to take the gradients of all trainable weights.
        xla: Whether to compile with XLA.
        of_inputs: Whether training takes the gradient of `inputs` too.
        **keywords: What else the layer is called with.

    Returns:
        Function that runs it once and waits for the result.
    """

    @tf.function(jit_compile=xla)
    def run():
        if not training:
            return layer(inputs, training=False, **keywords)
        sources = [v.value for v in layer.trainable_variables]
        with tf.GradientTape() as tape:
            if of_inputs:
                tape.watch(inputs)
                sources.append(inputs)
            outputs = layer(inputs, training=True, **keywords)
            loss = tf.reduce_sum(tf.square(outputs)) + sum(layer.losses)
        return tape.gradient(loss, sources)

    return waiting(run)


def waiting(run: Callable[[], Any]) -> Callable[[], None]:
    """A function that runs another and waits for the tensors it returns."""

    def wait() -> None:
        keras.tree.map_structure(lambda tensor: tensor.numpy(), run())

    return wait


def interleaved(
    functions: dict[str, Callable[[], None]], repeats: int
) -> dict[str, float]:
    """Median seconds of each function, run in turn `repeats` times.

    Args:
        functions: What to time, by name.
        repeats: Rounds; in each every function runs once.

    Returns:
        Seconds by name.
    """
    # Once more than `median_ms` does, before any time counts.
    for function in functions.values():
        function()
    medians = median_ms(functions.values(), repeats)
    return {name: ms / 1000 for name, ms in zip(functions, medians)}


def environment() -> str:
    """One line that names the machine and the versions."""
    return (
        f"{machine()}, Python {platform.python_version()}, "
        f"TensorFlow {tf.__version__}, Keras {keras.__version__}, "
        f"NumPy {np.__version__}"
    )
