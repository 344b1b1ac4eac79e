"""Searches over receptive fields: what a trial does, and which fail."""

import json

import keras
import numpy as np
import pytest

keras_tuner = pytest.importorskip("keras_tuner")
pytest.importorskip("tensorboard")

from keras_seqmech import ExploreThenCommit  # noqa: E402
from keras_seqmech import LookAhead  # noqa: E402
from keras_seqmech import ReceptiveFieldRNN  # noqa: E402
from keras_seqmech import Schedule  # noqa: E402
from keras_seqmech import tuning  # noqa: E402

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*(currentThread|getName):DeprecationWarning"
)


class Number(keras.layers.Layer):
    """Adds a weight; has a temperature that callbacks may change."""

    def build(self, shape):
        self.offset = self.add_weight(name="offset", initializer="zeros")
        self.temperature = self.add_weight(
            name="temperature", initializer="ones", trainable=False
        )

    def call(self, x):
        return x + self.offset


def build_number(hp, field):
    """A model whose training diverges where S is above 2."""
    model = keras.Sequential([keras.Input((1,)), Number(name="number")])
    rate = 1e30 if field["max_size"] > 2 else 0.1
    optimizer = keras.optimizers.SGD(rate, momentum=0.5)
    model.compile(optimizer, loss="mse", run_eagerly=True)
    return model


def trials(tuner):
    """The trials of a search, by number."""
    found = sorted(tuner.oracle.trials.items(), key=lambda item: int(item[0]))
    return [trial for _, trial in found]


class TraceCounter(keras.layers.Layer):
    """Counts how often Python runs it."""

    traces = 0

    def call(self, x):
        TraceCounter.traces += 1
        return x


class Recorder(keras.callbacks.Callback):
    """What the layer is at each step of each trial."""

    trials, traces = [], []

    def __deepcopy__(self, memo):
        return Recorder()

    def on_train_begin(self, logs=None):
        self.trials.append([])
        self.traces.append(TraceCounter.traces)

    def on_train_batch_end(self, batch, logs=None):
        layer = self.model.get_layer("field")
        numbers = [layer.temperature, layer.penalty_weights.entropy]
        self.trials[-1].append((layer.get_config(), *map(float, numbers)))

    def on_train_end(self, logs=None):
        self.traces[-1] = TraceCounter.traces - self.traces[-1]


def build_model(hp, field):
    layers = [
        keras.Input((3, 2)),
        TraceCounter(),
        ReceptiveFieldRNN(
            keras.layers.LSTMCell(3), seed=1, name="field", **field
        ),
        keras.layers.Dense(1),
    ]
    model = keras.Sequential(layers)
    model.compile("sgd", loss="mse", jit_compile=False)
    return model


def choose_callbacks(hp, field):
    explore = ExploreThenCommit(
        steps=100, entropy=hp.Float("entropy", 0.1, 3.0), temperature=None
    )
    if hp.Choice("temperature_schedule", ["fixed", "linear"]) == "fixed":
        return [explore]
    return [Schedule({"temperature": (field["temperature"], 0.1)}, 4), explore]


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:.*has not reached its end")
def test_trials_train_with_what_was_drawn_and_trace_once(tmp_path):
    hypermodel = tuning.ReceptiveFieldHyperModel(
        build_model,
        max_size=(1, 3),
        temperature=(0.5, 2.0),
        choices={"gated": ("memory", "output"), "summary": ("last",)},
        sequence_length=3,
        callbacks=choose_callbacks,
    )
    tuner = keras_tuner.RandomSearch(
        hypermodel,
        directory=tmp_path,
        objective="loss",
        max_trials=4,
        seed=2,
    )
    x = np.random.default_rng(0).normal(size=(12, 3, 2)).astype("float32")
    Recorder.trials.clear()
    tuner.search(
        x,
        x[:, 0, :1],
        batch_size=4,
        epochs=2,
        callbacks=[Recorder()],
        verbose=0,
    )
    found = trials(tuner)
    assert [trial.status for trial in found] == ["COMPLETED"] * 4
    values = [trial.hyperparameters.values for trial in found]
    searched = ("temperature", "temperature_schedule", "gated", "entropy")
    for name in (*searched, "max_size"):
        assert len({v[name] for v in values}) > 1
    for drawn, steps in zip(values, Recorder.trials, strict=True):
        fields, temperatures, entropies = zip(*steps)
        for name in ("gated", "max_size"):
            assert {field[name] for field in fields} == {drawn[name]}
        first = drawn["temperature"]
        progress = np.minimum(1, np.arange(6) / 4)
        expected = {
            "fixed": np.full(6, first),
            "linear": first + (0.1 - first) * progress,
        }[drawn["temperature_schedule"]]
        np.testing.assert_allclose(temperatures, expected, rtol=1e-5)
        assert entropies[0] == pytest.approx(drawn["entropy"])
    # One batch shape, two epochs of changing temperatures: one trace a trial.
    assert Recorder.traces == [1] * 4


def test_a_range_has_steps():
    hypermodel = tuning.ReceptiveFieldHyperModel(
        lambda hp, field: field, (2, 8, 3), (0.25, 2.0, 2)
    )
    hp = keras_tuner.HyperParameters()
    assert hypermodel.build(hp) == {"max_size": 2, "temperature": 0.25}
    drawn = [
        [space.random_sample(seed) for seed in range(60)] for space in hp.space
    ]
    assert set(drawn[0]) == {2, 5, 8}
    assert set(drawn[1]) == {0.25, 0.5, 1.0, 2.0}


@pytest.mark.parametrize("objective", ["val_look_mean_delay", "look_certain"])
def test_an_objective_that_no_layer_keeps(tmp_path, objective):
    def build(hp, field):
        x = keras.Input((3, 2))
        look = LookAhead(name="look", **field)
        model = keras.Model(x, keras.layers.Dense(1)(look(x)))
        model.compile("sgd", loss="mse", run_eagerly=True)
        return model

    tuner = keras_tuner.RandomSearch(
        tuning.ReceptiveFieldHyperModel(build, 3, layer=LookAhead),
        objective=["loss", keras_tuner.Objective(objective, "min")],
        directory=tmp_path,
    )
    x, y = np.ones((2, 3, 2)), np.ones((2, 3, 1))
    message = f"'{objective}' needs `track_statistics=True`.*'look'.*Received"
    with pytest.raises(keras_tuner.errors.FatalValueError, match=message):
        tuner.search(x, y, validation_data=(x, y), verbose=0)


# KerasTuner says so of a trial that had reported and runs again.
@pytest.mark.filterwarnings("ignore:The use case of calling")
@pytest.mark.long
@pytest.mark.parametrize("events", [1, 2])
def test_a_search_whose_file_a_kill_has_cut(tmp_path, monkeypatch, events):
    """The line of docs/tuning.md; the second trial was to end, or to report."""

    class Killed(BaseException):
        pass

    class Counted(keras_tuner.HyperModel):
        def build(self, hp):
            hp.Int("size", 1, 9)
            return build_number(hp, {"max_size": 1})

        def fit(self, hp, model, *args, **kwargs):
            ran.append(hp["size"])
            return {"score": hp["size"]}

    def search():
        tuner = keras_tuner.RandomSearch(
            Counted(),
            keras_tuner.Objective("score", "max"),
            max_trials=3,
            seed=5,
            directory=tmp_path,
            project_name="alone",
        )
        tuner.search(verbose=0)
        return trials(tuner)

    save, saved, ran = keras_tuner.engine.trial.Trial.save, [], []

    def cut(trial, path):
        saved.append(trial.trial_id)
        text = save(trial, path)
        if saved.count("1") > events:
            with open(path, "w") as file:
                file.write(text[: len(text) // 2])
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(keras_tuner.engine.trial.Trial, "save", cut)
        with pytest.raises(Killed):
            search()
    with pytest.raises(json.JSONDecodeError):
        search()
    before = ran.copy()
    keras_tuner.engine.trial.Trial(keras_tuner.HyperParameters(), "1").save(
        f"{tmp_path}/alone/trial_1/trial.json"
    )
    found = search()
    assert [trial.status for trial in found] == ["COMPLETED"] * 3
    assert ran[len(before) :] == [1, found[2].score]  # 1 is the default.


@pytest.mark.long
def test_trials_that_diverge_fail_and_the_search_goes_on(tmp_path, caplog):
    hypermodel = tuning.ReceptiveFieldHyperModel(
        build_number, max_size=(1, 6), temperature=1.0
    )
    tuner = keras_tuner.GridSearch(
        hypermodel,
        directory=tmp_path,
        objective="loss",
        max_consecutive_failed_trials=5,
    )
    x = np.ones((4, 1), "float32")
    tuner.search(x, 2 * x, batch_size=1, epochs=2, verbose=0)
    status = {
        trial.hyperparameters.values["max_size"]: trial.status
        for trial in trials(tuner)
    }
    assert status == {
        size: "COMPLETED" if size <= 2 else "FAILED" for size in range(1, 7)
    }
    for trial in trials(tuner):
        if trial.status == "FAILED":
            message = trial.message.strip().splitlines()[-1]
            assert "FailedTrialError: Training diverged: loss is " in message
            assert message.endswith("in epoch 1.")
    assert "Training diverged" in caplog.text
    assert tuner.get_best_hyperparameters()[0]["max_size"] <= 2


def trial(max_size, **options):
    """A hypermodel, and the arguments of its `fit`."""
    hypermodel = tuning.ReceptiveFieldHyperModel(
        build_number, max_size=max_size, temperature=0.5, **options
    )
    hp = keras_tuner.HyperParameters()
    return hypermodel, hp, hypermodel.build(hp)


@pytest.mark.parametrize(
    "max_size, scale, validation, message",
    [
        # The only step of the only epoch diverges: its loss is finite.
        (6, 1e10, None, "number/offset is not finite in the end"),
        (1, 1.0, np.nan, "val_loss is nan in epoch 1"),
    ],
)
def test_what_is_in_no_training_loss_fails_a_trial(
    max_size, scale, validation, message
):
    hypermodel, *arguments = trial(max_size=max_size)
    x = np.ones((4, 1), "float32")
    data = None if validation is None else (x, validation * x)
    with pytest.raises(keras_tuner.errors.FailedTrialError, match=message):
        hypermodel.fit(
            *arguments, x, scale * x, validation_data=data, verbose=0
        )


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:.*has not reached its end")
def test_hyperband_continues_the_temperature(tmp_path):
    temperatures = {}

    class Recorder(tuning.ReceptiveFieldHyperModel):
        def fit(self, hp, model, *args, **kwargs):
            history = super().fit(hp, model, *args, **kwargs)
            key = hp["temperature"], kwargs["initial_epoch"]
            temperatures[key] = history.history["temperature"]
            return history

    def anneal(hp, field):
        return [Schedule({"temperature": (field["temperature"], 0.1)}, 100)]

    tuner = keras_tuner.Hyperband(
        Recorder(build_number, 1, (0.5, 2.0), callbacks=anneal),
        directory=tmp_path,
        objective="loss",
        max_epochs=2,
        factor=2,
        seed=1,
    )
    x = np.ones((8, 1), "float32")
    tuner.search(x, 2 * x, batch_size=1, verbose=0)
    continued = {first for first, start in temperatures if start == 1}
    assert continued
    for first in continued:
        per_epoch = 8 * (first - 0.1) / 100
        assert temperatures[first, 0] == pytest.approx([first - per_epoch])
        assert temperatures[first, 1] == pytest.approx([first - 2 * per_epoch])


class LossAtDelay(keras.callbacks.Callback):
    """As on the page about searches, at any price."""

    def __init__(self, price):
        super().__init__()
        self.price = price

    def on_epoch_end(self, epoch, logs):
        cost = self.price * logs["val_look_mean_delay"]
        logs["at_delay"] = logs["val_loss"] + cost


@pytest.mark.long
# Of two positions none is read by the recurrent kernel.
@pytest.mark.filterwarnings("ignore:Gradients do not exist")
def test_the_largest_size_does_not_win_at_a_price(tmp_path):
    """Each answer is the next token: one step of delay is worth it."""
    tokens = np.random.default_rng(0).integers(4, size=(256, 12))
    answers = np.roll(tokens, -1, axis=1)

    def build(hp, field):
        x = keras.Input((12,), dtype="int32")
        look = LookAhead(name="look", track_statistics=True, seed=0, **field)
        y = keras.layers.Dense(4)(look(keras.ops.one_hot(x, 4)))
        model = keras.Model(x, y)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.Adam(0.03), loss)
        return model

    hypermodel = tuning.ReceptiveFieldHyperModel(
        build, (1, 4), 1.0, {"window": (4,)}, layer=LookAhead
    )
    for price, allowed in ((0.0, {2, 3, 4}), (0.1, {2})):
        score = LossAtDelay(price)
        tuner = keras_tuner.GridSearch(
            hypermodel,
            directory=tmp_path,
            project_name=f"at {price}",
            objective=keras_tuner.Objective("at_delay", "min"),
            seed=0,
        )
        data = {"validation_split": 0.25, "batch_size": 32, "epochs": 15}
        tuner.search(tokens, answers, callbacks=[score], verbose=0, **data)
        assert tuner.get_best_hyperparameters()[0]["max_size"] in allowed


def test_booleans_are_chosen_as_such():
    """The layer refuses the ints that KerasTuner makes of them."""
    hypermodel = tuning.ReceptiveFieldHyperModel(
        build_model, max_size=2, choices={"unit_forget_bias": (False, True)}
    )
    hp = keras_tuner.HyperParameters()
    for chosen in (False, True):
        hp.values["unit_forget_bias"] = int(chosen)
        layer = hypermodel.build(hp).get_layer("field")
        assert layer.get_config()["unit_forget_bias"] is chosen


def test_seeds_are_chosen_too():
    hypermodel = tuning.ReceptiveFieldHyperModel(
        lambda hp, field: field, choices={"seed": (1, 2)}
    )
    assert hypermodel.build(keras_tuner.HyperParameters())["seed"] == 1


def test_callbacks_of_a_search():
    hypermodel, *arguments = trial(max_size=1)
    x = np.ones((2, 1), "float32")
    own = keras.callbacks.History()
    hypermodel.fit(*arguments, x, x, callbacks=own, verbose=0)
    assert len(own.history["loss"]) == 1
    hypermodel.fit(*arguments, x, x, callbacks=None, verbose=0)
    for schedule in (Schedule({"temperature": (1, 0.1)}), ExploreThenCommit()):
        with pytest.raises(ValueError, match="as its `callbacks`. Received"):
            hypermodel.fit(*arguments, x, x, callbacks=[schedule], verbose=0)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"max_size": (0, 2)}, "`max_size`.*max_size=0"),
        ({"max_size": (3, 2)}, "max_size.*greater"),
        ({"max_size": (1, 2, 3, 4)}, "`max_size` must be.*Received: max_size="),
        ({"max_size": (1, 8, 0)}, "step.*above 0.*Received: max_size="),
        ({"max_size": (2, 6), "sequence_length": 5}, "must not exceed.*=5"),
        ({"temperature": (0.0, 1.0)}, "temperature.*0.0"),
        ({"temperature": (1.0, np.inf)}, "temperature=inf"),
        ({"choices": {"summary": ("mean", "middle")}}, "`summary`.*'middle'"),
        ({"choices": {"summary": ()}}, "`values` must be provided"),
        ({"choices": {"gate": ("all",)}}, "gate"),
        ({"choices": {"summary": ("mean",)}, "layer": LookAhead}, "summary"),
        ({"layer": keras.layers.LSTM}, "`layer` must be"),
        ({"choices": {"max_size": (2, 4)}}, "must not have `max_size`"),
    ],
)
def test_hypermodels_that_cannot_be(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        tuning.ReceptiveFieldHyperModel(print, **options)
