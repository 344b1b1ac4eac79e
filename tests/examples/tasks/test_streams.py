"""Streams of batches: endless, the same for a seed, started anywhere."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from examples.tasks import memory
from examples.tasks import picking
from examples.tasks import pixel_question
from tests.examples.tasks.streams import arrays


def pixels(**options):
    """An epoch is one batch."""
    x = np.arange(24.0).reshape(6, 2, 2)
    return pixel_question.dataset(x, np.arange(6), 6, **options)


def tokens(**options):
    return picking.dataset(lambda number: 20, 8, max_k=9, **options)


def symbols(**options):
    return memory.dataset(9, 8, **options)


def content(batches):
    """The bytes of each batch."""
    return [
        b"".join(x.tobytes() for x in keras.tree.flatten(batch))
        for batch in arrays(batches)
    ]


@pytest.mark.parametrize("make", [tokens, symbols, pixels])
def test_a_batch_depends_on_the_seed_and_its_number(make):
    data = make(seed=7)
    assert data.cardinality() == tf.data.INFINITE_CARDINALITY
    first = content(data.take(5))
    assert len({*first}) == 5
    assert content(make(seed=7, start=3).take(2)) == first[3:]
    assert not {*content(make(seed=8).take(5))} & {*first}
