"""What the benchmarks share."""

import numpy as np
import pytest

from benchmarks import packed_loop
from benchmarks import receptive_field
from benchmarks import timing
from examples.common import tables


@pytest.mark.parametrize(
    "rows, share", [("full", 1.0), ("uniform", 0.5), ("geometric", 0.2)]
)
def test_masks_have_the_share_of_steps_that_is_said(rows, share):
    lengths = timing.LENGTHS[rows](np.random.default_rng(0), 5000, 100)
    assert lengths.shape == (5000,) and lengths.min() >= 1
    assert lengths.mean() / 100 == pytest.approx(share, abs=0.02)
    # One program cuts what is too long, the other has as many steps.
    cut = receptive_field.row_mask(rows, 64, 100)
    assert cut.shape == (64, 100) and cut[:, 0].all()
    whole = packed_loop.row_mask(rows)
    assert whole.shape[1] == whole.sum(axis=1).max()


def test_rows_are_printed_as_they_come(capsys):
    printed = []

    def rows():
        for row in (["a", 1], ["b", 2]):
            printed.append(capsys.readouterr().out)
            yield row

    header = ["name", "ms"]
    timing.print_table(header, rows())
    printed.append(capsys.readouterr().out)
    assert printed[0] == tables.table([header]) + "\n"
    assert printed[1:] == ["| a | 1 |\n", "| b | 2 |\n"]
