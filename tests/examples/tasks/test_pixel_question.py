"""The pixel questions: answers, epochs, data."""

import numpy as np

from examples.tasks import pixel_question
from tests.examples.tasks.streams import arrays


def images(count=30):
    """Images that tell their number."""
    numbers = np.arange(count, dtype="float32")
    return np.tile(numbers[:, None, None], (1, 2, 3)), np.arange(count) % 10


def test_half_of_the_answers_are_yes():
    x, y = images(31)
    asked, answers = pixel_question.examples(x, y)
    assert asked["pixels"].shape == (31, 6, 1)
    assert asked["pixels"].dtype == np.float32
    assert asked["digit"].dtype == answers.dtype == np.int32
    assert answers.sum() == 16  # 15.5, to even
    np.testing.assert_array_equal(answers == 1, asked["digit"] == y)


def test_pixels_are_read_row_by_row():
    x = np.arange(12).reshape(1, 3, 4)
    asked, _ = pixel_question.examples(x, [0])
    assert asked["pixels"].ravel().tolist() == list(range(12))


def test_other_digits_are_uniform():
    x, y = np.zeros((18000, 1, 1)), np.full(18000, 3)
    asked, _ = pixel_question.examples(x, y)
    counts = np.bincount(asked["digit"], minlength=10)
    assert counts[3] == 9000
    counts[3] = 0
    # Six standard deviations of a count around 1000.
    assert (abs(counts[counts > 0] - 1000) < 180).all()
    assert (counts > 0).sum() == 9


def test_each_epoch_has_its_order_and_questions():
    x, y = images()
    batches = arrays(pixel_question.dataset(x, y, 8, seed=1).take(8))
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


def test_digits():
    train, test = pixel_question.load_digits()
    assert train[0].shape == (1437, 8, 8) and test[0].shape == (360, 8, 8)
    for x, y in (train, test):
        assert x.min() == 0 and x.max() == 1 and x.dtype == np.float32
        assert y.dtype == np.int32
        # All classes, none rare.
        assert np.bincount(y, minlength=10).min() > len(y) / 15
    images = np.concatenate([train[0], test[0]])
    assert len(np.unique(images.reshape(1797, 64), axis=0)) == 1797


def test_mnist(tmp_path):
    (tmp_path / "mnist").mkdir()
    path = tmp_path / "mnist" / "mnist.npz"
    x = np.array([[[0, 51], [102, 255]]], "uint8")
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


def test_real_mnist(data_dir):
    (x, y), (x_test, y_test) = pixel_question.load_mnist(data_dir)
    assert x.shape == (60000, 28, 28) and y.shape == (60000,)
    assert x_test.shape == (10000, 28, 28) and y_test.shape == (10000,)
    assert x.min() == 0 and x.max() == 1
