"""Field sizes and label entropies by word, against loops and by hand."""

import math
from collections import defaultdict

import numpy as np
import pytest

from keras_seqmech import analysis


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
        (ENTROPY, [IDS, [0]], "labels"),
        (ENTROPY, [IDS, [0.5, 1]], "labels"),
        (ENTROPY, [IDS, [0, -1]], "labels"),
        (ENTROPY, [IDS, [0, 1], None, 0], "min_count"),
    ],
)
def test_bad_input(function, arguments, name):
    with pytest.raises(ValueError, match=f"`{name}`.*Received"):
        function(*arguments)
