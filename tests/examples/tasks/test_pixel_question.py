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
