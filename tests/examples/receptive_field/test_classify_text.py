"""All models of a preset are trained alike."""

import keras
import numpy as np
import pytest

from examples.common import program
from examples.common import text_encoding
from examples.receptive_field import classify_text
from keras_seqmech import ExploreThenCommit
from tests.examples.receptive_field.small_reviews import SMALL

pytestmark = pytest.mark.long


def options(folder, results, *more):
    data = ["--dataset", "mr", "--data-dir", str(folder)]
    return [*data, "--output", str(results), *SMALL, *more]


def parse(*more):
    return classify_text.PROGRAM.parse(options(".", "results", *more))


def test_all_models_of_a_preset_are_trained_alike(monkeypatch):
    """The same epochs, and the same rule that ends them and chooses one."""
    seen = []

    def fit(model, *inputs, epochs, callbacks, **options):
        stopping, *schedules = callbacks
        rule = epochs, stopping.start_from_epoch, stopping.patience
        seen.append((rule, [x.numbers["reading"].final for x in schedules]))
        history = keras.callbacks.History()
        history.history = {"val_accuracy": [0.0] * epochs, "loss": []}
        return history

    monkeypatch.setattr(keras.Model, "fit", fit)
    monkeypatch.setattr(keras.Model, "evaluate", lambda *_, **__: (0, 0))
    part = np.array([[2, 0, 0, 0]]), np.array([0])
    data = text_encoding.Encoded(None, ["a", "b"], ("x", "y"), *[part] * 3)
    for preset, first, reading in (
        ("paper", 0, []),
        ("ours", 6, [0.02]),
        ("no_penalty", 6, [0.0]),
    ):
        args = parse("--preset", preset, "--epochs", "10")
        for name, own in (("rnn", []), ("rnn+rf-", reading)):
            classify_text.train_and_test(run_of(name, args, data))
            assert seen.pop() == ((10, first, args.patience), own)


def run_of(name, args, data):
    key = {"model": name, "seed": "1"}
    return program.Run(key, args, None, data)


def test_sizes_are_settled_after_exploration_and_penalty():
    schedule = ExploreThenCommit(
        entropy=(0.1, 0.0, 0.0, 0.45), reading=(0.0, 0.02, 0.3, 0.7)
    )
    epochs = [classify_text.settled_epoch(schedule, n) for n in (1, 5, 10)]
    assert epochs == [0, 4, 7]
    assert classify_text.settled_epoch(None, 10) == 0
