"""Times of models."""

import keras
import numpy as np
import pytest

from examples.common import interleaved


class Watch(keras.layers.Layer):
    """Notes in which phase it is called."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def call(self, x, training=None):
        self.seen.append(training)
        return x


@pytest.mark.parametrize("xla", [False, True])
def test_inference_is_timed(xla):
    watches = Watch(), Watch()
    models = [keras.Sequential([keras.Input((3,)), x]) for x in watches]
    for watch in watches:
        watch.seen.clear()
    times = interleaved.inference_ms(models, np.ones((2, 3)), 2, xla)
    assert len(times) == 2 and min(times) > 0
    # Once each, as the graph is made.
    assert [watch.seen for watch in watches] == [[False], [False]]
