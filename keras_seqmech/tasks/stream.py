"""What tasks share: checked arrays of ids, and streams of batches."""

import itertools
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from keras_seqmech.core import checks

Draw = Callable[[np.random.Generator, int], Iterable[Any]]


def dataset(
    draw: Draw, seed: int = 0, start: int = 0, free_axes: int = 1
) -> tf.data.Dataset:
    """Random batches without an end, drawn in rounds while the model computes.

    A round depends on `seed` and its number alone.

    Args:
        draw: `draw(generator, number)` returns the batches of a round, drawn
            with a generator that is the round's own.
        seed: Non-negative int.
        start: Number of the first round.
        free_axes: How many axes may differ in size between batches: that of
            the batch, and that of time.
    """
    seed = checks.check_not_negative_int("seed", seed)
    start = checks.check_not_negative_int("start", start)

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


def check_integers(
    name: str, values: Any, rank: int, least: int, most: int
) -> np.ndarray:
    """Refuses anything but an array of integers of a rank and a range."""
    array = np.asarray(values)
    fits = array.ndim == rank and np.issubdtype(array.dtype, np.integer)
    given = f"of shape {array.shape} and type {array.dtype}"
    if fits and array.size:
        given = f"from {array.min()} to {array.max()}"
        fits = least <= array.min() and array.max() <= most
    if not fits:
        raise ValueError(
            f"Argument `{name}` must be an array of integers from {least} to "
            f"{most}, of rank {rank}. Received: {name} {given}"
        )
    return array
