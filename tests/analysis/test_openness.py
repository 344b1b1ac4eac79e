"""How open gates are: numbers by hand."""

import numpy as np
import pytest

from keras_seqmech import analysis

GATES = np.array([[1, 0, 1], [1, 1, 0], [0, 0.5, 0]])
MASK = np.array([[1, 1, 1], [1, 1, 0], [1, 0, 0]], bool)


def test_by_position():
    found = analysis.openness_by_position(GATES)
    np.testing.assert_allclose(found, [2 / 3, 1.5 / 3, 1 / 3])
    spoiled = np.where(MASK, GATES, np.nan)
    for mask in (MASK, MASK.astype("int32"), MASK.tolist()):
        found = analysis.openness_by_position(spoiled, mask)
        np.testing.assert_allclose(found, [2 / 3, 1 / 2, 1])
    found = analysis.openness_by_position(GATES[1:], MASK[1:])
    np.testing.assert_allclose(found, [1 / 2, 1, np.nan])


@pytest.mark.parametrize(
    "arguments, message",
    [
        (dict(gates=[1, 0]), "`gates`.*\\(batch, time\\).*\\(2,\\)"),
        (dict(gates=[[1.5]]), "`gates`.*0 to 1.*1.5"),
        (dict(gates=[[np.nan]]), "`gates`.*nan"),
        (dict(gates=[[1, 0]], mask=[[True]]), "`mask`.*\\(1, 1\\)"),
        (dict(gates=[[1, 0]], mask=[[0.5, 1]]), "`mask`.*0.5"),
        (dict(gates=[[1, 0]], mask=[[True], [True, False]]), "`mask`.*True"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        analysis.openness_by_position(**arguments)
