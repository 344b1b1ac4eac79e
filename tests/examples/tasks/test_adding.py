"""The adding problem: its answers, its markers."""

import numpy as np
import pytest

from examples.tasks import adding


@pytest.mark.parametrize("length", [2, 9, 50])
def test_two_markers_and_the_sum_of_what_they_mark(length):
    sequences, sums = adding.examples(500, length, seed=1)
    numbers, markers = sequences[..., 0], sequences[..., 1]
    assert (markers.sum(axis=1) == 2).all()
    first = np.argmax(markers, axis=1)
    second = length - 1 - np.argmax(markers[:, ::-1], axis=1)
    assert first.max() < max(1, length // 10)
    assert second.min() >= length // 2
    expected = numbers[np.arange(500), first] + numbers[np.arange(500), second]
    # Numbers below 1 are rounded by less than 1e-7, their sum once more.
    np.testing.assert_allclose(sums[:, 0], expected, rtol=0, atol=3e-7)
