"""Delays of a stream, against a clock that ticks."""

import numpy as np
import pytest

from keras_seqmech.analysis import emission_delay


def simulated(sizes, real):
    """Lets steps arrive one by one, and leave in order."""
    length, delays, waiting = len(sizes), np.zeros(len(sizes), int), []
    left = int(real.sum())
    for now in range(length):
        if not real[now]:
            continue
        left -= 1
        waiting.append((now, sizes[now], [now]))
        for _, size, read in waiting:
            if now not in read and len(read) < size:
                read.append(now)
        while waiting and (len(waiting[0][2]) >= waiting[0][1] or not left):
            step, _, _ = waiting.pop(0)
            delays[step] = now - step
    return delays


def test_delays_are_those_of_a_simulated_stream():
    generator = np.random.default_rng(0)
    sizes = generator.integers(1, 5, (40, 13))
    for share in (1.1, 0.7):
        mask = generator.random(sizes.shape) < share
        expected = [simulated(*row) for row in zip(sizes, mask)]
        np.testing.assert_array_equal(emission_delay(sizes, mask), expected)


def test_sizes_that_are_none():
    with pytest.raises(ValueError, match="`sizes` must have the shape"):
        emission_delay([1, 2])
    with pytest.raises(ValueError, match="sizes"):
        emission_delay([[1.0, np.nan]])
    # Positions ahead, one less than sizes, and one at a masked step.
    with pytest.raises(ValueError, match="at least 1.*Received: .*-1"):
        emission_delay([[0, 2, -1, -2]], [[1, 1, 1, 0]])
    with pytest.raises(ValueError, match="`sizes` must be an array of numbers"):
        emission_delay([[1, 2], [1]])
