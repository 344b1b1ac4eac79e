"""What all training models promise: killed runs, fresh processes, two devices.

Run as a script, this file trains on saved models and on two devices.
"""

import json
import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_seqmech.training import DistillationModel
from keras_seqmech.training import GradientDirectedModel
from keras_seqmech.training import Schedule
from keras_seqmech.training import TruncatedBackpropagationModel
from tests import ROOT
from tests import drawing_layers

pytestmark = pytest.mark.long

ROWS, TIME = 6, 4


def sequences(*shape):
    return np.random.default_rng(0).normal(size=shape).astype("float32")


def activity_loss():
    return keras.layers.ActivityRegularization(l2=1.0)


def embed(pooling):
    x = keras.Input((TIME, 3))
    h = keras.layers.SimpleRNN(3, return_sequences=True)(x)
    return keras.Model(x, activity_loss()(pooling(h)))


def distillation():
    teacher = embed(keras.layers.GlobalMaxPooling1D())
    student = embed(keras.layers.GlobalAveragePooling1D())
    return DistillationModel(student, teacher, keras.layers.Dense(1))


def directed():
    x = keras.Input((TIME, 3), name="x")
    y = keras.layers.Dense(1)(keras.layers.SimpleRNN(3)(x))
    network = keras.Model(x, activity_loss()(y))
    return GradientDirectedModel(network, layer="x", gradient_weight=0.5)


def truncated():
    x = keras.Input((TIME, 3))
    h, *_ = keras.layers.SimpleRNN(1, return_sequences=True, return_state=True)(
        x
    )
    return TruncatedBackpropagationModel(keras.Model(x, h), chunk_length=3)


def policy():
    return drawing_layers.gated_model(baseline_decay=0.5, penalty_weight=0.1)


MAKERS = [distillation, directed, truncated, policy]


def made(maker):
    """A compiled model, its inputs and its targets."""
    keras.utils.set_random_seed(0)
    model = maker()
    loss = None
    if maker is not distillation:
        loss = keras.losses.MeanSquaredError(name="square")
    model.compile(
        keras.optimizers.Adam(0.1), loss, metrics=["mae"], run_eagerly=True
    )
    steps = (TIME,) if maker is truncated else ()
    return model, sequences(ROWS, TIME, 3), sequences(ROWS, *steps, 1)


class Stop(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 2:
            raise KeyboardInterrupt


@pytest.mark.parametrize("maker", MAKERS)
def test_killed_runs_continue(maker, tmp_path):
    """Out of the box, before the model was ever called; schedules as well."""

    def run(name, *callbacks):
        model, x, y = made(maker)
        backup = keras.callbacks.BackupAndRestore(tmp_path / name)
        callbacks = [backup, *callbacks]
        if maker is directed:
            ramp = {"gradient_weight": (0.5, 0.0, 0.0, 0.75, 2)}
            callbacks.insert(0, Schedule(ramp))
        fit = model.fit(x, y, epochs=3, verbose=0, callbacks=callbacks)
        return model, fit.history

    whole, history = run("whole")
    with pytest.raises(KeyboardInterrupt):
        run("cut", Stop())
    model, rest = run("cut")
    whole.save_weights(tmp_path / "a.weights.h5")
    if maker is policy:
        # What it draws begins anew; its moving average does not.
        (sums,) = (v.numpy() for v in model.weights if v.name == "baseline")
        np.testing.assert_allclose(sums[1], 1 - 0.5**3, rtol=1e-4)
    else:
        assert rest == {name: values[2:] for name, values in history.items()}
        assert ("gradient_weight" in rest) == (maker is directed)
        for a, b in zip(whole.get_weights(), model.get_weights()):
            np.testing.assert_array_equal(a, b)
    other, (_, x, _) = maker(), made(maker)
    other.load_weights(tmp_path / "a.weights.h5")
    np.testing.assert_array_equal(other(x), whole(x))


def state(model, x, y):
    """What a saved model and a loaded one have in common."""
    config = model.get_config()
    return {
        "evaluation": model.evaluate(x, y, verbose=0),
        "outputs": np.ravel(model(x)).tolist(),
        "weights": [w.ravel().tolist() for w in model.get_weights()],
        "trainable": [v.path for v in model.trainable_variables],
        "steps": int(model.optimizer.iterations),
        "config": {k: v for k, v in config.items() if k not in model.parts},
        "compiled": model.get_compile_config(),
    }


def after_a_step(maker, model, x, y):
    """The weights, if nothing is drawn."""
    model.run_eagerly = True
    model.fit(x, y, verbose=0)
    weights = [] if maker is policy else model.get_weights()
    return [weight.ravel().tolist() for weight in weights]


def test_saved_models_train_on_in_a_fresh_process(tmp_path):
    """On two devices too, where it is as on one."""
    expected = {}
    for maker in MAKERS:
        model, x, y = made(maker)
        model.fit(x, y, verbose=0)
        model.save(tmp_path / f"{maker.__name__}.keras")
        before = json.loads(json.dumps(state(model, x, y)))
        expected[maker.__name__] = before, after_a_step(maker, model, x, y)
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", __name__, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    found = json.loads(result.stdout.splitlines()[-1])
    for name, (before, after) in expected.items():
        loaded, continued = found["models"][name]
        for part in ("evaluation", "outputs"):
            np.testing.assert_allclose(
                loaded.pop(part), before.pop(part), rtol=1e-5
            )
        assert loaded == before
        for one, two in zip(continued, after, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-7)
    one, two = found["devices"]
    np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-6)
    # Of 5 parameters, one deviates by more than 5 standard errors in one of
    # 300,000 runs.
    assert found["policy"]["z"] < 5
    assert found["policy"]["effect"] > 20
    # Each replica gives half of the weight.
    weight = found["policy"]["weight"]
    np.testing.assert_allclose(weight, (1 - 0.99**40) / 2, rtol=1e-3)


def train_on(strategy):
    """Losses and weights after a step of models whose layers add a loss."""
    results = []
    for maker in (distillation, directed):
        with strategy.scope():
            model, x, y = made(maker)
            loss = None if maker is distillation else "mse"
            model.compile(keras.optimizers.SGD(0.1), loss)
        logs = model.fit(x, y, shuffle=False, verbose=0).history
        results += [value[0] for value in logs.values()]
        for weight in model.get_weights():
            results += weight.ravel().tolist()
    return results


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
    models = {}
    for maker in MAKERS:
        _, x, y = made(maker)
        model = keras.models.load_model(directory / f"{maker.__name__}.keras")
        before = state(model, x, y)
        models[maker.__name__] = before, after_a_step(maker, model, x, y)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    result = {
        "models": models,
        "devices": [train_on(tf.distribute.get_strategy()), train_on(strategy)],
        "policy": policy_on(strategy),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
