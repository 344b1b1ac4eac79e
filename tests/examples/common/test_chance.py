"""Classifiers that learned nothing."""

import numpy as np
import pytest

from examples.common import chance


@pytest.mark.parametrize(
    ("accuracy", "is_said"), [(0.4, True), (0.79, True), (0.8, False)]
)
def test_chance_is_said(accuracy, is_said, capsys):
    """Of 400 labels a standard deviation at 75 % is 2.2 %."""
    labels = np.repeat([0, 1], [100, 300])
    chance.say_if_at_chance("lstm", accuracy, labels)
    output = capsys.readouterr().out
    assert output.startswith("lstm") == is_said
    assert ("75.0 %" in output) == is_said
