"""What tests of streams of batches share."""

import keras
import numpy as np


def arrays(batches):
    return [
        keras.tree.map_structure(lambda x: x.numpy(), batch)
        for batch in batches
    ]


def same(batches, others):
    flat, other = keras.tree.flatten(batches), keras.tree.flatten(others)
    return len(flat) == len(other) and all(map(np.array_equal, flat, other))
