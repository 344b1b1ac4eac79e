"""The learnability study on a small made-up data set."""

import keras
import numpy as np
import pytest

from examples.pooling import learnability
from tests.examples.pooling.small_study import SMALL

pytestmark = pytest.mark.long

METHODS = learnability.METHODS


def arguments(folder, output, *more):
    return [
        *("--data-dir", str(folder), "--output", str(output)),
        *("--sizes", "16", "--settings", "standard", "--seeds", "0"),
        *("--epochs", "1", *SMALL, "--max-length", "10", *more),
    ]


def matrix():
    return np.random.default_rng(0).normal(size=(9, 5)).astype("float32")


def built(name):
    """A compiled model, of the weights of seed 3; the teacher's differ."""
    args = learnability.PROGRAM.parse(arguments(".", "r.csv"))
    teacher = learnability.build("maxpool", matrix(), args)
    keras.utils.set_random_seed(3)
    return learnability.build(name, matrix(), args, teacher.get_weights())


@pytest.mark.parametrize("name", METHODS[:1] + METHODS[2:])
def test_what_is_validated_is_the_plain_lstm(name):
    """Whatever a model does in training, without it it is an LSTM."""
    model = built(name)
    lstm = learnability.plain(model, matrix(), units=4)
    kinds = sorted(type(layer).__name__ for layer in lstm.layers)
    own = ["Dense", "Embedding", "Identity", "InputLayer", "LSTM"]
    assert kinds == [*own, "LastPooling"]
    ids = np.array([[5, 8, 1, 2], [3, 2, 0, 0]])
    expected = lstm(ids).numpy()
    np.testing.assert_allclose(model(ids), expected, atol=1e-6)
    padded = np.pad(ids, ((0, 0), (0, 3)))
    np.testing.assert_allclose(lstm(padded), expected, atol=1e-6)
    # By hand: the last state and the classifier.
    front = getattr(model, "network", model)
    if name == "teacher_forcing":
        front = model.get_layer("student")
    x = front.get_layer("embedding")(ids[1:, :2])
    last = front.get_layer("rnn")(x)[:, -1]
    head = lstm.get_layer("classifier")
    np.testing.assert_allclose(head(last)[0], expected[1], atol=1e-6)


def test_the_teacher_is_given_and_keeps_still():
    model = built("teacher_forcing")
    model.run_eagerly = True
    args = learnability.PROGRAM.parse(arguments(".", "r.csv"))
    student, teacher, classifier = (
        model.get_layer(name) for name in ("student", "teacher", "classifier")
    )
    weights = teacher.get_weights() + classifier.get_weights()
    ids = np.array([[5, 8, 1, 2], [3, 2, 0, 0]])
    before = student(ids).numpy()
    model.train_on_batch(ids, np.array([0, 1]))
    after = teacher.get_weights() + classifier.get_weights()
    for a, b in zip(after, weights):
        np.testing.assert_array_equal(a, b)
    assert not np.allclose(student(ids), before, atol=1e-5)
    # The largest values of its states.
    taught = learnability.build("maxpool", matrix(), args)
    taught.set_weights(weights)
    h = taught.get_layer("rnn")(taught.get_layer("embedding")(ids[:1]))
    expected = np.max(h[0], axis=0)
    np.testing.assert_allclose(teacher(ids)[0], expected, atol=1e-6)
    # The loss is the mean squared distance.
    loss = model.evaluate(ids, np.array([0, 1]), verbose=0)[0]
    expected = np.mean((student(ids) - teacher(ids)) ** 2)
    assert loss == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    "name, variable, values",
    [
        ("penalty", "penalty", [0, 0.5**4, 1, 1]),
        ("dropout", "attention_dropout", [0, 0.5**2, 1, 1]),
        ("gradient_directed", "gradient_weight", [1, 0.5, 0, 0]),
    ],
)
def test_curricula_end_halfway(name, variable, values):
    model = built(name)
    (schedule,) = learnability.curricula(name)
    schedule.set_model(model)
    schedule.set_params({"epochs": 4, "steps": 1})
    found = []
    for step in range(4):
        model.optimizer.iterations.assign(step)
        schedule.on_train_begin()
        (value,) = (v for v in model.variables if v.name == variable)
        found.append(float(value))
    assert found == values
    for other in ("lstm", "maxpool", "teacher_forcing"):
        assert learnability.curricula(other) == []
