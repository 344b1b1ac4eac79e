"""What layers decided by step: against loops, closed forms, and a clock."""

import math
from collections import defaultdict

import numpy as np
import pytest

from keras_seqmech import analysis
from keras_seqmech.analysis import emission_delay

# Field sizes and label entropies by word, against loops and by hand.


def sizes_by_loop(ids, sizes, mask):
    found = defaultdict(list)
    for b, t in zip(*np.nonzero(mask)):
        found[int(ids[b, t])].append(sizes[b, t])
    return {w: (sum(v) / len(v), len(v)) for w, v in found.items()}


def entropies_by_loop(ids, labels, mask):
    """By word, the entropy and the number of texts with it."""
    found = {}
    for w in np.unique(ids[mask]).tolist():
        own = [y for y, row, m in zip(labels, ids, mask) if w in row[m]]
        shares = [own.count(y) / len(own) for y in set(own)]
        found[w] = -sum(p * math.log(p) for p in shares), len(own)
    return found


def test_against_loops():
    """A mask with gaps and an empty row; and without rare words."""
    random = np.random.default_rng(3)
    ids = random.integers(0, 7, (12, 9))
    sizes = random.uniform(1, 4, ids.shape)
    labels = random.integers(0, 3, 12)
    mask = random.random(ids.shape) < 0.7
    mask[4] = False
    spoiled = np.where(mask, sizes, np.nan)
    for measured, expected in (
        (
            lambda n: analysis.field_size_by_token(ids, spoiled, mask, n),
            sizes_by_loop(ids, sizes, mask),
        ),
        (
            lambda n: analysis.label_entropy_by_token(ids, labels, mask, n),
            entropies_by_loop(ids, labels, mask),
        ),
    ):
        floor = sorted(count for _, count in expected.values())[3]
        for least in (1, floor):
            found = measured(least)
            kept = {w: v for w, v in expected.items() if v[1] >= least}
            assert found.keys() == kept.keys()
            for word, (value, count) in kept.items():
                assert found[word] == pytest.approx(
                    (value, count) if isinstance(found[word], tuple) else value,
                    abs=1e-12,
                )
        assert 0 < len(kept) < len(expected)


def test_words_by_hand():
    texts = np.array([["a", "a", "b"], ["a", "c", ""], ["b", "", ""]])
    sizes = [[4, 2, 1], [3, 1, 0], [2, 0, 0]]
    result = analysis.field_size_by_token(texts, sizes, texts != "")
    assert result == {"a": (3.0, 3), "b": (1.5, 2), "c": (1.0, 1)}
    # Its text of two counts once.
    for labels in ([0, 10**12, 2], np.array([1, 2**63, 0], "uint64")):
        found = analysis.label_entropy_by_token(texts, labels, texts != "")
        assert found["a"] == found["b"] == pytest.approx(math.log(2))
        assert found["c"] == 0.0 and math.copysign(1, found["c"]) == 1


def test_nothing_to_count_gives_nothing():
    none = np.zeros((2, 3), dtype=bool)
    assert analysis.field_size_by_token(IDS, IDS * np.nan, none) == {}
    assert analysis.label_entropy_by_token(IDS, [0, 1], none) == {}


IDS = np.zeros((2, 3), dtype=int)
SIZES, ENTROPY = analysis.field_size_by_token, analysis.label_entropy_by_token


@pytest.mark.parametrize(
    "function, arguments, name",
    [
        (SIZES, [IDS, np.zeros((2, 4))], "sizes"),
        (SIZES, [IDS, IDS, np.ones((2, 4))], "mask"),
        (SIZES, [IDS[0], IDS[0]], "tokens"),
        (SIZES, [[["a"], ["a", "b"]], [[1], [1, 1]]], "tokens"),
        (SIZES, [IDS, IDS, None, 0], "min_count"),
        (SIZES, [IDS, IDS + np.nan], "sizes"),
        (SIZES, [IDS, [[1], [1, 2]]], "sizes"),
        (ENTROPY, [IDS, [[0], [0, 1]]], "labels"),
        (ENTROPY, [IDS, [0]], "labels"),
        (ENTROPY, [IDS, [0.5, 1]], "labels"),
        (ENTROPY, [IDS, [0, -1]], "labels"),
        (ENTROPY, [IDS, [0, 1], None, 0], "min_count"),
    ],
)
def test_bad_input_by_token(function, arguments, name):
    with pytest.raises(ValueError, match=f"`{name}`.*Received"):
        function(*arguments)


# How open gates are: numbers by hand.

GATES = np.array([[1, 0, 1], [1, 1, 0], [0, 0.5, 0]])
OPEN_MASK = np.array([[1, 1, 1], [1, 1, 0], [1, 0, 0]], bool)


def test_openness_by_position():
    found = analysis.openness_by_position(GATES)
    np.testing.assert_allclose(found, [2 / 3, 1.5 / 3, 1 / 3])
    spoiled = np.where(OPEN_MASK, GATES, np.nan)
    for mask in (OPEN_MASK, OPEN_MASK.astype("int32"), OPEN_MASK.tolist()):
        found = analysis.openness_by_position(spoiled, mask)
        np.testing.assert_allclose(found, [2 / 3, 1 / 2, 1])
    found = analysis.openness_by_position(GATES[1:], OPEN_MASK[1:])
    np.testing.assert_allclose(found, [1 / 2, 1, np.nan])


@pytest.mark.parametrize(
    "arguments, message",
    [
        (dict(gates=[1, 0]), "`gates`.*\\(batch, time\\).*\\(2,\\)"),
        (dict(gates=[[1.5]]), "`gates`.*0 to 1.*1.5"),
        (dict(gates=[[np.nan]]), "`gates`.*nan"),
        (dict(gates=[[1], [1, 0]]), "`gates`.*Received: gates="),
        (dict(gates=[[1, 0]], mask=[[True]]), "`mask`.*\\(1, 1\\)"),
        (dict(gates=[[1, 0]], mask=[[0.5, 1]]), "`mask`.*0.5"),
        (dict(gates=[[1, 0]], mask=[[True], [True, False]]), "`mask`.*True"),
    ],
)
def test_bad_input_openness(arguments, message):
    with pytest.raises(ValueError, match=message):
        analysis.openness_by_position(**arguments)


# Delays of a stream, against a clock that ticks.


def simulated(sizes, real):
    """Lets steps arrive one by one, and leave in order."""
    length, delays, waiting = len(sizes), np.zeros(len(sizes), int), []
    left = int(real.sum())
    for now in range(length):
        if not real[now]:
            continue
        left -= 1
        waiting.append((now, sizes[now], [now]))
        for _, size, read in waiting:
            if now not in read and len(read) < size:
                read.append(now)
        while waiting and (len(waiting[0][2]) >= waiting[0][1] or not left):
            step, _, _ = waiting.pop(0)
            delays[step] = now - step
    return delays


def test_delays_are_those_of_a_simulated_stream():
    generator = np.random.default_rng(0)
    sizes = generator.integers(1, 5, (40, 13))
    for share in (1.1, 0.7):
        mask = generator.random(sizes.shape) < share
        expected = [simulated(*row) for row in zip(sizes, mask)]
        np.testing.assert_array_equal(emission_delay(sizes, mask), expected)


def test_sizes_that_are_none():
    with pytest.raises(ValueError, match="`sizes` must have the shape"):
        emission_delay([1, 2])
    with pytest.raises(ValueError, match="sizes"):
        emission_delay([[1.0, np.nan]])
    with pytest.raises(ValueError, match="`sizes`.*Received: sizes="):
        emission_delay([[1], [1, 2]])
    # Positions ahead, one less than sizes, and one at a masked step.
    with pytest.raises(ValueError, match="at least 1.*Received: .*-1"):
        emission_delay([[0, 2, -1, -2]], [[1, 1, 1, 0]])
