"""How open gates are: numbers by hand."""

import numpy as np
import pytest

from keras_seqmech import analysis

GATES = np.array([[1, 0, 1], [1, 1, 0], [0, 0.5, 0]])
MASK = np.array([[1, 1, 1], [1, 1, 0], [1, 0, 0]], bool)


def test_by_position():
    found = analysis.openness_by_position(GATES)
    np.testing.assert_allclose(found, [2 / 3, 1.5 / 3, 1 / 3])
    found = analysis.openness_by_position(GATES, MASK)
    np.testing.assert_allclose(found, [2 / 3, 1 / 2, 1])
    found = analysis.openness_by_position(GATES[1:], MASK[1:])
    np.testing.assert_allclose(found, [1 / 2, 1, np.nan])


def test_what_is_masked_does_not_count():
    spoiled = np.where(MASK, GATES, np.nan)
    np.testing.assert_array_equal(
        analysis.openness_by_position(spoiled, MASK),
        analysis.openness_by_position(GATES, MASK),
    )


def test_a_mask_of_ints_is_one_of_booleans():
    np.testing.assert_array_equal(
        analysis.openness_by_position(GATES, MASK.astype("int32")),
        analysis.openness_by_position(GATES, MASK),
    )
    found = analysis.openness_by_context(GATES, [7, 3, 7], MASK.tolist())
    ints = analysis.openness_by_context(GATES, [7, 3, 7], MASK.astype(int))
    np.testing.assert_equal(ints, found)


def test_by_context():
    found = analysis.openness_by_context(GATES, [7, 3, 7], MASK)
    assert list(found) == [3, 7]
    np.testing.assert_allclose(found[3], [1, 1, np.nan])
    np.testing.assert_allclose(found[7], [1 / 2, 0, 1])
    names = analysis.openness_by_context(GATES, ["b", "a", "b"])
    assert list(names) == ["a", "b"]


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
    with pytest.raises(ValueError, match=message):
        analysis.openness_by_context(contexts=[1], **arguments)


def test_contexts_must_fit():
    with pytest.raises(ValueError, match="`contexts`.*3.*\\(2,\\)"):
        analysis.openness_by_context(GATES, [1, 2])
