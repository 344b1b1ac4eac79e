"""The tasks: exact answers, streams of batches, bad input."""

import collections

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_seqmech.tasks import picking
from keras_seqmech.tasks import pixel_question


def digits(text):
    return np.array([[int(character) for character in text]])


def arrays(batches):
    return [
        keras.tree.map_structure(lambda x: x.numpy(), batch)
        for batch in batches
    ]


def same(batches, others):
    flat, other = keras.tree.flatten(batches), keras.tree.flatten(others)
    return len(flat) == len(other) and all(map(np.array_equal, flat, other))


class TestPicking:
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
    def test_answers_of_the_source(self, sequence, k, answer):
        assert picking.answers(digits(sequence), [k]).tolist() == [answer]

    def test_malicious_examples(self):
        asked, answers = picking.malicious_examples()
        assert asked["k"].tolist() == [6, 10, 20, 30]
        assert answers.tolist() == [6, 6, 8, 9]
        for row in asked["tokens"]:
            text = "".join(map(str, row))
            assert text == "666333666288882888819999999990"

    def test_answers_count_digits_and_the_first_of_equals_wins(self):
        asked, answers = picking.examples(500, 23, seed=1)
        ties = 0
        for row, k, answer in zip(asked["tokens"], asked["k"], answers):
            counts = collections.Counter(row[:k].tolist())
            # A Counter keeps the order in which it first saw its keys.
            assert counts.most_common(1)[0][0] == answer
            ties += list(counts.values()).count(max(counts.values())) > 1
        assert ties > 100

    def test_what_follows_the_first_k_does_not_count(self):
        asked, answers = picking.examples(200, 15, seed=2)
        after = np.arange(15) >= asked["k"][:, None]
        others = np.where(after, 9 - asked["tokens"], asked["tokens"])
        assert (others != asked["tokens"]).any()
        again = picking.answers(others, asked["k"])
        np.testing.assert_array_equal(again, answers)

    def test_examples_are_uniform(self):
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

    def test_examples_depend_on_the_seed(self):
        examples = picking.examples(10, 20, seed=4)
        assert same(examples, picking.examples(10, 20, seed=4))
        assert not same(examples, picking.examples(10, 20, seed=5))

    def test_dataset(self):
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

    def test_growing_sequences(self):
        data = picking.dataset(lambda number: 3 + number, 4, max_k=5, batches=5)
        assert data.element_spec[0]["tokens"].shape == (None, None)
        batches = arrays(data)
        shapes = [asked["tokens"].shape for asked, _ in batches]
        assert shapes == [(4, 3), (4, 4), (4, 5), (4, 6), (4, 7)]
        for asked, answers in batches:
            assert asked["k"].max() <= min(5, asked["tokens"].shape[1])
            expected = picking.answers(asked["tokens"], asked["k"])
            np.testing.assert_array_equal(answers, expected)

    def test_fit(self):
        """The first digit is the answer for k = 1: that can be learned."""
        tokens = keras.Input((5,), dtype="int32", name="tokens")
        k = keras.Input((), dtype="int32", name="k")
        hot = keras.layers.CategoryEncoding(10, output_mode="one_hot")
        first = hot(tokens[:, :1])
        model = keras.Model(
            {"tokens": tokens, "k": k},
            keras.layers.Dense(10, activation="softmax")(first),
        )
        model.compile(
            keras.optimizers.Adam(0.1), "sparse_categorical_crossentropy"
        )
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
    def test_bad_input(self, call, message):
        with pytest.raises(ValueError, match=message):
            call()


def images(count=30):
    """Images that tell their number."""
    numbers = np.arange(count, dtype="float32")
    return np.tile(numbers[:, None, None], (1, 2, 3)), np.arange(count) % 10


class TestPixelQuestion:
    @pytest.mark.parametrize("share, positive", [(0.5, 15), (0.2, 6), (0, 0)])
    def test_answers(self, share, positive):
        x, y = images()
        asked, answers = pixel_question.examples(x, y, 0, share)
        assert asked["pixels"].shape == (30, 6, 1)
        assert asked["pixels"].dtype == np.float32
        assert asked["digit"].dtype == answers.dtype == np.int32
        assert answers.sum() == positive
        np.testing.assert_array_equal(answers == 1, asked["digit"] == y)

    def test_pixels_are_read_row_by_row(self):
        x = np.arange(12).reshape(1, 3, 4)
        asked, _ = pixel_question.examples(x, [0])
        assert asked["pixels"].ravel().tolist() == list(range(12))

    def test_other_digits_are_uniform(self):
        x, y = np.zeros((9000, 1, 1)), np.full(9000, 3)
        asked, _ = pixel_question.examples(x, y, positive_share=0.0)
        counts = np.bincount(asked["digit"], minlength=10)
        assert counts[3] == 0
        # Six standard deviations of a count around 1000.
        assert (abs(counts[counts > 0] - 1000) < 180).all()
        assert (counts > 0).sum() == 9

    def test_dataset(self):
        x, y = images()
        data = pixel_question.dataset(x, y, 8, seed=1, epochs=2)
        assert data.cardinality() == 8
        batches = arrays(data)
        sizes = [len(answers) for _, answers in batches]
        assert sizes == [8, 8, 8, 6] * 2
        orders, questions = [], []
        for epoch in (batches[:4], batches[4:]):
            pixels = np.concatenate([asked["pixels"] for asked, _ in epoch])
            digit = np.concatenate([asked["digit"] for asked, _ in epoch])
            answers = np.concatenate([answers for _, answers in epoch])
            numbers = pixels[:, 0, 0].astype(int)
            assert sorted(numbers) == list(range(30))
            assert answers.sum() == 15
            np.testing.assert_array_equal(answers == 1, digit == y[numbers])
            orders.append(numbers.tolist())
            questions.append(digit[np.argsort(numbers)].tolist())
        assert orders[0] != orders[1] and questions[0] != questions[1]
        third = arrays(data)[:4]
        assert not same(third, batches[:4]) and not same(third, batches[4:])
        single = pixel_question.dataset(x, y, 8, seed=1, epochs=1, start=2)
        assert same(arrays(single), third)
        endless = pixel_question.dataset(x, y, 8, seed=1)
        assert endless.cardinality() == tf.data.INFINITE_CARDINALITY
        assert same(arrays(endless.take(8)), batches)
        other = pixel_question.dataset(x, y, 8, seed=2)
        assert not same(arrays(other.take(8)), batches)

    def test_digits(self):
        pytest.importorskip("sklearn")
        train, test = pixel_question.load_digits()
        assert train[0].shape == (1437, 8, 8) and test[0].shape == (360, 8, 8)
        for x, y in (train, test):
            assert x.min() == 0 and x.max() == 1 and x.dtype == np.float32
            assert y.dtype == np.int32
            # All classes, none rare.
            assert np.bincount(y, minlength=10).min() > len(y) / 15
        again, _ = pixel_question.load_digits()
        assert same(again, train)
        images = np.concatenate([train[0], test[0]])
        assert len(np.unique(images.reshape(1797, 64), axis=0)) == 1797

    def test_mnist(self, tmp_path):
        (tmp_path / "mnist").mkdir()
        path = tmp_path / "mnist" / "mnist.npz"
        with pytest.raises(FileNotFoundError, match="Received: data_dir="):
            pixel_question.load_mnist(tmp_path)
        x = np.array([[[0, 51], [102, 255]]], "uint8")
        np.savez(path, x_train=x, y_train=[7], x_test=x[:0])
        with pytest.raises(ValueError, match="must hold .*y_test"):
            pixel_question.load_mnist(tmp_path)
        np.savez(
            path,
            x_train=x,
            y_train=np.array([7], "uint8"),
            x_test=np.repeat(x, 2, axis=0),
            y_test=np.array([1, 2], "uint8"),
        )
        train, test = pixel_question.load_mnist(tmp_path)
        expected = np.array([[[0, 0.2], [0.4, 1]]], "float32")
        np.testing.assert_allclose(train[0], expected, rtol=1e-6)
        assert train[0].dtype == np.float32
        assert train[1].tolist() == [7] and train[1].dtype == np.int32
        assert test[0].shape == (2, 2, 2) and test[1].tolist() == [1, 2]

    def test_real_mnist(self, data_dir):
        (x, y), (x_test, y_test) = pixel_question.load_mnist(data_dir)
        assert x.shape == (60000, 28, 28) and y.shape == (60000,)
        assert x_test.shape == (10000, 28, 28) and y_test.shape == (10000,)
        assert x.min() == 0 and x.max() == 1

    @pytest.mark.parametrize(
        "arguments, message",
        [
            (dict(images=np.zeros((2, 4))), "`images`.*\\(2, 4\\)"),
            (dict(labels=[1]), "`labels`.*\\(1,\\) for 2"),
            (dict(labels=[1, 10]), "`labels`.*from 0 to 9.*10.* among"),
            (dict(labels=[1, 2.5]), "`labels`.*from 0 to 9.*2.5.* among"),
            (dict(positive_share=1.5), "`positive_share`"),
            (dict(seed=-1), "`seed`"),
        ],
    )
    def test_bad_input(self, arguments, message):
        whole = dict(images=np.zeros((2, 4, 4)), labels=[1, 2], seed=0)
        with pytest.raises(ValueError, match=message):
            pixel_question.examples(**{**whole, **arguments})
        with pytest.raises(ValueError, match=message):
            pixel_question.dataset(batch_size=2, **{**whole, **arguments})

    def test_bad_sizes(self):
        x, y = images()
        with pytest.raises(ValueError, match="`batch_size`"):
            pixel_question.dataset(x, y, 0)
        with pytest.raises(ValueError, match="`epochs`"):
            pixel_question.dataset(x, y, 2, epochs=0)
