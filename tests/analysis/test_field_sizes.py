"""Field sizes and label entropies by word, against loops and by hand."""

import math
from collections import defaultdict

import keras
import numpy as np
import pytest

from keras_seqmech import ReceptiveFieldRNN
from keras_seqmech import analysis


@pytest.fixture
def random_case():
    """Ids, sizes, labels and a mask with gaps and an empty row."""
    random = np.random.default_rng(3)
    ids = random.integers(0, 7, (12, 9))
    sizes = random.uniform(1, 4, ids.shape)
    labels = random.integers(0, 3, 12)
    mask = random.random(ids.shape) < 0.7
    mask[4] = False
    return ids, sizes, labels, mask


def sizes_by_loop(ids, sizes, mask):
    found = defaultdict(list)
    for b in range(len(ids)):
        for t in range(len(ids[b])):
            if mask[b][t]:
                found[int(ids[b][t])].append(sizes[b][t])
    return {w: (sum(v) / len(v), len(v)) for w, v in found.items()}


def entropies_by_loop(ids, labels, mask):
    found = {}
    for w in {int(w) for row in ids for w in row}:
        own = [
            labels[b]
            for b in range(len(ids))
            if any(m and v == w for v, m in zip(ids[b], mask[b]))
        ]
        if own:
            shares = [own.count(y) / len(own) for y in set(own)]
            found[w] = -sum(p * math.log(p) for p in shares), len(own)
    return found


def test_sizes_agree_with_a_loop(random_case):
    ids, sizes, _, mask = random_case
    expected = sizes_by_loop(ids, sizes, mask)
    result = analysis.field_size_by_token(ids, sizes, mask)
    assert result.keys() == expected.keys()
    for word, (mean, count) in expected.items():
        assert result[word].count == count
        assert result[word].mean == pytest.approx(mean, rel=1e-12)


def test_entropies_agree_with_a_loop(random_case):
    ids, _, labels, mask = random_case
    expected = entropies_by_loop(ids, labels, mask)
    result = analysis.label_entropy_by_token(ids, labels, mask=mask)
    assert result.keys() == expected.keys()
    for word, (entropy, _) in expected.items():
        assert result[word] == pytest.approx(entropy, abs=1e-12)


def test_rare_words_are_left_out(random_case):
    ids, sizes, labels, mask = random_case
    counts = {w: c for w, (_, c) in sizes_by_loop(ids, sizes, mask).items()}
    floor = sorted(counts.values())[3]
    result = analysis.field_size_by_token(ids, sizes, mask, min_count=floor)
    assert result.keys() == {w for w, c in counts.items() if c >= floor}
    assert 0 < len(result) < len(counts)

    texts = {w: c for w, (_, c) in entropies_by_loop(ids, labels, mask).items()}
    floor = sorted(texts.values())[3]
    result = analysis.label_entropy_by_token(
        ids, labels, mask=mask, min_count=floor
    )
    assert result.keys() == {w for w, c in texts.items() if c >= floor}
    assert 0 < len(result) < len(texts)


def test_lists_of_words_give_what_ids_give(random_case):
    ids, sizes, labels, _ = random_case
    lengths = [9, 3, 0, 5, 1, 9, 2, 7, 4, 6, 8, 9]
    mask = np.arange(9) < np.array(lengths)[:, None]
    texts = [
        [f"w{w}" for w in row[:length]] for row, length in zip(ids, lengths)
    ]
    by_id = analysis.field_size_by_token(ids, sizes, mask)
    by_word = analysis.field_size_by_token(texts, sizes)
    assert by_word == {f"w{w}": value for w, value in by_id.items()}
    by_id = analysis.label_entropy_by_token(ids, labels, mask=mask)
    by_word = analysis.label_entropy_by_token(texts, labels)
    assert by_word == {f"w{w}": value for w, value in by_id.items()}


def test_by_hand():
    texts = [["a", "a", "b"], ["a", "c"], ["b"], ["a"]]
    sizes = [[4, 2, 1], [3, 1], [2], [1]]
    result = analysis.field_size_by_token(texts, sizes)
    assert result == {"a": (2.5, 4), "b": (1.5, 2), "c": (1.0, 1)}
    # a: labels 0, 1, 1 (its text of two counts once); b: 0 and 2; c: 1.
    entropies = analysis.label_entropy_by_token(texts, [0, 1, 2, 1])
    third = -math.log(1 / 3) / 3 - 2 * math.log(2 / 3) / 3
    assert entropies["a"] == pytest.approx(third)
    assert entropies["b"] == pytest.approx(math.log(2))
    assert entropies["c"] == 0.0
    assert math.copysign(1, entropies["c"]) == 1


def test_expected_size_by_hand():
    d = [0.1, 0.2, 0.3, 0.4]
    result = analysis.expected_field_size(
        np.tile(d, (1, 6, 1)), [[True, True, False, True, True, False]]
    )
    # From step 0, positions 0, 1, 3 can be read: sizes 1, 2, 2, 3.
    first = 0.1 + 0.2 * 2 + 0.3 * 2 + 0.4 * 3
    # From step 1, positions 1, 3, 4: sizes 1, 1, 2, 3.
    second = 0.1 + 0.2 + 0.3 * 2 + 0.4 * 3
    # From step 3, positions 3, 4; from step 4 that one alone.
    fourth = 0.1 + 0.9 * 2
    expected = [[first, second, 0, fourth, 1, 0]]
    np.testing.assert_allclose(result, expected, rtol=1e-12)


def test_expected_size_is_the_layers_size_where_it_is_certain():
    layer = ReceptiveFieldRNN(
        keras.layers.GRUCell(4),
        max_size=3,
        return_field=True,
        kernel_initializer=keras.initializers.RandomNormal(stddev=200, seed=1),
    )
    random = np.random.default_rng(1)
    mask = random.random((16, 10)) < 0.8
    inputs = random.normal(size=(16, 10, 5)).astype("float32")
    _, field = layer(inputs, mask=mask)
    probabilities = field["probabilities"].numpy()
    size = analysis.expected_field_size(probabilities, mask)
    certain = mask & (probabilities.max(-1) > 1 - 1e-6)
    assert certain.mean() > 0.5
    np.testing.assert_allclose(
        size[certain], field["size"].numpy()[certain], atol=1e-5
    )
    assert len(set(field["size"].numpy()[certain].tolist())) == 3


def test_nothing_at_masked_steps_counts():
    d = np.full((1, 2, 2), 0.5)
    d[0, 1] = np.nan
    result = analysis.expected_field_size(d, [[True, False]])
    np.testing.assert_array_equal(result, [[1.0, 0.0]])


def test_labels_of_any_size():
    texts = [["a"], ["a"], ["a", "b"]]
    for labels in ([10**12, 0, 10**12], np.array([2**63, 1, 2**63], "uint64")):
        entropies = analysis.label_entropy_by_token(texts, labels)
        third = -math.log(1 / 3) / 3 - 2 * math.log(2 / 3) / 3
        assert entropies == {"a": pytest.approx(third), "b": 0.0}


IDS = np.zeros((2, 3), dtype=int)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: analysis.field_size_by_token(IDS, np.zeros((2, 4))), "sizes"),
        (
            lambda: analysis.field_size_by_token(IDS, IDS, np.ones((2, 4))),
            "mask",
        ),
        (lambda: analysis.field_size_by_token(IDS[0], IDS[0]), "tokens"),
        (lambda: analysis.field_size_by_token(["ab"], [[1, 1]]), "tokens"),
        (lambda: analysis.field_size_by_token([["a"]], [[]]), "sizes"),
        (lambda: analysis.field_size_by_token([["a"]], []), "sizes"),
        (
            lambda: analysis.field_size_by_token([["a"]], [[1]], [[True]]),
            "mask",
        ),
        (
            lambda: analysis.field_size_by_token(IDS, IDS, min_count=0),
            "min_count",
        ),
        (lambda: analysis.field_size_by_token(IDS, IDS + np.nan), "sizes"),
        (lambda: analysis.field_size_by_token([["a"]], [[np.inf]]), "sizes"),
        (lambda: analysis.label_entropy_by_token(IDS, [0]), "labels"),
        (lambda: analysis.label_entropy_by_token(IDS, [0.5, 1]), "labels"),
        (lambda: analysis.label_entropy_by_token(IDS, [0, -1]), "labels"),
        (lambda: analysis.label_entropy_by_token(IDS, [0, 2], 2), "labels"),
        (
            lambda: analysis.label_entropy_by_token(IDS, [0, 1], 0),
            "num_classes",
        ),
        (lambda: analysis.expected_field_size(IDS), "probabilities"),
        (
            lambda: analysis.expected_field_size(
                np.ones((2, 3, 1)), np.ones((3, 2))
            ),
            "mask",
        ),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=f"`{message}`.*Received"):
        call()


def test_nothing_to_count_gives_nothing():
    none = np.zeros(IDS.shape, dtype=bool)
    assert analysis.field_size_by_token(IDS, IDS, none) == {}
    assert analysis.label_entropy_by_token(IDS, [0, 1], mask=none) == {}
    assert analysis.field_size_by_token([], []) == {}
    assert analysis.label_entropy_by_token([[]], [0]) == {}
    assert analysis.label_entropy_by_token([], []) == {}
    nothing = analysis.field_size_by_token(IDS, IDS * np.nan, none)
    assert nothing == {}
