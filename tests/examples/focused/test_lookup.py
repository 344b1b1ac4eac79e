"""Questions about logs: the examples, and rows of tiny models."""

import numpy as np
import pytest

from examples.focused import lookup
from tests.examples.files import read

SMALL = [
    *("--batch-size", "8", "--units", "6", "--test-size", "40"),
    *("--length", "12", "--pairs", "4"),
]


@pytest.mark.parametrize("task", lookup.NAMES)
def test_answers(task):
    """Numbers that follow the name, added up; in "lookup" there is one."""
    args = lookup.parse([*SMALL, "--task", task])
    asked, answers = lookup.draw(np.random.default_rng(0), 200, args)
    first, found = lookup.NUMBERS, []
    for log, name, answer in zip(asked["log"], asked["name"], answers):
        places = np.flatnonzero(log == first + name)
        numbers = log[places + 1]
        assert (numbers < first).all() and (log < first).sum() == 4
        assert answer == numbers.sum() % first
        found.append(len(places))
    assert set(found) == ({1} if task == "lookup" else {1, 2, 3, 4})


@pytest.mark.long
@pytest.mark.slow
# A few steps decide nothing.
@pytest.mark.filterwarnings("ignore:The decisions of layer 'encoder'")
def test_rows(tmp_path):
    output = tmp_path / "l.csv"
    options = [*SMALL, "--steps", "10", "--evaluate-every", "5"]
    options += ["--models", "lstm2", "fhe", "--output", str(output)]
    content = lookup.main(options)
    lstms, gated = read(output)
    assert (lstms["model"], gated["model"]) == ("lstm2", "fhe")
    for row in (lstms, gated):
        assert row["task"] == "lookup" and "pairs=4" in row["settings"]
        assert f"{float(row['accuracy']):.4g} |" in content
        for name in ("lstm1", "lstm2"):
            assert float(row[f"over_{name}"]) > 0
            assert float(row[f"xla_over_{name}"]) > 0
    assert 0 <= float(gated["openness"]) <= 100
