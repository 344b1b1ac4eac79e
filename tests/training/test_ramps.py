"""Ramps against values computed by hand."""

import numpy as np
import pytest

from keras_seqmech.training import Ramp


@pytest.mark.parametrize(
    "ramp, progress, expected",
    [
        ((1.0, 0.0, 0.0, 0.8, 3), 0.0, 1.0),
        ((1.0, 0.0, 0.0, 0.8, 3), 0.2, 27 / 64),
        ((1.0, 0.0, 0.0, 0.8, 3), 0.4, 1 / 8),
        ((1.0, 0.5, 0.0, 0.8, 2), 0.4, 0.5 + 0.5 / 4),
        ((1.0, 0.0, 0.0, 0.8, 3), 0.8, 0.0),
        ((0.0, 0.2, 0.25, 0.75), 0.25, 0.0),
        ((0.0, 0.2, 0.25, 0.75), 0.375, 0.05),
        ((0.0, 0.2, 0.25, 0.75), 1.0, 0.2),
    ],
)
def test_ramps_by_hand(ramp, progress, expected):
    value = Ramp(*ramp).value(progress)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
