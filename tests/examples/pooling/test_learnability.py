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
    """A compiled model, of the weights of seed 3."""
    args = learnability.PROGRAM.parse(arguments(".", "r.csv"))
    keras.utils.set_random_seed(3)
    return learnability.build(name, matrix(), args)


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
    x = front.get_layer("embedding")(ids[1:, :2])
    last = front.get_layer("rnn")(x)[:, -1]
    head = lstm.get_layer("classifier")
    np.testing.assert_allclose(head(last)[0], expected[1], atol=1e-6)


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
    assert learnability.curricula("lstm") == []
