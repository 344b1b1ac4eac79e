"""Seeded streams of batches as `tf.data`."""

import itertools
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from keras_seqmech.layers import validation


def check_seed(name: str, seed: Any) -> int:
    """Refuses anything but an integer of at least 0."""
    validation.check_not_negative(name, seed)
    if int(seed) != seed:
        raise ValueError(
            f"Argument `{name}` must be an integer. Received: {name}={seed!r}"
        )
    return int(seed)


def dataset(
    generate: Callable[[int], Iterator[Any]],
    signature: Any,
    cardinality: int | None,
) -> tf.data.Dataset:
    """Batches of a Python generator, made while the model computes.

    Args:
        generate: `generate(pass_number)` yields the batches of one pass over
            the data set. Passes are counted from 0, so each may differ.
        signature: `tf.TensorSpec`s of a batch.
        cardinality: Number of batches of a pass; None: endless.
    """
    passes = itertools.count()
    endless = tf.data.INFINITE_CARDINALITY
    batches = tf.data.Dataset.from_generator(
        lambda: generate(next(passes)), output_signature=signature
    )
    count = endless if cardinality is None else cardinality
    batches = batches.apply(tf.data.experimental.assert_cardinality(count))
    return batches.prefetch(tf.data.AUTOTUNE)
