"""`PolicyGradientModel`: fresh processes, two devices.

Run as a script, this file trains on a saved model and on two devices.
"""

import json
import pathlib
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests import drawing_layers
from tests.processes import printed_by

pytestmark = pytest.mark.long

ROWS, TIME = 6, 4


def sequences(*shape):
    return np.random.default_rng(0).normal(size=shape).astype("float32")


def made():
    """A compiled model, its inputs and its targets."""
    keras.utils.set_random_seed(0)
    model = drawing_layers.gated_model(baseline_decay=0.5, penalty_weight=0.1)
    loss = keras.losses.MeanSquaredError(name="square")
    model.compile(
        keras.optimizers.Adam(0.1), loss, metrics=["mae"], run_eagerly=True
    )
    return model, sequences(ROWS, TIME, 3), sequences(ROWS, 1)


def state(model, x, y):
    """What a saved model and a loaded one have in common."""
    config = model.get_config()
    return {
        "evaluation": model.evaluate(x, y, verbose=0),
        "outputs": np.ravel(model(x)).tolist(),
        "weights": [w.ravel().tolist() for w in model.get_weights()],
        "trainable": [v.path for v in model.trainable_variables],
        "steps": int(model.optimizer.iterations),
        "config": {k: v for k, v in config.items() if k != "network"},
        "compiled": model.get_compile_config(),
    }


def test_saved_models_train_on_in_a_fresh_process(tmp_path):
    """On two devices too, where it is as on one."""
    model, x, y = made()
    model.fit(x, y, verbose=0)
    model.save(tmp_path / "model.keras")
    before = json.loads(json.dumps(state(model, x, y)))
    printed = printed_by("-W", "ignore", "-m", __name__, tmp_path)
    found = json.loads(printed[-1])
    loaded = found["loaded"]
    for part in ("evaluation", "outputs"):
        np.testing.assert_allclose(
            loaded.pop(part), before.pop(part), rtol=1e-5
        )
    assert loaded == before
    # Of 5 parameters, one deviates by more than 5 standard errors in one of
    # 300,000 runs.
    assert found["policy"]["z"] < 5
    assert found["policy"]["effect"] > 20
    # Each replica gives half of the weight.
    weight = found["policy"]["weight"]
    np.testing.assert_allclose(weight, (1 - 0.99**40) / 2, rtol=1e-3)


class Gather(keras.optimizers.Optimizer):
    """Leaves the weights alone and sums up gradients."""

    def build(self, variables):
        super().build(variables)
        self.sums, self.squares = (
            [self.add_variable_from_reference(v, name) for v in variables]
            for name in ("sum", "square")
        )

    def update_step(self, gradient, variable, learning_rate):
        i = self._get_variable_index(variable)
        self.assign_add(self.sums[i], gradient)
        self.assign_add(self.squares[i], gradient**2)


def policy_on(strategy, count=40):
    """How far the mean gradient is from the exact one."""
    x = np.tile(sequences(3, TIME, 3), (60, 1, 1))
    y = np.tile(sequences(3, 1), (60, 1))
    with strategy.scope():
        model = drawing_layers.gated_model(penalty_weight=0.3)
        model.compile(Gather(1.0), "mse")
    share = np.full(len(x), 1 / len(x), "float32")
    exact = drawing_layers.exact_gradient(model, x, y, share)
    exact = drawing_layers.flat(exact)
    model.fit(tf.data.Dataset.from_tensors((x, y)).repeat(count), verbose=0)
    mean = drawing_layers.flat(model.optimizer.sums) / count
    square = drawing_layers.flat(model.optimizer.squares) / count
    error = np.sqrt((square - mean**2) / (count - 1))
    (sums,) = (v.numpy() for v in model.weights if v.name == "baseline")
    return {
        "z": float(np.max(np.abs(mean - exact) / error)),
        "effect": float(np.max(np.abs(exact) / error)),
        "weight": float(sums[1]),
    }


def main(directory):
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration()] * 2,
    )
    _, x, y = made()
    loaded = keras.models.load_model(directory / "model.keras")
    before = state(loaded, x, y)
    loaded.fit(x, y, verbose=0)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    result = {"loaded": before, "policy": policy_on(strategy)}
    print(json.dumps(result))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
