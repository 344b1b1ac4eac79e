"""A `fit` that a killed run continues exactly."""

import keras
import numpy as np
import pytest

from examples.common import resumable

EPOCHS, STEPS = 3, 3
X = np.random.default_rng(0).normal(size=(10, 4)).astype("float32")
BATCHES = resumable.shuffled(X, X.sum(axis=1), batch_size=4, seed=1)


def make_model():
    keras.utils.clear_session(free_memory=False)
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(1),
        ]
    )
    model.compile(keras.optimizers.Adam(0.1), "mse", run_eagerly=True)
    return model


def kill(last):
    """A callback that ends a run after so many batches."""
    batches = iter(range(1, last + 1))

    def count(batch, logs):
        if next(batches) == last:
            raise KeyboardInterrupt

    return keras.callbacks.LambdaCallback(on_train_batch_end=count)


def test_a_killed_run_ends_as_one_that_was_not(tmp_path):
    """Killed in the middle of the second epoch, and after the last one."""
    ends, curves, seen = [], [], []

    def batches(step, curve):
        if step:
            seen.append((step, len(curve)))
        return BATCHES(step, curve)

    for name, kills in (("whole", []), ("killed", [[kill(5)]])):
        for callbacks in [*kills, [], []]:
            model = make_model()
            arguments = model, batches, EPOCHS, STEPS, tmp_path / name
            if callbacks:
                with pytest.raises(KeyboardInterrupt):
                    resumable.fit(*arguments, callbacks)
                continue
            weights = model.get_weights()[0]
            curve = resumable.fit(
                *arguments, measure=lambda: {"bias": len(seen)}
            )
            assert (model.get_weights()[0] != weights).any()
            assert [*curve[-1]] == ["train_loss", "bias", "seconds"]
            curves.append([point["train_loss"] for point in curve])
            ends.append(model.get_weights())
        resumable.remove(tmp_path / name)
        assert not (tmp_path / name).exists()
    assert {*seen} == {(3, 1), (6, 2)}
    assert len(curves[0]) == EPOCHS
    assert all(curve == curves[0] for curve in curves)
    for weights in ends[1:]:
        for found, expected in zip(weights, ends[0], strict=True):
            np.testing.assert_array_equal(found, expected)


def test_a_run_that_is_over_is_not_trained_on(tmp_path):
    """It ends by what was measured, also when it is started again."""
    ends = []
    for _ in range(2):
        model = make_model()
        curve = resumable.fit(
            model,
            BATCHES,
            EPOCHS,
            STEPS,
            tmp_path,
            is_over=lambda curve: len(curve) == 2,
        )
        assert len(curve) == 2 and int(model.optimizer.iterations) == 6
        ends.append(model.get_weights())
    for found, expected in zip(*ends):
        np.testing.assert_array_equal(found, expected)
