"""Reports of fields: information against closed forms, what is left out."""

import math

import numpy as np
import pytest

from examples.receptive_field import field_report


@pytest.mark.parametrize("flip", [0.05, 0.5])
def test_a_binary_symmetric_channel(flip):
    """A fair token, and a size that differs from it at a share `flip`."""
    rng = np.random.default_rng(1)
    tokens = rng.integers(0, 2, 40_000)
    sizes = 1 + 3 * (tokens ^ (rng.random(tokens.shape) < flip))
    entropy = -flip * math.log(flip) - (1 - flip) * math.log(1 - flip)
    found = field_report.information(sizes, tokens)
    # Standard deviation of log p(d|x) / p(d) over the root of 40,000 steps;
    # five of them, and the second order of the estimate where that is 0.
    deviation = math.sqrt(flip * (1 - flip)) * abs(math.log(1 / flip - 1))
    near = 5 * deviation / math.sqrt(tokens.size) + 10 / tokens.size
    assert abs(found - (math.log(2) - entropy)) < near


def test_steps_that_cannot_choose_every_size_are_left_out():
    """The size says which of two tokens it is, but at the end of a text."""
    ids = np.array([[1, 2, 1, 2, 1, 0], [2, 1, 2, 1, 2, 1]] * 5)
    sure = np.array([[0.95, 0.05, 0], [0.04, 0.05, 0.91]])[ids - 1]
    cut = np.array([[3, 4], [4, 5]] * 5)
    sure[np.arange(10)[:, None], cut] = [1 / 2, 1 / 2, 0]
    sure[9, 0] = [0.2, 0.6, 0.2]
    size = np.where(ids, 2.0, 0)
    found = field_report.report(size, sure, ids)
    assert found.mean_size == 2 and found.certain == 34 / 35
    # Of 20 and 15 tokens, one of the 15 has a size of its own.
    counts = (20, 14, 1), (20, 15), (20, 14, 1)
    entropies = [
        math.log(35) - sum(n * math.log(n) for n in row) / 35 for row in counts
    ]
    expected = entropies[0] + entropies[1] - entropies[2] + 1 / 70
    assert found.information == pytest.approx(expected)
    none = field_report.report(size[:, -2:], sure[:, -2:], ids[:, -2:])
    assert none.information is None and none.certain is None
