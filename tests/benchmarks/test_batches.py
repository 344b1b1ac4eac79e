"""Batches to time layers with."""

import numpy as np
import pytest

from benchmarks import batches
from benchmarks import packed_loop
from benchmarks import receptive_field


def test_inputs_are_the_same_at_every_call():
    first, second = (batches.random_inputs(2, 3, 4) for _ in range(2))
    assert first.shape == (2, 3, 4)
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(
    "rows, share", [("full", 1.0), ("uniform", 0.5), ("geometric", 0.2)]
)
def test_masks_have_the_share_of_steps_that_is_said(rows, share):
    lengths = batches.LENGTHS[rows](np.random.default_rng(0), 5000, 100)
    assert lengths.shape == (5000,) and lengths.min() >= 1
    assert lengths.mean() / 100 == pytest.approx(share, abs=0.02)
    # One program cuts what is too long, the other has as many steps.
    cut = receptive_field.row_mask(rows, 64, 100)
    assert cut.shape == (64, 100) and cut[:, 0].all()
    whole = packed_loop.row_mask(rows)
    assert whole.shape[1] == whole.sum(axis=1).max()


def test_rows_without_a_mask():
    assert receptive_field.row_mask("unmasked", 64, 100) is None
