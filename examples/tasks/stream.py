"""Streams of random batches."""

import itertools
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

# Of `np.random.default_rng`.
Seed = int | np.random.Generator
Draw = Callable[[np.random.Generator, int], Iterable[Any]]


def dataset(
    draw: Draw, seed: int = 0, start: int = 0, free_axes: int = 1
) -> tf.data.Dataset:
    """Random batches without an end, drawn in rounds while the model computes.

    A round, of batches `draw(generator, number)`, depends on `seed` and its
    number alone, from `start` on. The first `free_axes` differ between batches.
    """

    def generate() -> Iterator[Any]:
        for number in itertools.count(start):
            yield from draw(np.random.default_rng([seed, number]), number)

    def spec(x: np.ndarray) -> tf.TensorSpec:
        free = min(free_axes, x.ndim)
        return tf.TensorSpec((*[None] * free, *x.shape[free:]), x.dtype)

    signature = tf.nest.map_structure(spec, next(generate()))
    batches = tf.data.Dataset.from_generator(
        generate, output_signature=signature
    )
    endless = tf.data.experimental.assert_cardinality(
        tf.data.INFINITE_CARDINALITY
    )
    return batches.apply(endless).prefetch(tf.data.AUTOTUNE)
