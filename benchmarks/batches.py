"""Batches to time layers with: the same at every call."""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

# How rows differ in length: lengths from a generator, the number of rows, and
# the most steps, which geometric lengths, of a fifth of them, may exceed.
LENGTHS: dict[str, Callable[[np.random.Generator, int, int], np.ndarray]] = {
    "full": lambda generator, batch, time: np.full(batch, time),
    "uniform": lambda generator, batch, time: generator.integers(
        1, time, size=batch, endpoint=True
    ),
    "geometric": lambda generator, batch, time: generator.geometric(
        5 / time, size=batch
    ),
}


def random_inputs(batch: int, time: int, features: int) -> tf.Tensor:
    """Standard normal sequences."""
    generator = np.random.default_rng(0)
    return tf.constant(
        generator.normal(size=(batch, time, features)), "float32"
    )
