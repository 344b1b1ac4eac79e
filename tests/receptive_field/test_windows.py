"""Windows against indexing step by step.

What a `ReceptiveFieldRNN` reads, padded or packed, shows in its answers.
"""

import numpy as np
import pytest

from keras_seqmech import ReceptiveFieldWindows

BATCH, TIME, FEATURES = 2, 4, 3
MASK = np.array([[True, True, False, True], [False, True, True, False]])


@pytest.mark.parametrize("max_size", [1, 3, 6])
@pytest.mark.parametrize("mask", [None, MASK])
def test_windows_hold_the_steps_that_exist_and_are_real(mask, max_size):
    x = np.random.default_rng(0).normal(size=(BATCH, TIME, FEATURES))
    real = np.ones((BATCH, TIME), bool) if mask is None else mask
    x = np.where(real[..., None], x, np.nan)
    layer = ReceptiveFieldWindows(max_size, dtype="float64")
    expected = np.zeros((BATCH, TIME, max_size, FEATURES + 1))
    for b, t in np.argwhere(real):
        for i in range(min(max_size, t + 1)):
            expected[b, t - i, i] = [*x[b, t], 1]
    np.testing.assert_array_equal(layer(x, mask=mask), expected)
