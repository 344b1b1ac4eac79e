"""Seeded streams of batches as `tf.data`."""

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
    draw: Draw, signature: Any, seed: int = 0, start: int = 0
) -> tf.data.Dataset:
    """Random batches without an end, drawn in rounds while the model computes.

    A round depends on `seed` and its number alone.

    Args:
        draw: `draw(generator, number)` returns the batches of a round, drawn
            with a generator that is the round's own.
        signature: `tf.TensorSpec`s of a batch.
        seed: Non-negative int.
        start: Number of the first round.

    Raises:
        ValueError: If `seed` or `start` is not a non-negative int.
    """
    seed = checks.check_not_negative_int("seed", seed)
    start = checks.check_not_negative_int("start", start)

    def generate() -> Iterator[Any]:
        for number in itertools.count(start):
            yield from draw(np.random.default_rng([seed, number]), number)

    batches = tf.data.Dataset.from_generator(
        generate, output_signature=signature
    )
    endless = tf.data.experimental.assert_cardinality(
        tf.data.INFINITE_CARDINALITY
    )
    return batches.apply(endless).prefetch(tf.data.AUTOTUNE)
