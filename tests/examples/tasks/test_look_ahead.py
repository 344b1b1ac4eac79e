"""The look-ahead task: answers read off the tokens."""

import numpy as np
import pytest

from examples.tasks import look_ahead


@pytest.mark.parametrize("told", [True, False])
def test_the_value_follows_the_key_after_its_gap(told):
    found = look_ahead.examples(200, length=15, told=told, seed=1)
    keys = np.argwhere(found.keys)
    assert len(keys) > 300
    first_key = look_ahead.vocabulary_size() - 3
    for row, t in keys:
        gap = found.gaps[row, t]
        assert found.tokens[row, t] == first_key + (gap if told else 0)
        between = found.tokens[row, t + 1 : t + 1 + gap]
        assert ((between > 4) & (between < first_key)).all()
        assert found.tokens[row, t + 1 + gap] == 1 + found.targets[row, t]
    assert (found.gaps[~found.keys] == -1).all()
    assert not found.keys[:, 0].any()
    assert (found.tokens[~found.keys] < first_key).all()
    assert set(found.gaps[found.keys]) == {0, 1, 2}
    assert found.tokens.min() >= 1
