"""What the benchmarks share."""

import pytest

from benchmarks import timing
from examples.common import tables


@pytest.mark.parametrize(
    "rows, share", [("full", 1.0), ("uniform", 0.5), ("geometric", 0.2)]
)
def test_masks_have_the_share_of_steps_that_is_said(rows, share):
    mask = timing.row_mask(rows, 5000, 100)
    assert mask.shape == (5000, 100) and mask[:, 0].all()
    assert not (mask[:, 1:] > mask[:, :-1]).any()
    assert mask.mean() == pytest.approx(share, abs=0.02)


def test_rows_are_printed_as_they_come(capsys):
    printed = []

    def rows():
        for row in ({"name": "a", "ms": 1}, {"name": "b", "ms": 2}):
            printed.append(capsys.readouterr().out)
            yield row

    timing.print_table(rows())
    printed.append(capsys.readouterr().out)
    assert printed[0] == ""
    assert printed[1] == tables.table([["name", "ms"], ["a", 1]]) + "\n"
    assert printed[2] == "| b | 2 |\n"
