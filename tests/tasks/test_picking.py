"""The picking task: exact answers, streams of batches, bad input."""

import collections

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_seqmech.tasks import picking
from tests.tasks.streams import arrays
from tests.tasks.streams import same


def digits(text):
    return np.array([[int(character) for character in text]])


@pytest.mark.parametrize(
    "sequence, k, answer",
    [
        ("805602017082838371701316304473", 10, 0),
        ("638733290890396690255937986485", 23, 3),
        ("164551937579373896813981125982", 26, 1),
        ("666333666288882888819999999990", 6, 6),
        ("666333666288882888819999999990", 10, 6),
        ("666333666288882888819999999990", 20, 8),
        ("666333666288882888819999999990", 30, 9),
    ],
)
def test_answers_of_the_source(sequence, k, answer):
    assert picking.answers(digits(sequence), [k]).tolist() == [answer]


def test_malicious_examples():
    asked, answers = picking.malicious_examples()
    assert asked["k"].tolist() == [6, 10, 20, 30]
    assert answers.tolist() == [6, 6, 8, 9]
    for row in asked["tokens"]:
        text = "".join(map(str, row))
        assert text == "666333666288882888819999999990"


def test_answers_count_digits_and_the_first_of_equals_wins():
    asked, answers = picking.examples(500, 23, seed=1)
    ties = 0
    for row, k, answer in zip(asked["tokens"], asked["k"], answers):
        counts = collections.Counter(row[:k].tolist())
        # A Counter keeps the order in which it first saw its keys.
        assert counts.most_common(1)[0][0] == answer
        ties += list(counts.values()).count(max(counts.values())) > 1
    assert ties > 100


def test_what_follows_the_first_k_does_not_count():
    asked, answers = picking.examples(200, 15, seed=2)
    after = np.arange(15) >= asked["k"][:, None]
    others = np.where(after, 9 - asked["tokens"], asked["tokens"])
    assert (others != asked["tokens"]).any()
    again = picking.answers(others, asked["k"])
    np.testing.assert_array_equal(again, answers)


def test_examples_are_uniform():
    count, length, max_k = 4000, 12, 8
    asked, answers = picking.examples(count, length, max_k, seed=3)
    assert asked["tokens"].shape == (count, length)
    assert asked["tokens"].dtype == asked["k"].dtype == np.int32
    assert answers.dtype == np.int32 and answers.shape == (count,)
    # Six standard deviations of a share.
    for values, choices in (
        (asked["tokens"], range(10)),
        (asked["k"], range(1, max_k + 1)),
    ):
        assert np.unique(values).tolist() == list(choices)
        p = 1 / len(choices)
        near = 6 * np.sqrt(p * (1 - p) / values.size)
        for choice in choices:
            assert abs((values == choice).mean() - p) < near


def test_examples_depend_on_the_seed():
    examples = picking.examples(10, 20, seed=4)
    assert same(examples, picking.examples(10, 20, seed=4))
    assert not same(examples, picking.examples(10, 20, seed=5))


def test_dataset():
    data = picking.dataset(20, 16, max_k=9, batches=3, seed=7)
    assert data.cardinality() == 3
    first, second = arrays(data), arrays(data)
    assert len(first) == 3
    for asked, answers in first:
        assert asked["tokens"].shape == (16, 20)
        assert 1 <= asked["k"].min() <= asked["k"].max() <= 9
        expected = picking.answers(asked["tokens"], asked["k"])
        np.testing.assert_array_equal(answers, expected)
    # Neither batches nor passes repeat.
    seen = {asked["tokens"].tobytes() for asked, _ in first + second}
    assert len(seen) == 6
    again = picking.dataset(20, 16, max_k=9, batches=3, seed=7)
    assert same([*again, *again], first + second)
    endless = picking.dataset(20, 16, max_k=9, seed=7)
    assert endless.cardinality() == tf.data.INFINITE_CARDINALITY
    assert same(arrays(endless.take(6)), first + second)
    rest = picking.dataset(20, 16, max_k=9, seed=7, start=4)
    assert same(arrays(rest.take(2)), second[1:])


def test_growing_sequences():
    data = picking.dataset(lambda number: 3 + number, 4, max_k=5, batches=5)
    assert data.element_spec[0]["tokens"].shape == (None, None)
    batches = arrays(data)
    shapes = [asked["tokens"].shape for asked, _ in batches]
    assert shapes == [(4, 3), (4, 4), (4, 5), (4, 6), (4, 7)]
    for asked, answers in batches:
        assert asked["k"].max() <= min(5, asked["tokens"].shape[1])
        expected = picking.answers(asked["tokens"], asked["k"])
        np.testing.assert_array_equal(answers, expected)


def test_fit():
    """The first digit is the answer for k = 1: that can be learned."""
    tokens = keras.Input((5,), dtype="int32", name="tokens")
    k = keras.Input((), dtype="int32", name="k")
    hot = keras.layers.CategoryEncoding(10, output_mode="one_hot")
    first = hot(tokens[:, :1])
    model = keras.Model(
        {"tokens": tokens, "k": k},
        keras.layers.Dense(10, activation="softmax")(first),
    )
    model.compile(keras.optimizers.Adam(0.1), "sparse_categorical_crossentropy")
    data = picking.dataset(5, 64, max_k=1, batches=40)
    losses = model.fit(data, epochs=3, shuffle=False, verbose=0)
    assert losses.history["loss"][-1] < 0.05


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: picking.answers([[1, 2]], [3]), "`k`.*from 1 to 2.*3"),
        (lambda: picking.answers([[1, 2]], [0]), "`k`.*from 1 to 2.*0"),
        (lambda: picking.answers([[1, 10]], [1]), "`tokens`.*to 9.*10"),
        (lambda: picking.answers([[1.0, 2.0]], [1]), "`tokens`.*integers"),
        (lambda: picking.answers([1, 2], [1]), "`tokens`.*rank 2"),
        (lambda: picking.answers([[1, 2]], [1, 2]), "`k` must have one"),
        (lambda: picking.examples(2, 5, max_k=6), "max_k=6, length=5"),
        (lambda: picking.examples(2, 0), "`length`"),
        (lambda: picking.examples(2, 5, seed=-1), "`seed`"),
        (lambda: picking.examples(2, 5, seed=0.5), "`seed`.*integer"),
        (lambda: picking.dataset(5, 2, max_k=6), "max_k=6, length=5"),
        (lambda: picking.dataset(5, 0), "`batch_size`"),
        (lambda: picking.dataset(5, 2, batches=0), "`batches`"),
        (lambda: picking.dataset(5, 2, start=-1), "`start`"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
