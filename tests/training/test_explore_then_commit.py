"""The default schedule of decisions: its values, and who is moved."""

import copy
import re

import keras
import numpy as np
import pytest

from keras_seqmech import BoundaryGate
from keras_seqmech import DecisionPenalties
from keras_seqmech import ExpectedSubsample
from keras_seqmech import ExploreThenCommit
from keras_seqmech import LookAhead
from keras_seqmech import ReceptiveFieldRNN
from keras_seqmech import ReceptiveFieldWindows
from keras_seqmech import RFCell
from keras_seqmech import Schedule
from keras_seqmech.training import Ramp

NAMES = ("entropy", "reading", "indecision")


def make_model(**options):
    field = ReceptiveFieldRNN(keras.layers.SimpleRNNCell(2), 3, **options)
    model = keras.Sequential(
        [keras.Input((4, 2)), field, keras.layers.Dense(1)]
    )
    model.compile("sgd", "mse", run_eagerly=True)
    return model


def fit(model, epochs, *callbacks):
    """Four steps an epoch."""
    x, y = np.ones((8, 4, 2)), np.ones((8, 1))
    return model.fit(x, y, 2, epochs, verbose=0, callbacks=callbacks)


def numbers(model):
    layer = model.layers[0]
    values = [float(getattr(layer.penalty_weights, name)) for name in NAMES]
    return [*values, float(layer.temperature)]


class Recorder(keras.callbacks.Callback):
    """The numbers that each step is trained with."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def on_train_batch_end(self, batch, logs=None):
        self.seen.append(numbers(self.model))


def make_schedule(**options):
    return ExploreThenCommit(
        entropy=(0.4, 0.0, 0.0, 0.5),
        reading=(0.0, 0.8, 0.25, 0.75),
        indecision=(0.1, 0.3, 0.5, 1.0),
        temperature=(1.0, 0.5, 0.0, 1.0),
        **options,
    )


@pytest.mark.parametrize("given", [{}, {"entropy": 0.8, "reading": 0.05}])
@pytest.mark.parametrize(
    "size_from, first, end", [("field", 0.03, 0.5), ("input", 0.3, 0.05)]
)
def test_look_ahead_explores_little_and_is_penalized_early(
    size_from, first, end, given
):
    look, seen = LookAhead(3, size_from), []
    model = keras.Sequential([keras.Input((4, 2)), look, keras.layers.Dense(1)])
    model.compile("sgd", "mse")

    def record(batch, logs):
        weights = look.penalty_weights
        seen.append((float(weights.entropy), float(weights.reading)))

    recorder = keras.callbacks.LambdaCallback(on_train_batch_end=record)
    fit(model, 5, ExploreThenCommit(**given), recorder)
    share = np.arange(20) / 20
    entropy = given.get("entropy", first) * np.maximum(1 - share / 0.3, 0) ** 3
    reading = given.get("reading", 0.02) * np.minimum(share / end, 1)
    np.testing.assert_allclose(
        seen, np.stack([entropy, reading], axis=1), rtol=1e-5, atol=1e-7
    )


def test_numbers_of_every_step_by_hand():
    model, recorder = make_model(), Recorder()
    history = fit(model, 2, make_schedule(), recorder).history
    expected = [
        [0.4, 0.0, 0.1, 1.0],
        [0.3, 0.0, 0.1, 0.9375],
        [0.2, 0.0, 0.1, 0.875],
        [0.1, 0.2, 0.1, 0.8125],
        [0.0, 0.4, 0.1, 0.75],
        [0.0, 0.6, 0.15, 0.6875],
        [0.0, 0.8, 0.2, 0.625],
        [0.0, 0.8, 0.25, 0.5625],
    ]
    np.testing.assert_allclose(recorder.seen, expected, rtol=1e-6, atol=1e-7)
    # Each epoch ends with the numbers of the steps done.
    np.testing.assert_allclose(numbers(model), [0, 0.8, 0.3, 0.5], rtol=1e-6)
    np.testing.assert_allclose(history["reading"], [0.4, 0.8], rtol=1e-6)


def test_a_number_takes_the_place_of_the_one_that_matters():
    default = ExploreThenCommit().numbers
    assert ExploreThenCommit(None, 0.25, 0.125, 0.5, 0.75).numbers == {
        "entropy": default["entropy"]._replace(initial=0.25),
        "reading": default["reading"]._replace(final=0.125),
        "indecision": default["indecision"]._replace(final=0.5),
        "temperature": default["temperature"]._replace(final=0.75),
    }


@pytest.mark.long
def test_a_target_takes_the_place_of_reading_by_its_weight():
    for weight, reading in ((1.0, 0), (0.0, 0.8)):
        penalties = DecisionPenalties(target=2.0, target_weight=weight)
        model = make_model(penalties=penalties)
        history = fit(model, 1, make_schedule()).history
        np.testing.assert_allclose(
            numbers(model), [0, reading, 0.3, 0.5], rtol=1e-6
        )
        assert history["reading"][-1] == pytest.approx(reading)
    # One that rises stops the other weight where it is.
    model = make_model(penalties=DecisionPenalties(target=2.0))
    weight = Schedule({"target_weight": lambda share: float(share > 0.5)})
    fit(model, 2, weight, make_schedule())
    assert numbers(model)[1] == pytest.approx(0.4)
    # Beside a target another callback may set it, without a warning.
    model = make_model(penalties=DecisionPenalties(target=2.0, target_weight=1))
    fit(model, 1, make_schedule(), Schedule({"reading": (0.0, 1.0)}))
    assert numbers(model)[1] == 1


class Deciding(keras.layers.Layer):
    """A small layer of a user, with a variable and ramps of its own."""

    decision_ramps = {
        "indecision": Ramp(0.0, 1.0, 0.5, 1.0),
        "cost": Ramp(0.0, 2.0, 0.0, 0.5),
        "temperature": Ramp(1, 3),
    }

    def build(self, shape):
        self.indecision = self.add_weight(shape=(), trainable=False)
        self.cost = self.add_weight(shape=(), trainable=False, name="price")
        self.temperature = 1.0  # A number stays.

    def call(self, x):
        return x * (1 + self.indecision + self.cost)


def fit_deciding(*callbacks, layer=None, show="indecision"):
    """A number after each of ten epochs of four steps."""
    layers = [keras.Input((2,)), layer or Deciding(), keras.layers.Dense(1)]
    model = keras.Sequential(layers)
    model.compile("sgd", "mse", jit_compile=False)
    fit = model.fit(
        *(np.zeros((8, 2)), np.zeros((8, 1))),
        batch_size=2,
        epochs=10,
        verbose=0,
        callbacks=callbacks,
    )
    return fit.history[show]


def waiting(accuracy):
    """A schedule that waits for an accuracy, which depends on the epoch."""
    schedule = ExploreThenCommit(
        commit_when=lambda logs: logs["accuracy"] > 0.8
    )
    tell = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: logs.update(accuracy=accuracy(epoch))
    )
    return [tell, schedule]


def waited(begin):
    """Values after each of ten epochs, if it went on after `begin` steps."""
    return np.maximum(0, (np.arange(4, 44, 4) - begin) / (40 - begin))


@pytest.mark.parametrize(
    "learned, begin",
    [
        # As soon as is scheduled, from the step after an epoch's last but one
        # on, and after 80 % of the steps in any case.
        (2, 20),
        (6, 27),
        (7, 31),
        (8, 32),
    ],
)
def test_a_schedule_that_waits(learned, begin):
    callbacks = waiting(lambda epoch: 0.9 if epoch == learned else 0.1)
    found = fit_deciding(*callbacks)
    np.testing.assert_allclose(found, waited(begin), rtol=1e-6, atol=1e-7)


def test_a_schedule_that_waits_in_vain():
    with pytest.warns(UserWarning, match="`commit_when` was true after no"):
        found = fit_deciding(*waiting(lambda epoch: 0.1))
    np.testing.assert_allclose(found, waited(32), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("killed", [4, 5, 6, 7, 8])
def test_a_schedule_that_waits_is_resumed(tmp_path, killed):
    """Before it goes on, with the epoch that lets it, and later."""

    def run(*more):
        # What it waits for is seen once.
        callbacks = waiting(lambda epoch: 0.9 if epoch == 6 else 0.1)
        backup = keras.callbacks.BackupAndRestore(tmp_path)
        return fit_deciding(*callbacks, backup, *more)

    def kill(epoch, logs):
        if epoch == killed + 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(keras.callbacks.LambdaCallback(on_epoch_begin=kill))
    found = run()
    expected = waited(27)[-len(found) :]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)
    assert len(found) == 9 - killed


def test_what_is_none_stays():
    model = make_model(
        penalties=DecisionPenalties(entropy=0.25), temperature=0.75
    )
    fit(model, 1, ExploreThenCommit(entropy=None, temperature=None))
    assert numbers(model)[::3] == [0.25, 0.75]


@pytest.mark.parametrize("duplicate", [lambda x: x, copy.deepcopy])
@pytest.mark.parametrize("estimator", ["expectation", "straight_through"])
def test_what_draws_nothing_does_not_explore(estimator, duplicate):
    """Nor with a copy of the callback, as KerasTuner makes it."""
    x = keras.Input((6, 1))
    short = ExpectedSubsample(
        3,
        estimator=estimator,
        penalties=DecisionPenalties(entropy=0.25),
        name="short",
    )(x, keras.ops.sigmoid(x[..., 0]))
    model = keras.Model(x, keras.layers.Dense(1)(short))
    model.compile("sgd", "mse")
    model.fit(
        np.ones((2, 6, 1)),
        np.ones((2, 3, 1)),
        verbose=0,
        callbacks=[duplicate(ExploreThenCommit(entropy=(0.5, 0.5, 0, 1)))],
    )
    penalties = model.get_layer("short").penalty_weights
    if estimator == "expectation":
        assert float(penalties.entropy) == 0.25
        expected = 0.3
    else:
        assert float(penalties.entropy) == 0.5
        expected = 0.1
    np.testing.assert_allclose(penalties.indecision, expected, rtol=1e-6)


@pytest.mark.long
def test_every_layer_that_decides_is_scheduled():
    x, q = keras.Input((6, 3)), keras.Input((2,))
    gates = BoundaryGate(4, name="gate")(x, q)
    short = ExpectedSubsample(3, name="short")(x, gates)
    outputs, _ = ReceptiveFieldRNN(
        keras.layers.GRUCell(2), 2, return_field=True, name="field"
    )(short)
    model = keras.Model([x, q], keras.layers.Dense(1)(outputs))
    model.compile("sgd", "mse")
    data = [np.ones((4, 6, 3)), np.ones((4, 2))], np.ones((4, 1))
    model.fit(*data, verbose=0, callbacks=[ExploreThenCommit()])
    for name, expected in (("gate", 0.2), ("short", 0.02), ("field", 0.02)):
        reading = model.get_layer(name).penalty_weights.reading
        np.testing.assert_allclose(reading, expected, rtol=1e-6)


@pytest.mark.parametrize(
    "arguments",
    [
        {"steps": 0},
        {"entropy": -0.1},
        {"entropy": True},
        {"reading": "12"},
        {"entropy": 10**400},
        {"reading": float("nan")},
        {"temperature": 0.0},
        {"entropy": (0.1,)},
        {"reading": (0.0, -1.0, 0.0, 1.0)},
        {"reading": (0.0, float("inf"), 0.0, 1.0)},
        {"indecision": (0.0, 0.1, 0.5, 0.5)},
        {"entropy": (1.0, 0.0, 0.0, 1.0, 0.0)},
        {"temperature": (1.0, 0.0, 0.0, 1.0)},
        {"commit_when": "accuracy"},
    ],
)
def test_bad_arguments(arguments):
    ((name, value),) = arguments.items()
    received = re.escape(f"Received: {name}={value!r}")
    with pytest.raises(ValueError, match=f"`{name}`.*{received}$"):
        ExploreThenCommit(**arguments)


def test_a_layer_of_a_user_declares_its_ramps():
    layer = Deciding()
    found = fit_deciding(ExploreThenCommit(), layer=layer, show="cost")
    expected = np.minimum(np.arange(1, 11) * 4 / 40 / 0.5, 1) * 2
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert float(layer.cost) == 2 and layer.temperature == 1


@pytest.mark.parametrize(
    "ramps", [{"price": Ramp(0, 1)}, {"cost": Ramp(0, 1, 0.5, 0.5)}]
)
def test_ramps_that_a_layer_cannot_mean(monkeypatch, ramps):
    """One without a variable, and one without a length."""
    monkeypatch.setattr(Deciding, "decision_ramps", ramps)
    with pytest.raises(ValueError, match="'mine' must .* Received: '(pr|co)"):
        fit_deciding(ExploreThenCommit(), layer=Deciding(name="mine"))


def test_something_must_be_scheduled():
    names = ("entropy", "reading", "indecision", "temperature")
    with pytest.raises(ValueError, match="`entropy`, .* None for each"):
        ExploreThenCommit(**dict.fromkeys(names))


def test_models_without_decisions():
    plain = [keras.layers.Dense(1)]
    # Weights of a cell in a loop of Keras would move, and have no effect.
    cell = [
        ReceptiveFieldWindows(2),
        keras.layers.RNN(RFCell(keras.layers.GRUCell(2), 2)),
        keras.layers.Dense(1),
    ]
    for layers in (plain, cell):
        for start in ([keras.Input((4, 2))], []):
            model = keras.Sequential([*start, *layers])
            model.compile("sgd", "mse")
            with pytest.raises(ValueError, match="a layer that decides"):
                fit(model, 1, ExploreThenCommit())
