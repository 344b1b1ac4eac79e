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
    draw: Draw,
    signature: Any,
    rounds: int | None,
    seed: int = 0,
    start: int = 0,
    batches_per_round: int = 1,
) -> tf.data.Dataset:
    """Random batches, drawn in rounds while the model computes.

    A round depends on `seed` and its number alone. A pass over the data set
    continues with the rounds after those of the pass before.

    Args:
        draw: `draw(generator, number)` returns the batches of a round, drawn
            with a generator that is the round's own.
        signature: `tf.TensorSpec`s of a batch.
        rounds: Number of rounds of a pass; None: endless.
        seed: Non-negative int.
        start: Number of the first round.
        batches_per_round: Number of batches that `draw` returns.

    Raises:
        ValueError: If `seed` or `start` is not a non-negative int.
    """
    seed = checks.check_not_negative_int("seed", seed)
    start = checks.check_not_negative_int("start", start)
    passes = itertools.count()

    def generate() -> Iterator[Any]:
        first = start + next(passes) * (rounds or 0)
        for number in itertools.islice(itertools.count(first), rounds):
            yield from draw(np.random.default_rng([seed, number]), number)

    batches = tf.data.Dataset.from_generator(
        generate, output_signature=signature
    )
    count = tf.data.INFINITE_CARDINALITY
    if rounds is not None:
        count = rounds * batches_per_round
    batches = batches.apply(tf.data.experimental.assert_cardinality(count))
    return batches.prefetch(tf.data.AUTOTUNE)
