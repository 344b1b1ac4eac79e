"""What tests of streams of batches share."""

import keras


def arrays(batches):
    return [
        keras.tree.map_structure(lambda x: x.numpy(), batch)
        for batch in batches
    ]
