"""Texts of the pooling studies, and the noise around them."""

import numpy as np
import pytest

from examples.pooling import noisy_texts
from tests.examples.pooling.small_study import BAD
from tests.examples.pooling.small_study import GOOD
from tests.examples.pooling.small_study import OTHER
from tests.examples.pooling.small_study import write_imdb

PLACES = ("left", "mid", "right")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    write_imdb(root)
    return root


@pytest.fixture(scope="module")
def corpus(folder):
    return noisy_texts.load(folder)


def strings(data, ids):
    names = ["", "?", *data.words]
    return [names[i] for i in ids]


def is_noise(word):
    return word.startswith(("noise", "word"))


def test_texts_are_long_enough_and_subsets_always_the_same(folder, corpus):
    assert [len(part.ids) for part in corpus[1:4]] == [60, 20, 24]
    kept = [noisy_texts.load(folder, 8, 5) for _ in range(2)]
    for part in ("validation", "test"):
        first, second = (getattr(corpus, part) for corpus in kept)
        for a, b in zip(first.ids, second.ids, strict=True):
            np.testing.assert_array_equal(a, b)
    assert len(kept[0].validation.ids) == 8 and len(kept[0].test.ids) == 5
    # Validation texts that are left over may be trained on.
    assert len(kept[0].train.ids) == 60 + 12
    assert min(len(text) for text in kept[0].train.ids) == 101


@pytest.mark.parametrize("setting", PLACES)
def test_noise_has_its_share_and_the_text_its_place(corpus, setting):
    data = noisy_texts.prepare(corpus, setting, 60, 0, 20)
    assert len(data.train.ids) == 60
    for ids in data.train.ids:
        words = strings(data, ids)
        noise = [is_noise(word) for word in words]
        # 6 words stay, and 12 are 66 % of the whole.
        assert len(words) == 18 and sum(noise) == 12
        start = {"left": 0, "mid": 6, "right": 12}[setting]
        assert not any(noise[start : start + 6])
        assert set(words[start : start + 6]) <= {*GOOD, *BAD, *OTHER}
    for ids in (*data.validation.ids, *data.test.ids):
        assert len(ids) == 18


def test_parts_share_no_noise(corpus):
    seen = {
        part: {tuple(sentence) for sentence in corpus.noise[part]}
        for part in noisy_texts.PARTS
    }
    sizes = [len(corpus.noise[part]) for part in noisy_texts.PARTS]
    assert sizes == [30, 10, 10]
    assert len(set().union(*seen.values())) == 50
    # What stands around test texts was never seen in training.
    data = noisy_texts.prepare(corpus, "mid", 60, 0, 20)
    noise = [word for word in data.words if is_noise(word)]
    trained = {corpus.words[i] for s in corpus.noise["train"] for i in s}
    assert noise and set(noise) <= trained
    for ids in data.test.ids:
        words = strings(data, ids)
        kept = sum(word != "?" for word in words)
        assert kept == 6 and len(words) == 18


def test_the_seed_draws_nested_training_texts(corpus):
    def prepare(size, seed):
        data = noisy_texts.prepare(corpus, "standard", size, seed)
        return data, [" ".join(strings(data, ids)) for ids in data.train.ids]

    large, texts = prepare(30, seed=1)
    small, fewer = prepare(10, seed=1)
    assert texts[:10] == fewer
    assert prepare(30, seed=2)[1] != texts
    np.testing.assert_array_equal(small.train.labels, large.train.labels[:10])
    for words, ids in ((small.words, small.train.ids),):
        counts = np.bincount(np.concatenate(ids))
        assert len(counts) == len(words) + 2
        assert (counts[2:] > 0).all() and (np.diff(counts[2:]) <= 0).all()
        assert not counts[:2].any()


def test_batches_hold_each_text_once(corpus):
    texts = noisy_texts.Texts(
        [np.full(n, n, dtype="int32") for n in range(1, 101)],
        np.arange(1, 101, dtype="int32"),
    )

    def epoch(dataset):
        return [(ids, labels) for ids, labels in dataset.as_numpy_iterator()]

    shuffled = noisy_texts.batches(texts, 3, np.random.default_rng(0))
    assert shuffled.cardinality() == 34
    first, second = epoch(shuffled), epoch(shuffled)
    again = epoch(noisy_texts.batches(texts, 3, np.random.default_rng(0)))
    orders = [
        [label for _, labels in batches for label in labels]
        for batches in (first, second, again)
    ]
    assert orders[0] == orders[2] != orders[1]
    for batches, order in zip((first, second), orders):
        assert sorted(order) == list(range(1, 101)) and len(batches) == 34
        for ids, labels in batches:
            assert ids.shape[1] % noisy_texts.STEP == 0
            assert ids.shape[1] - max(labels) < noisy_texts.STEP
            for row, length in zip(ids, labels):
                assert (row[:length] == length).all()
                assert not row[length:].any()
    by_length = epoch(noisy_texts.batches(texts, 3))
    assert [n for _, labels in by_length for n in labels] == sorted(orders[0])
