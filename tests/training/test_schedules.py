"""Run as a script, this file trains a model that may kill itself."""

import json
import os
import pathlib
import signal
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_seqmech
from keras_seqmech.layers import LastAttentionPooling
from keras_seqmech.training import Curriculum
from keras_seqmech.training import DistillationModel
from keras_seqmech.training import TemperatureAnnealing
from tests import ROOT


class Thermometer(keras.layers.Layer):
    """Returns its temperature; counts how often it is traced."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.traces = 0
        self.temperature = self.add_weight(
            name="temperature", initializer="ones", trainable=False
        )
        self.offset = self.add_weight(name="offset", initializer="zeros")

    def call(self, inputs):
        self.traces += 1
        return 0 * inputs + self.temperature + self.offset


def fit(model, callbacks, epochs=3, steps=2, **options):
    model.compile(keras.optimizers.SGD(0.0), "mae", **options)
    inputs, targets = np.ones((4 * steps, 1)), np.zeros((4 * steps, 1))
    return model.fit(
        inputs,
        targets,
        batch_size=4,
        epochs=epochs,
        shuffle=False,
        callbacks=callbacks,
        verbose=0,
    ).history


@pytest.mark.long
@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize(
    "schedule, closed_form",
    [
        ("exponential", lambda i: 2 * 0.25 ** (min(i, 4) / 4)),
        ("linear", lambda i: 2 - 1.5 * min(i, 4) / 4),
    ],
)
def test_compiled_steps_see_the_closed_form(schedule, closed_form, jit_compile):
    annealing = TemperatureAnnealing(0.5, 4, initial=2.0, schedule=schedule)
    model = keras.Sequential([keras.Input((1,)), Thermometer()])
    history = fit(
        model, [annealing], steps=1, epochs=6, jit_compile=jit_compile
    )
    # The loss of step i is the temperature it ran with.
    expected = [closed_form(i) for i in range(7)]
    np.testing.assert_allclose(history["loss"], expected[:-1], rtol=1e-6)
    np.testing.assert_allclose(history["temperature"], expected[1:], rtol=1e-6)
    assert model.layers[0].temperature.numpy() == np.float32(0.5)


def test_variables_of_replicas():
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        model = keras.Sequential([keras.Input((1,)), Thermometer()])
        model.compile("sgd", "mae")
    data = tf.data.Dataset.from_tensors((np.ones((4, 1)), np.zeros((4, 1))))
    annealing = TemperatureAnnealing(0.5, 1)
    history = model.fit(
        data, shuffle=False, callbacks=[annealing], verbose=0
    ).history
    np.testing.assert_allclose(history["temperature"], [0.5])
    temperature = keras.ops.convert_to_numpy(model.layers[0].temperature)
    np.testing.assert_allclose(temperature, 0.5)


def test_nothing_is_retraced():
    model = keras.Sequential([keras.Input((1,)), Thermometer()])
    annealing = TemperatureAnnealing(0.1, 8)
    fit(model, [annealing], epochs=1)
    traces = []
    count = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: traces.append(
            model.layers[0].traces
        )
    )
    fit(model, [annealing, count], epochs=4)
    assert len(traces) == 8
    assert len(set(traces)) == 1


def test_second_fit_goes_on():
    model = keras.Sequential([keras.Input((1,)), Thermometer()])
    annealing = TemperatureAnnealing(0.5, 10)
    first = fit(model, [annealing], epochs=2)["temperature"]
    second = model.fit(
        np.ones((4, 1)), np.zeros((4, 1)), callbacks=[annealing], verbose=0
    ).history["temperature"]
    expected = [0.5 ** (i / 10) for i in (2, 4, 5)]
    np.testing.assert_allclose(first + second, expected, rtol=1e-6)


def test_layers_are_chosen_by_name_through_nested_models():
    inner = keras.Sequential(
        [keras.Input((1,)), Thermometer(name="a")], name="inner"
    )
    model = keras.Sequential([keras.Input((1,)), inner, Thermometer(name="b")])
    fit(model, [TemperatureAnnealing(0.5, 1, layer_names=["a"])])
    values = [v.numpy() for v in model.non_trainable_variables]
    assert values == [0.5, 1.0]
    fit(model, [TemperatureAnnealing(0.25, 1)])
    values = [v.numpy() for v in model.non_trainable_variables]
    assert values == [0.25, 0.25]


def test_wrapped_and_stacked_receptive_fields_are_found():
    def layer(name, **options):
        cell = keras.layers.SimpleRNNCell(2)
        return keras_seqmech.ReceptiveFieldRNN(
            cell, max_size=2, name=name, **options
        )

    first = keras.layers.Bidirectional(
        layer("one", return_sequences=True), name="both"
    )
    model = keras.Sequential([keras.Input((3, 1)), first, layer("two")])
    callback = TemperatureAnnealing(0.5, 1, layer_names=["both"])
    callback.set_model(model)
    model.compile("sgd", "mse")
    model.optimizer.iterations.assign(5)
    callback.on_train_begin()
    callback.on_train_batch_begin(0)
    assert first.forward_layer.temperature.numpy() == 0.5
    assert first.backward_layer.temperature.numpy() == 0.5
    assert model.layers[1].temperature.numpy() == 1.0


@pytest.mark.parametrize("layer_names", [None, ["a"], ["b", "dense"]])
def test_unknown_layer(layer_names):
    layers = [keras.layers.Dense(1, name="dense")]
    if layer_names is not None:
        layers.append(Thermometer(name="b"))
    model = keras.Sequential([keras.Input((1,)), *layers])
    message = r"`layer_names` .*Variables there are: \[.*Rec.*: layer_names="
    with pytest.raises(ValueError, match=message):
        fit(model, [TemperatureAnnealing(0.5, 1, layer_names=layer_names)])


@pytest.mark.parametrize(
    "name, value",
    [
        ("final", 0),
        ("final", -1.0),
        ("final", float("inf")),
        ("final", "cold"),
        ("steps", 0),
        ("steps", 2.5),
        ("initial", 0.0),
        ("initial", None),
        ("schedule", "cosine"),
        ("layer_names", "rnn"),
        ("layer_names", []),
    ],
)
def test_bad_arguments(name, value):
    arguments = {"final": 0.5, "steps": 3, name: value}
    with pytest.raises(ValueError, match=f"`{name}` must.*Received: {name}="):
        TemperatureAnnealing(**arguments)


class Numbers(keras.layers.Layer):
    """Returns the sum of its numbers; holds much that is not a number."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.traces = 0
        self.penalty = self.add_weight(
            name="penalty", trainable=False, constraint="non_neg"
        )
        self.rate = self.add_weight(
            name="rate", initializer="zeros", trainable=False
        )
        self.offset = self.add_weight(name="offset", initializer="zeros")
        self.add_weight(name="count", dtype="int32", trainable=False)
        self.add_weight(name="vector", shape=(2,), trainable=False)
        self.seed_generator = keras.random.SeedGenerator(0)
        self.metric = keras.metrics.Mean(name="mean")

    def call(self, inputs):
        self.traces += 1
        return 0 * inputs + self.penalty + 10 * self.rate + self.offset


def numbers(*names):
    layers = [Numbers(name=name) for name in names or ("a",)]
    return keras.Sequential([keras.Input((1,)), *layers])


def test_curricula_run_side_by_side_with_the_closed_form():
    model = numbers()
    callbacks = [
        Curriculum("penalty", 4, eta=2),
        Curriculum("rate", 2.5, eta=0.5, initial=3.0, final=1.0),
    ]
    history = fit(model, callbacks, epochs=6)
    penalty = [min(1, (i / 4) ** 2) for i in range(6)]
    rate = [3 - 2 * min(1, (i / 2.5) ** 0.5) for i in range(6)]
    np.testing.assert_allclose(history["penalty"], penalty, rtol=1e-12)
    np.testing.assert_allclose(history["rate"], rate, rtol=1e-12)
    # The loss of an epoch is what its compiled steps saw.
    seen = np.array(penalty) + 10 * np.array(rate)
    np.testing.assert_allclose(history["loss"], seen, rtol=1e-6)
    traces = model.layers[0].traces
    model.fit(
        np.ones((4, 1)),
        np.zeros((4, 1)),
        batch_size=4,
        initial_epoch=1,
        epochs=3,
        callbacks=callbacks,
        verbose=0,
    )
    assert model.history.history["penalty"] == penalty[1:3]
    assert model.layers[0].traces == traces


def test_curricula_of_chosen_layers_are_told_apart():
    model = numbers("a", "b")
    fit(model, [Curriculum("rate", 1, layer_names=["b"])])
    assert [float(layer.rate) for layer in model.layers] == [0.0, 1.0]
    history = fit(
        model,
        [
            Curriculum("rate", 1, layer_names=["a"]),
            Curriculum("rate", 2, final=4.0, layer_names=["b"]),
            Curriculum("penalty", 2),
        ],
    )
    assert history["a/rate"] == [0.0, 1.0, 1.0]
    assert history["b/rate"] == [0.0, 2.0, 4.0]
    assert history["penalty"] == [0.0, 0.5, 1.0]
    assert [float(layer.rate) for layer in model.layers] == [1.0, 4.0]
    model = keras.Sequential(
        [keras.Input((1,)), Thermometer(name="a"), Thermometer(name="b")]
    )
    names = [["a"], ["b"]]
    steps = zip(names, (1, 12))
    history = fit(
        model,
        [TemperatureAnnealing(0.25, n, layer_names=name) for name, n in steps],
    )
    assert history["a/temperature"] == [0.25] * 3
    expected = [0.25 ** (i / 12) for i in (2, 4, 6)]
    np.testing.assert_allclose(history["b/temperature"], expected, rtol=1e-6)


class Wrapper(keras.layers.Layer):
    """Holds layers where only their wrapper knows."""

    def __init__(self, layer, **kwargs):
        super().__init__(**kwargs)
        self.held = {"layers": [layer]}

    def call(self, inputs):
        return self.held["layers"][0](inputs)


def test_enclosing_models_and_wrappers_name_what_they_hold():
    """The inner model is built alone, before the outer ones have a name."""
    x = keras.Input((1,))
    both = Thermometer(name="t")(Numbers(name="n")(x))
    inner = keras.Model(x, both, name="inner")
    steps = keras.Input((2, 1))
    timed = keras.layers.TimeDistributed(inner, name="timed")
    h = Wrapper(timed, name="wrapper")(steps)
    outer = keras.Model(steps, h, name="outer")
    other = Thermometer(name="other")
    model = keras.Sequential([keras.Input((2, 1)), outer, other], name="all")
    model.compile("sgd", "mse")
    t, n = inner.get_layer("t"), inner.get_layer("n")
    metric = n.metric.variables[0]
    model.optimizer.iterations.assign(1)
    for name in ("inner", "timed", "wrapper", "outer", "all"):
        t.temperature.assign(1.0)
        other.temperature.assign(1.0)
        n.rate.assign(0.0)
        for callback in (
            TemperatureAnnealing(0.5, 1, layer_names=[name]),
            Curriculum("rate", 1, initial=2.0, layer_names=[name]),
        ):
            callback.set_model(model)
            callback.on_train_begin()
            callback.on_epoch_begin(0)
            callback.on_train_batch_begin(0)
        assert (float(t.temperature), float(n.rate)) == (0.5, 2.0), name
        assert float(other.temperature) == (0.5 if name == "all" else 1.0)
    assert float(metric) == 0 and int(model.optimizer.iterations) == 1


def test_frozen_parts_of_a_distillation_stay_as_they_are():
    def embed(name):
        x = keras.Input((3, 1))
        pooling = LastAttentionPooling(attention_dropout=0.25, name="pool")
        return keras.Model(x, pooling(x), name=name)

    student, teacher = embed("student"), embed("teacher")
    head = keras.Sequential([keras.Input((1,)), Numbers()])
    learner = keras.Sequential([student, keras.layers.Dense(1)])
    model = DistillationModel(learner, teacher, head)
    model.compile("sgd")
    curricula = [
        Curriculum("attention_dropout", 1, initial=0.5),
        Curriculum("penalty", 1, layer_names=["pool"]),
    ]
    model.fit(np.ones((4, 3, 1)), epochs=2, callbacks=curricula, verbose=0)
    pools = [part.get_layer("pool") for part in (student, teacher)]
    assert [float(pool.attention_dropout) for pool in pools] == [1.0, 0.25]
    assert [float(pool.penalty) for pool in pools] == [1.0, 0.0]
    for curriculum in (
        Curriculum("rate", 1),
        Curriculum("penalty", 1, layer_names=["teacher"]),
    ):
        with pytest.raises(ValueError, match="there are: .*Received: "):
            model.fit(np.ones((4, 3, 1)), callbacks=[curriculum], verbose=0)


@pytest.mark.parametrize(
    "callback",
    [Curriculum("rate", 1), TemperatureAnnealing(0.5, 1, layer_names=["a"])],
)
def test_a_model_that_is_not_built(callback):
    model = keras.Sequential([LastAttentionPooling()])
    message = "built before `fit`.*call it once.*Received: model 'sequential'"
    with pytest.raises(ValueError, match=message):
        fit(model, [callback])


def test_unknown_target_lists_the_numbers_there_are():
    message = r"`target` .* there are: \['penalty', 'rate'\].*target='count'"
    with pytest.raises(ValueError, match=message):
        fit(numbers(), [Curriculum("count", 1)])
    message = r"`layer_names` .*\['a/rate'\].*layer_names=\['c'\]"
    with pytest.raises(ValueError, match=message):
        fit(numbers(), [Curriculum("rate", 1, layer_names=["c"])])


def test_values_must_meet_the_constraint():
    fit(numbers(), [Curriculum("rate", 1, final=-1.0)])
    message = r"`final` .*`a/penalty` .*nearest is 0.0.*Received: final=-1.0"
    with pytest.raises(ValueError, match=message):
        fit(numbers(), [Curriculum("penalty", 1, final=-1)])


@pytest.mark.parametrize(
    "name, value",
    [
        ("target", ""),
        ("target", None),
        ("max_epochs", 0),
        ("max_epochs", -2.0),
        ("max_epochs", "ten"),
        ("eta", 0.0),
        ("eta", float("nan")),
        ("initial", float("inf")),
        ("final", None),
        ("layer_names", "rnn"),
        ("layer_names", []),
    ],
)
def test_bad_curriculum_arguments(name, value):
    arguments = {"target": "penalty", "max_epochs": 3, name: value}
    with pytest.raises(ValueError, match=f"`{name}` must.*Received: {name}="):
        Curriculum(**arguments)


NAMES = ("temperature", "penalty", "attention_dropout")


def train(directory: pathlib.Path, kill_at: int | None = None) -> None:
    """Trains 4 epochs of 3 steps; writes down the numbers of each step.

    Nothing is random, for Keras backs up no seeds: a field of one step needs
    no choice, and dropout jumps from 0 to 1.
    """
    keras.utils.set_random_seed(0)
    x = keras.Input((3, 1))
    layer = keras_seqmech.ReceptiveFieldRNN(
        keras.layers.SimpleRNNCell(2), max_size=1, return_sequences=True
    )
    model = keras.Model(x, LastAttentionPooling()(layer(x)))
    model.compile("adam", "mse")
    found = {v.name: v for v in model.non_trainable_variables}

    class Witness(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            step = int(self.model.optimizer.iterations.numpy())
            line = [step, *(float(found[name].numpy()) for name in NAMES)]
            with open(directory / "steps", "a") as file:
                file.write(json.dumps(line) + "\n")
            if step == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    history = model.fit(
        np.random.default_rng(0).normal(size=(6, 3, 1)),
        np.zeros((6, 2)),
        batch_size=2,
        epochs=4,
        shuffle=False,
        callbacks=[
            TemperatureAnnealing(final=0.1, steps=10),
            Curriculum("penalty", 3, eta=4),
            Curriculum("attention_dropout", 3, eta=999),
            keras.callbacks.BackupAndRestore(directory / "backup"),
            Witness(),
        ],
        verbose=0,
    ).history
    (directory / "history").write_text(json.dumps(history))
    np.savez(directory / "weights.npz", *model.get_weights())


@pytest.mark.long
def test_killed_run_continues_the_schedules(tmp_path):
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    whole.mkdir()
    resumed.mkdir()
    train(whole)

    def run(*arguments):
        command = [sys.executable, "-m", __name__, str(resumed), *arguments]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.run(command, env=environment, timeout=120).returncode

    assert run("7") == -signal.SIGKILL  # the middle of the third epoch
    assert run() == 0

    def steps(directory):
        lines = (directory / "steps").read_text().splitlines()
        return [tuple(json.loads(line)) for line in lines]

    expected = steps(whole)
    assert [step for step, *_ in expected] == list(range(12))
    assert expected[8][2:] == pytest.approx([(2 / 3) ** 4, 0.0])
    assert expected[9][2:] == (1.0, 1.0)
    # Steps 6 and 7 are run again, with the numbers they had.
    assert steps(resumed) == expected[:8] + expected[6:]
    histories = [
        json.loads((d / "history").read_text()) for d in (whole, resumed)
    ]
    assert set(histories[0]) == {"loss", *NAMES}
    for name, values in histories[0].items():
        assert histories[1][name] == pytest.approx(values[2:], rel=1e-6), name
    with (
        np.load(whole / "weights.npz") as a,
        np.load(resumed / "weights.npz") as b,
    ):
        assert len(a) == len(b) > 6
        for name in a:
            np.testing.assert_allclose(a[name], b[name], rtol=1e-5, atol=1e-7)


if __name__ == "__main__":
    train(
        pathlib.Path(sys.argv[1]),
        int(sys.argv[2]) if len(sys.argv) > 2 else None,
    )


@pytest.mark.parametrize("first", [0, 1])
def test_two_callbacks_that_set_the_temperature(first):
    layer = keras_seqmech.ReceptiveFieldRNN(keras.layers.GRUCell(2), 2)
    model = keras.Sequential([keras.Input((3, 2)), layer])
    model.compile("sgd", "mse")
    x, y = np.ones((4, 3, 2)), np.ones((4, 2))

    def fit(**options):
        callbacks = [
            TemperatureAnnealing(final=0.1, steps=4),
            keras_seqmech.ExploreThenCommit(steps=4, **options),
        ]
        if first:
            callbacks.reverse()
        model.fit(x, y, batch_size=1, verbose=0, callbacks=callbacks)

    with pytest.warns(UserWarning, match="Something else sets the temp"):
        fit()
    model.optimizer.iterations.assign(0)
    fit(temperature=None)  # A warning would be an error.
    assert float(layer.temperature) == pytest.approx(0.1)


def test_a_temperature_of_few_digits_is_not_taken_for_another():
    """The variable holds what bfloat16 can of it."""

    class Halved(keras.layers.Layer):
        def build(self, shape):
            self.temperature = self.add_weight(
                name="temperature", trainable=False, dtype="bfloat16"
            )

        def call(self, x):
            return x * keras.ops.cast(self.temperature, x.dtype)

    model = keras.Sequential(
        [keras.Input((1,)), Halved(), keras.layers.Dense(1)]
    )
    model.compile("sgd", "mse")
    annealing = TemperatureAnnealing(final=0.3, steps=7)
    x = np.ones((4, 1))
    model.fit(x, x, batch_size=1, verbose=0, callbacks=[annealing])
    assert float(model.layers[0].temperature) == pytest.approx(0.5, rel=0.01)
