"""A `fit` that a killed run continues exactly."""

import json

import keras
import numpy as np
import pytest

from examples.common import resumable_fit

EPOCHS = 3


def make_data():
    generator = np.random.default_rng(0)
    x = generator.normal(size=(10, 4)).astype("float32")
    return resumable_fit.EpochOrder(x, x.sum(axis=1), batch_size=4, seed=1)


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


def test_every_epoch_has_an_order_of_its_own():
    data = make_data()
    orders = []
    for epoch in (0, 1, 0):
        data.start(epoch)
        batches = [data[i] for i in range(len(data))]
        assert [len(y) for _, y in batches] == [4, 4, 2]
        x, y = (np.concatenate(part) for part in zip(*batches))
        np.testing.assert_allclose(x.sum(axis=1), y, rtol=1e-6)
        np.testing.assert_array_equal(np.sort(y), np.sort(data.y))
        orders.append(y)
    assert (orders[0] == orders[2]).all()
    assert (orders[0] != orders[1]).any()


def test_a_killed_run_ends_as_one_that_was_not(tmp_path):
    """Killed in the middle of the second epoch, and after the last one."""
    ends = []
    for name, kills in (("whole", 0), ("killed", 1)):
        folder = tmp_path / name
        for _ in range(kills):
            batches = iter(range(5))

            def kill(batch, logs, batches=batches):
                if next(batches) == 4:
                    raise KeyboardInterrupt

            with pytest.raises(KeyboardInterrupt):
                resumable_fit.fit(
                    make_model(),
                    make_data(),
                    EPOCHS,
                    folder,
                    [keras.callbacks.LambdaCallback(on_train_batch_end=kill)],
                )
        for _ in range(2):
            model = make_model()
            seconds = resumable_fit.fit(model, make_data(), EPOCHS, folder)
            known = json.loads((folder / "seconds.json").read_text())
            assert list(known) == ["0", "1", "2"]
            assert seconds == pytest.approx(sum(known.values()))
            ends.append(model.get_weights())
    for weights in ends[1:]:
        for found, expected in zip(weights, ends[0], strict=True):
            np.testing.assert_array_equal(found, expected)
