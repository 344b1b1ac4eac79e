"""Questions about logs: the examples, and rows of tiny models."""

import numpy as np
import pytest

from examples.focused import lookup

SMALL = [
    *("--batch-size", "8", "--units", "6", "--test-size", "40"),
    *("--length", "12", "--pairs", "4"),
]


@pytest.mark.parametrize("task", lookup.NAMES)
def test_answers(task):
    """Numbers that follow the name, added up; in "lookup" there is one."""
    args = lookup.PROGRAM.parse([*SMALL, "--task", task])
    asked, answers = lookup.draw(np.random.default_rng(0), 200, args)
    first, found = lookup.NUMBERS, []
    for log, name, answer in zip(asked["log"], asked["name"], answers):
        places = np.flatnonzero(log == first + name)
        numbers = log[places + 1]
        assert (numbers < first).all() and (log < first).sum() == 4
        assert answer == numbers.sum() % first
        found.append(len(places))
    assert set(found) == ({1} if task == "lookup" else {1, 2, 3, 4})
