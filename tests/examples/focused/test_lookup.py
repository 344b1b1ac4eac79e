"""Questions about logs: the examples, and rows of tiny models."""

import functools

import numpy as np
import pytest

from examples.common import interleaved
from examples.focused import experiments
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


def test_times_are_shares_of_those_of_lstms(monkeypatch):
    args = lookup.PROGRAM.parse(SMALL)
    build = functools.partial(lookup.build, args=args)
    asked = lookup.draw(np.random.default_rng(0), 5, args)
    model = build("fhe", "relaxed")
    expected = [x.count_params() for x in (model, build("lstm1", ""))]

    def known(models, batch, repeats, xla):
        assert [x.count_params() for x in models][:2] == expected
        assert batch["log"].shape == (8, 12)
        return [3.0, 4.0, 6.0] if xla else [2.0, 4.0, 8.0]

    monkeypatch.setattr(interleaved, "inference_ms", known)
    task = experiments.Task(build, None, asked)
    assert experiments.measure_times(model, args, task) == {
        "inference_ms": "2.00",
        **{"over_lstm1": "0.500", "over_lstm2": "0.250"},
        **{"xla_over_lstm1": "0.750", "xla_over_lstm2": "0.500"},
    }
