"""Searches: what is chosen, what a trial does, what a kill leaves behind."""

import contextlib
import gc
import importlib
import io
import json
import math
import socket
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

keras_tuner = pytest.importorskip("keras_tuner")
pytest.importorskip("tensorboard")

from keras_seqmech import ExploreThenCommit  # noqa: E402
from keras_seqmech import ReceptiveFieldRNN  # noqa: E402
from keras_seqmech import TemperatureAnnealing  # noqa: E402
from keras_seqmech import tuning  # noqa: E402
from keras_seqmech.analysis import plots  # noqa: E402
from keras_seqmech.tuning import search_folder  # noqa: E402

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*(currentThread|getName):DeprecationWarning"
)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """KerasTuner collects garbage before each trial, which takes a second."""
    monkeypatch.setattr(gc, "collect", lambda: 0)


FIELD = {"max_size", "summary", "estimator", "temperature"}


def draws(choose, count=60):
    """Values that a random search draws, by hyperparameter."""
    hp = keras_tuner.HyperParameters()
    choose(hp)
    oracle = keras_tuner.oracles.RandomSearchOracle(
        "loss", max_trials=count, seed=3, hyperparameters=hp
    )
    found = [oracle.populate_space("")["values"] for _ in range(count)]
    return {name: [v[name] for v in found if name in v] for name in hp.values}


@pytest.mark.parametrize(
    "choose, name, low, high",
    [
        (tuning.choose_max_size, "max_size", 1, 8),
        (tuning.choose_temperature, "temperature", 0.1, 2.0),
        (tuning.choose_openness_target, "openness_target", 0.05, 0.5),
        (tuning.choose_sparsity_weight, "sparsity_weight", 1e-3, 1.0),
        (tuning.choose_exploration, "exploration", 0.1, 3.0),
        (tuning.choose_exploration, "price", 2e-3, 0.1),
        (tuning.choose_exploration, "commitment", 0.02, 0.5),
        (tuning.choose_target, "target", 0.05, 0.5),
    ],
)
def test_values_are_drawn_from_the_whole_range(choose, name, low, high):
    values = np.array(draws(choose)[name])
    assert values.min() >= low and values.max() <= high
    if isinstance(low, int):
        assert set(values) == set(range(low, high + 1))
        return
    logarithmic = name not in ("openness_target", "target")
    middle = math.sqrt(low * high) if logarithmic else (low + high) / 2
    # Half of 60 draws, give or take four standard deviations.
    assert abs((values > middle).sum() - 30) < 4 * math.sqrt(60) / 2


def test_steps_and_numbers_that_are_not_searched():
    def choose(hp):
        tuning.choose_temperature(hp, (0.25, 2), step=2)
        tuning.choose_max_size(hp, (2, 8), step=3)
        assert tuning.choose_temperature(hp, 0.7, name="other") == 0.7
        assert tuning.choose_max_size(hp, 4, name="another") == 4
        assert tuning.choose_sparsity_weight(hp, 0) == 0

    found = draws(choose)
    assert set(found["temperature"]) == {0.25, 0.5, 1.0, 2.0}
    assert set(found["max_size"]) == {2, 5, 8}
    assert set(found["other"]) == {0.7} and set(found["another"]) == {4}


@pytest.mark.parametrize(
    "choose, value, message",
    [
        (tuning.choose_temperature, (0, 1), "`temperature`.*temperature=0"),
        (tuning.choose_temperature, -1.0, "`temperature`.*temperature=-1.0"),
        (tuning.choose_temperature, (1, 0.5), "low up to high"),
        (tuning.choose_temperature, (1, 2, 3), r"a range \(low, high\)"),
        (tuning.choose_temperature, (1, math.inf), "temperature=inf"),
        (tuning.choose_max_size, (0, 3), "`max_size`.*max_size=0"),
        (tuning.choose_max_size, (1, 2.5), "`max_size`.*max_size=2.5"),
        (tuning.choose_openness_target, (0.1, 1.5), "openness_target=1.5"),
        (tuning.choose_openness_target, (0, 0.5), "openness_target=0"),
        (tuning.choose_sparsity_weight, (0, 1), "sparsity_weight=0"),
        (tuning.choose_sparsity_weight, -2, "sparsity_weight=-2"),
        (tuning.choose_summary, ("mean", "middle"), "`summaries`.*'middle'"),
        (tuning.choose_summary, "mean", "`summaries`"),
        (tuning.choose_target, (-1, 1), "`target`.*target=-1"),
        (tuning.choose_gated, ("memory", "c"), "`gated`.*'c'"),
        (tuning.choose_size_from, "field", "`size_from`"),
        (tuning.choose_estimator, (), "`estimators`"),
        (tuning.choose_estimator, ("relaxed", "relaxed"), "each once"),
    ],
)
def test_ranges_that_cannot_be(choose, value, message):
    with pytest.raises(ValueError, match=message):
        choose(keras_tuner.HyperParameters(), value)


def test_sizes_over_the_sequence_length():
    hp = keras_tuner.HyperParameters()
    assert tuning.choose_max_size(hp, (2, 6), sequence_length=6) == 2
    message = "`max_size` must not exceed.*sequence_length=5.*max_size=.2, 6."
    with pytest.raises(ValueError, match=message):
        tuning.choose_max_size(hp, (2, 6), sequence_length=5)
    with pytest.raises(ValueError, match=message):
        tuning.ReceptiveFieldHyperModel(
            build_model, max_size=(2, 6), sequence_length=5
        )


def test_annealing_is_chosen_with_its_last_temperature():
    hp = keras_tuner.HyperParameters()
    hp.values = {"temperature_schedule": "linear", "final_temperature": 0.25}
    annealing = tuning.choose_annealing(hp, steps=4, initial=0.75)
    assert isinstance(annealing, TemperatureAnnealing)
    assert [annealing.value(i) for i in (0, 2, 4, 9)] == pytest.approx(
        [0.75, 0.5, 0.25, 0.25]
    )
    hp = keras_tuner.HyperParameters()
    hp.values = {"temperature_schedule": "fixed"}
    assert tuning.choose_annealing(hp, steps=4, initial=0.75) is None
    assert "final_temperature" not in hp.values
    for argument, value in (
        ("final_temperature", (0, 1)),
        ("schedules", ("cosine",)),
        ("steps", 0),
    ):
        options = {"steps": 3, "schedules": ("linear",), argument: value}
        with pytest.raises(ValueError, match=f"`{argument}`"):
            tuning.choose_annealing(
                keras_tuner.HyperParameters(), initial=1.0, **options
            )


def test_exploration_is_chosen_with_the_default_times():
    default = ExploreThenCommit()
    hp = keras_tuner.HyperParameters()
    hp.values = {"exploration": 0.3, "commitment": 0.2}
    chosen = tuning.choose_exploration(hp, steps=7, price=None)
    assert chosen.steps == 7 and set(hp.values) == {"exploration", "commitment"}
    expected = {
        **default.ramps,
        "entropy_weight": default.ramps["entropy_weight"]._replace(initial=0.3),
        "indecision_weight": default.ramps["indecision_weight"]._replace(
            final=0.2
        ),
        "temperature": None,
    }
    assert chosen.ramps == expected
    off = tuning.choose_exploration(hp, price=0, layer_names=["field"])
    assert off.ramps["cost_weight"].final == 0 and off.layer_names == ["field"]
    for argument, value in (
        ("exploration", (0, 1)),
        ("price", -1.0),
        ("commitment", (0.5, 0.1)),
        ("steps", 0),
    ):
        with pytest.raises(ValueError, match=f"`{argument}`"):
            tuning.choose_exploration(
                keras_tuner.HyperParameters(), **{argument: value}
            )


class TraceCounter(keras.layers.Layer):
    """Counts how often Python runs it."""

    traces = 0

    def call(self, x):
        TraceCounter.traces += 1
        return x


def build_model(hp, field):
    assert set(field) == FIELD
    layers = [
        keras.Input((3, 2)),
        TraceCounter(),
        ReceptiveFieldRNN(
            keras.layers.SimpleRNNCell(3), seed=1, name="field", **field
        ),
        keras.layers.Dense(1),
    ]
    model = keras.Sequential(layers)
    model.compile("sgd", loss="mse")
    return model


@pytest.mark.long
def test_a_trial_follows_its_temperature_without_retracing(tmp_path):
    seen, traces = [], []

    class Recorder(keras.callbacks.Callback):
        """The temperature of every step; shared by all its copies."""

        def __deepcopy__(self, memo):
            return Recorder()

        def on_train_begin(self, logs=None):
            seen.append([])
            traces.append(TraceCounter.traces)

        def on_train_batch_end(self, batch, logs=None):
            layer = self.model.get_layer("field")
            seen[-1].append(float(layer.temperature))

        def on_train_end(self, logs=None):
            traces[-1] = TraceCounter.traces - traces[-1]

    hypermodel = tuning.ReceptiveFieldHyperModel(
        build_model,
        max_size=(1, 2),
        temperature=(0.5, 2.0),
        final_temperature=0.1,
        schedules=("fixed", "exponential", "linear"),
        annealing_steps=4,
        sequence_length=3,
    )
    tuner = tuning.open_search(
        keras_tuner.RandomSearch,
        hypermodel,
        tmp_path,
        "sweep",
        objective="loss",
        max_trials=3,
        seed=2,
    )
    x = np.random.default_rng(0).normal(size=(12, 3, 2)).astype("float32")
    tuner.search(
        x,
        x[:, 0, :1],
        batch_size=4,
        epochs=2,
        callbacks=[Recorder()],
        verbose=0,
    )
    results = tuning.trial_results(tuner.project_dir)
    assert [result.status for result in results] == ["COMPLETED"] * 3
    schedules = {r.values["temperature_schedule"] for r in results}
    assert schedules == {"fixed", "exponential", "linear"}
    assert len({r.values["temperature"] for r in results}) == 3
    for result, temperatures in zip(results, seen):
        first = result.values["temperature"]
        progress = np.minimum(1, np.arange(6) / 4)
        expected = {
            "fixed": np.full(6, first),
            "exponential": first * (0.1 / first) ** progress,
            "linear": first + (0.1 - first) * progress,
        }[result.values["temperature_schedule"]]
        np.testing.assert_allclose(temperatures, expected, rtol=1e-5)
    # One batch shape, two epochs of changing temperatures: one trace a trial.
    assert traces == [1] * 3


@pytest.mark.long
def test_a_search_of_what_sizes_cost(tmp_path):
    """KerasTuner's random search: each trial has what was drawn for it."""
    fields, seen = [], []

    def build(hp, field):
        fields.append(field)
        layers = [
            keras.Input((3, 2)),
            ReceptiveFieldRNN(keras.layers.LSTMCell(2), name="field", **field),
            keras.layers.Dense(1),
        ]
        model = keras.Sequential(layers)
        model.compile("sgd", loss="mse", jit_compile=False)
        return model

    class Recorder(keras.callbacks.Callback):
        """What the first and last step are trained with."""

        def __deepcopy__(self, memo):
            return Recorder()

        def on_train_batch_end(self, batch, logs=None):
            layer = self.model.get_layer("field")
            names = ("entropy_weight", "cost_weight", "indecision_weight")
            numbers = [float(getattr(layer.costs, name)) for name in names]
            seen.append([*numbers, float(layer.temperature)])

    hypermodel = tuning.ReceptiveFieldHyperModel(
        build,
        max_size=(2, 3),
        gated=("memory", "output", "all"),
        size_from=("input", "field"),
        exploration=(0.01, 0.5),
        price=(0.01, 0.1),
        exploration_steps=2,
    )
    tuner = tuning.open_search(
        keras_tuner.RandomSearch,
        hypermodel,
        tmp_path,
        "sweep",
        objective="loss",
        max_trials=3,
        seed=2,
    )
    x = np.random.default_rng(0).normal(size=(9, 3, 2)).astype("float32")
    fields.clear()
    tuner.search(
        x, x[:, 0, :1], batch_size=3, callbacks=[Recorder()], verbose=0
    )
    results = tuning.trial_results(tuner.project_dir)
    assert [result.status for result in results] == ["COMPLETED"] * 3
    commitment = ExploreThenCommit().ramps["indecision_weight"].final
    first, last = seen[::3], seen[2::3]
    for i, values in enumerate(result.values for result in results):
        for name in ("gated", "size_from"):
            assert fields[i][name] == values[name]
        assert "target" not in fields[i] and "commitment" not in values
        temperature = values["temperature"]
        assert first[i] == pytest.approx(
            [values["exploration"], 0, 0, temperature]
        )
        # After two steps the schedule is over.
        assert last[i] == pytest.approx(
            [0, values["price"], commitment, temperature]
        )
    assert len({result.values["price"] for result in results}) == 3


def test_a_target_is_an_argument_of_the_layer():
    given = {"target": (1.5, 2.0), "target_weight": 3.0, "max_size": (2, 4)}
    hypermodel = tuning.ReceptiveFieldHyperModel(print, **given)
    field, _ = hypermodel.choose(keras_tuner.HyperParameters())
    assert (field["target"], field["target_weight"]) == (1.5, 3.0)
    assert hypermodel.choose_exploration(keras_tuner.HyperParameters()) is None


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
    model = keras.Sequential([keras.Input((1,)), Number(name="number")])
    rate = 1e30 if field["max_size"] > 2 else 0.1
    optimizer = keras.optimizers.SGD(rate, momentum=0.5)
    model.compile(optimizer, loss="mse", run_eagerly=True)
    return model


@pytest.mark.long
def test_trials_that_diverge_fail_and_the_search_goes_on(tmp_path, caplog):
    hypermodel = tuning.ReceptiveFieldHyperModel(
        build_number, max_size=(1, 6), temperature=1.0, summaries=("mean",)
    )
    tuner = tuning.open_search(
        keras_tuner.GridSearch,
        hypermodel,
        tmp_path,
        "sweep",
        objective="loss",
        max_trials=6,
    )
    x = np.ones((8, 1), "float32")
    tuner.search(x, 2 * x, batch_size=1, epochs=2, verbose=0)
    results = tuning.trial_results(tuner.project_dir)
    status = {r.values["max_size"]: r.status for r in results}
    # Four in a row: more than the three after which KerasTuner gives up.
    assert status == {
        size: "COMPLETED" if size <= 2 else "FAILED" for size in range(1, 7)
    }
    failed = [r for r in results if r.status == "FAILED"]
    assert all(
        r.score is None
        and "FailedTrialError: Training diverged: loss is " in r.message
        and r.message.endswith("in epoch 1.")
        for r in failed
    )
    assert "Training diverged" in caplog.text
    table = tuning.results_table(results, "loss", maximize=False)
    assert "| failed: " in table.splitlines()[-1]
    assert tuner.get_best_hyperparameters()[0]["max_size"] <= 2


def test_a_last_step_that_diverges_fails_a_trial():
    """The only step of the only epoch: its loss is finite."""
    hypermodel = tuning.ReceptiveFieldHyperModel(build_number, max_size=6)
    hp = keras_tuner.HyperParameters()
    model = hypermodel.build(hp)
    x = np.ones((4, 1), "float32")
    message = "number/offset is not finite after the last step"
    with pytest.raises(keras_tuner.errors.FailedTrialError, match=message):
        hypermodel.fit(hp, model, x, 1e10 * x, verbose=0)


def test_a_validation_loss_that_is_no_number_fails_a_trial():
    hypermodel = tuning.ReceptiveFieldHyperModel(build_number, max_size=1)
    hp = keras_tuner.HyperParameters()
    model = hypermodel.build(hp)
    x = np.ones((4, 1), "float32")
    with pytest.raises(
        keras_tuner.errors.FailedTrialError, match="val_loss is nan in epoch 1"
    ):
        hypermodel.fit(
            hp, model, x, x, validation_data=(x, np.nan * x), verbose=0
        )


@pytest.mark.long
def test_hyperband_continues_the_temperature(tmp_path):
    temperatures = {}

    class Recorder(tuning.ReceptiveFieldHyperModel):
        def fit(self, hp, model, *args, **kwargs):
            history = super().fit(hp, model, *args, **kwargs)
            start = kwargs["initial_epoch"]
            key = hp["temperature"], start
            temperatures[key] = history.history["temperature"]
            return history

    hypermodel = Recorder(
        build_number,
        max_size=1,
        temperature=(0.5, 2.0),
        final_temperature=0.1,
        schedules=("linear",),
        annealing_steps=100,
    )
    tuner = tuning.open_search(
        keras_tuner.Hyperband,
        hypermodel,
        tmp_path,
        "sweep",
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


@pytest.mark.parametrize("callbacks", [None, keras.callbacks.History()])
def test_callbacks_may_be_none_or_one(callbacks):
    hypermodel = tuning.ReceptiveFieldHyperModel(build_number, max_size=1)
    hp = keras_tuner.HyperParameters()
    model = hypermodel.build(hp)
    x = np.ones((2, 1), "float32")
    hypermodel.fit(hp, model, x, x, callbacks=callbacks, verbose=0)
    assert callbacks is None or len(callbacks.history["loss"]) == 1


def test_callbacks_that_would_move_what_is_searched():
    hypermodel = tuning.ReceptiveFieldHyperModel(build_number, max_size=1)
    hp = keras_tuner.HyperParameters()
    model = hypermodel.build(hp)
    x = np.ones((2, 1), "float32")
    own = TemperatureAnnealing(final=0.1, steps=5)
    with pytest.raises(ValueError, match="temperature is searched.*Received"):
        hypermodel.fit(hp, model, x, x, callbacks=[own], verbose=0)
    with pytest.raises(ValueError, match="`temperature=None`. Received"):
        hypermodel.fit(hp, model, x, x, callbacks=ExploreThenCommit())
    named = TemperatureAnnealing(final=0.1, steps=1, layer_names=["number"])
    hypermodel.fit(hp, model, x, x, callbacks=[named], verbose=0)
    assert float(model.get_layer("number").temperature) == pytest.approx(0.1)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"build_model": None}, "`build_model`"),
        ({"temperature": (0.0, 1.0)}, "`temperature`.*temperature=0.0"),
        ({"temperature": 1.0, "schedules": ("cosine",)}, "`schedules`"),
        ({"schedules": ("fixed", "linear")}, "`annealing_steps`"),
        ({"estimators": ("exact",)}, "`estimators`"),
        ({"temperature_step": 1.0}, "`step`"),
        ({"size_step": 0}, "`step`"),
        ({"gated": ("h",)}, "`gated`"),
        ({"size_from": ()}, "`size_from`"),
        ({"exploration": (0.0, 1.0)}, "`exploration`.*exploration=0.0"),
        ({"price": -1}, "`price`"),
        ({"commitment": 1, "exploration_steps": 0}, "`steps`"),
        ({"target": (1, 2), "max_size": (1, 4)}, "`target`.*smallest S, 1"),
        ({"target": 0.5, "max_size": 4}, "`target`.*target=0.5"),
        ({"target": 2, "max_size": 4, "price": 0.1}, "`price`.*target=2"),
        ({"target_weight": 0}, "`target_weight`"),
    ],
)
def test_hypermodels_that_cannot_be(options, message):
    with pytest.raises(ValueError, match=message):
        tuning.ReceptiveFieldHyperModel(**{"build_model": print, **options})


class Counted(tuning.ReceptiveFieldHyperModel):
    """Trains nothing; its score is S. Counts what it ran."""

    def __init__(self, fails=(), **options):
        self.ran, self.began = [], 0
        self.fails = fails
        defaults = {"max_size": (1, 4), "temperature": (0.5, 2.0)}
        super().__init__(build_number, **{**defaults, **options})

    def fit(self, hp, model, *args, **kwargs):
        self.began += 1
        if hp["max_size"] in self.fails:
            raise RuntimeError("no trial of this size")
        self.ran.append((hp["max_size"], hp["temperature"]))
        for callback in kwargs["callbacks"]:  # One of them saves weights.
            callback.set_model(model)
            callback.on_epoch_end(0, {})
        return {"score": float(hp["max_size"])}


def search(hypermodel, folder, tuner=keras_tuner.RandomSearch, **options):
    if tuner is not keras_tuner.Hyperband:
        options = {"max_trials": 4, **options}
    options = {"seed": 5, **options}
    objective = keras_tuner.Objective("score", "max")
    tuner = tuning.open_search(
        tuner, hypermodel, folder, "sweep", objective=objective, **options
    )
    tuner.search(verbose=0)
    return tuner


def test_a_search_that_is_done_is_continued_with_more_trials(tmp_path):
    first, second = Counted(), Counted()
    search(first, tmp_path)
    search(second, tmp_path)
    assert (len(first.ran), len(second.ran)) == (4, 0)
    tuner = search(second, tmp_path, max_trials=6)
    assert len(second.ran) == 2
    assert len({*first.ran, *second.ran}) == 6
    search(second, tmp_path, max_trials=11)
    numbers = [int(r.trial_id) for r in tuning.trial_results(tuner.project_dir)]
    assert numbers == list(range(11))
    del second.ran[2:]
    assert tuner.oracle.get_best_trials()[0].score == max(
        size for size, _ in first.ran + second.ran
    )
    search(second, tmp_path, overwrite=True)
    assert second.ran[2:] == first.ran


@pytest.mark.parametrize(
    "options, difference",
    [
        ({"hypermodel": Counted(max_size=(1, 5))}, "`space.*4 there, 5 here"),
        ({"settings": {"epochs": 2}}, "`settings.epochs`: 1 there, 2 here"),
        ({"tuner": keras_tuner.BayesianOptimization}, "`tuner`"),
        ({"seed": 6}, "`keywords.seed`: 5 there, 6 here"),
    ],
)
def test_folders_of_another_search(tmp_path, options, difference):
    defaults = {"hypermodel": Counted(), "settings": {"epochs": 1}}
    search(**defaults, folder=tmp_path, max_trials=1)
    message = f"holds another search.*{difference}.*Received: directory="
    with pytest.raises(ValueError, match=message):
        search(**{**defaults, **options}, folder=tmp_path, max_trials=1)


def test_a_folder_of_a_search_that_says_nothing(tmp_path):
    plain = keras_tuner.RandomSearch(
        Counted(),
        keras_tuner.Objective("score", "max"),
        max_trials=1,
        directory=str(tmp_path),
        project_name="sweep",
    )
    plain.search(verbose=0)
    with pytest.raises(ValueError, match="does not say what.*Received"):
        search(Counted(), tmp_path)
    assert len(list(tmp_path.glob("sweep/trial_*"))) == 1
    search(Counted(), tmp_path, overwrite=True)
    assert len(list(tmp_path.glob("sweep/trial_*"))) == 4


def test_a_search_that_cannot_be_leaves_its_folder_free(tmp_path):
    with pytest.raises(ValueError, match="max_trails"):
        search(Counted(), tmp_path, max_trails=1)
    assert not list(tmp_path.glob("sweep/*"))
    # As a chief that is killed before its first trial.
    (tmp_path / "sweep" / "tuner0.json").write_text("{}")
    (tmp_path / "sweep" / "trial_9").mkdir()
    search(Counted(), tmp_path, max_trials=1)
    assert len(list(tmp_path.glob("sweep/trial_*"))) == 1


@pytest.mark.parametrize(
    "argument, value",
    [
        ("tuner_class", "random"),
        ("tuner_class", keras_tuner.oracles.RandomSearchOracle),
        ("hypermodel", None),
        ("directory", None),
        ("project_name", ""),
        ("project_name", ".."),
        ("project_name", "a/b"),
        ("project_name", None),
        ("settings", {"path": object()}),
        ("settings", 3),
    ],
)
def test_searches_that_cannot_be(tmp_path, argument, value):
    options = {
        "tuner_class": keras_tuner.RandomSearch,
        "hypermodel": print,
        "directory": tmp_path / "searches",
        "project_name": "sweep",
        argument: value,
    }
    message = f"`{argument}` must be.*Received: {argument}="
    with pytest.raises(ValueError, match=message):
        tuning.open_search(**options)
    assert not list(tmp_path.iterdir())


class Killed(BaseException):
    """No handler of errors catches it."""


@pytest.mark.long
@pytest.mark.parametrize(
    "tuner, step, options",
    [
        (keras_tuner.RandomSearch, 1, {"max_trials": 2}),
        (keras_tuner.Hyperband, 5, {"max_epochs": 2, "factor": 2}),
    ],
)
def test_a_kill_between_writes_loses_and_repeats_no_trial(
    tmp_path, monkeypatch, tuner, step, options
):
    write, open_file, left = search_folder.write, tf.io.gfile.GFile, []

    def write_or_die(path, content):
        left[-1] -= 1
        if not left[-1]:
            raise Killed
        write(path, content)

    def open_to_die(path, mode="r"):
        """A file of KerasTuner, which a kill leaves empty, or cut."""
        file = open_file(path, mode)
        if "w" not in mode or not str(path).endswith(".json"):
            return file

        def write_half(text, write=file.write):
            left[-1] -= 1
            if not left[-1]:
                write(text[: len(text) // 2 * (len(left) // 2 % 2)])
                raise Killed
            write(text)

        file.write = write_half
        return file

    monkeypatch.setattr(search_folder, "write", write_or_die)
    monkeypatch.setattr(tf.io.gfile, "GFile", open_to_die)

    def run(folder, writes):
        left.append(writes)
        runs = Counted(fails=[2])
        search(runs, folder, tuner, **options)
        return runs

    def finished(folder):
        found = 0
        for file in folder.glob("sweep/trial_*/trial.json"):
            with contextlib.suppress(json.JSONDecodeError):
                status = json.loads(file.read_text())["status"]
                found += status in ("COMPLETED", "FAILED")
        return found

    whole = run(tmp_path / "whole", 10**6)
    writes = 10**6 - left[-1]
    expected = tuning.trial_results(tmp_path / "whole" / "sweep")
    # At least two files at the begin of a trial, one as it reports, two at
    # its end, and the backups of all but the report.
    assert writes > 9 * len(expected)
    for at in range(1, writes + 1, step):
        folder = tmp_path / str(at)
        with pytest.raises(Killed):
            run(folder, at)
        done = finished(folder)
        second = run(folder, 10**6)
        results = tuning.trial_results(folder / "sweep")
        assert [(r.status, r.score, r.values) for r in results] == [
            (r.status, r.score, r.values) for r in expected
        ]
        assert second.began == whole.began - done


@pytest.mark.parametrize("content", [None, "", "{}", "[]", "null", "3"])
@pytest.mark.parametrize(
    "name", ["oracle.json", "trial_0/trial.json", "search.json"]
)
def test_files_that_are_cut_or_of_another_kind(tmp_path, name, content):
    tuner = search(Counted(), tmp_path, max_trials=1)
    (result,) = tuning.trial_results(tuner.project_dir)
    path = tmp_path / "sweep" / name
    path.write_text(path.read_text()[:-5] if content is None else content)
    backup = search_folder.backup_path(path)
    if backup.exists():
        assert tuning.trial_results(tuner.project_dir)
        second = Counted()
        search(second, tmp_path, max_trials=1)
        assert second.began == (name == "trial_0/trial.json")
        assert tuning.trial_results(tuner.project_dir) == [result]
        path.write_text(content or "{")
        backup.unlink()
    message = rf"{name}: expected JSON of.*cannot continue.*Received: "
    with pytest.raises(ValueError, match=message):
        search(Counted(), tmp_path, max_trials=2)
    if name == "trial_0/trial.json":
        with pytest.raises(ValueError, match=message):
            tuning.trial_results(tuner.project_dir)


def test_the_oracle_of_a_search_is_that_of_its_tuner(tmp_path, capsys):
    tuner = search(Counted(), tmp_path, max_trials=1)
    assert tuner.oracle.objective.name == "score"
    assert tuner.oracle.verbose == 0
    tuner.search_space_summary()
    tuner.results_summary()
    assert "Trial 0 summary" in capsys.readouterr().out
    with pytest.raises(AttributeError, match="no_such_name"):
        assert tuner.oracle.no_such_name


@pytest.fixture
def address(monkeypatch):
    """The environment of a worker whose chief is not there."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    monkeypatch.setenv("KERASTUNER_TUNER_ID", "worker0")
    monkeypatch.setenv("KERASTUNER_ORACLE_IP", "127.0.0.1")
    monkeypatch.setenv("KERASTUNER_ORACLE_PORT", str(port))
    return port


def test_a_chief_that_is_missing(address, tmp_path):
    assert tuning.is_worker() and not tuning.is_chief()
    message = f"No chief.*127.0.0.1:{address}.*after 0.2 seconds. Start it"
    with pytest.raises(TimeoutError, match=message):
        search(Counted(), tmp_path, chief_timeout=0.2)
    assert not list(tmp_path.iterdir())


def test_something_else_that_listens_is_no_chief(address):
    with socket.create_server(("127.0.0.1", address)):
        with pytest.raises(TimeoutError, match="No chief"):
            tuning.wait_for_chief(timeout=0.5)


def test_a_port_that_is_taken(address, monkeypatch, tmp_path):
    monkeypatch.setenv("KERASTUNER_TUNER_ID", "chief")
    assert tuning.is_chief() and not tuning.is_worker()
    tuning.check_port()
    with socket.create_server(("127.0.0.1", address), reuse_port=True):
        message = f"KERASTUNER_ORACLE_PORT={address}: the port is taken"
        with pytest.raises(OSError, match=message):
            search(Counted(), tmp_path)
    assert not list(tmp_path.iterdir())


def test_half_an_address_does_not_search_alone(address, monkeypatch):
    monkeypatch.delenv("KERASTUNER_ORACLE_IP")
    with pytest.raises(ValueError, match="KERASTUNER_ORACLE_IP=None"):
        tuning.is_worker()


@pytest.mark.parametrize(
    "name, value", [("PORT", "http"), ("PORT", "0"), ("PORT", ""), ("IP", "")]
)
def test_addresses_that_are_none(address, monkeypatch, name, value):
    monkeypatch.setenv(f"KERASTUNER_ORACLE_{name}", value)
    with pytest.raises(ValueError, match=f"KERASTUNER_ORACLE_{name}"):
        tuning.wait_for_chief(timeout=0.1)


def test_without_the_extra_the_error_says_how_to_get_it(monkeypatch):
    for name in list(sys.modules):
        if name.startswith("keras_seqmech.tuning"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "keras_tuner", None)
    with pytest.raises(ImportError, match=r"keras_seqmech\[tuning\]"):
        importlib.import_module("keras_seqmech.tuning")


def test_results_table_ranks_trials():
    def result(key, status, score, message=None, **values):
        metrics = {} if score is None else {"test": score / 2}
        return tuning.TrialResult(key, status, score, values, metrics, message)

    results = [
        result("0", "COMPLETED", 0.5, max_size="1|\n", summary="mean"),
        result("1", "FAILED", None, "a | b", max_size=2, summary="mean"),
        result("2", "COMPLETED", 0.75, max_size=3, summary="mean"),
    ]
    table = tuning.results_table(results, "F1", metrics=["test"])
    assert table.splitlines() == [
        "| trial | max_size | F1 | test | status |",
        "| --- | --- | --- | --- | --- |",
        "| 2 | 3 | 0.7500 | 0.3750 | completed |",
        "| 0 | 1\\|  | 0.5000 | 0.2500 | completed |",
        "| 1 | 2 |  |  | failed: a \\| b |",
    ]
    lowest = tuning.results_table(results, maximize=False).splitlines()[2]
    assert lowest.startswith("| 0 ")


def test_sweep_plot_marks_the_best_trial():
    pytest.importorskip("matplotlib")
    sizes, heats = [1, 1, 2, 4, 4], [0.5, 0.5, 1.0, 0.5, 2.0]
    scores = [0.2, 0.4, 0.5, 0.9, 0.1]
    kinds = ["fixed", "fixed", "fixed", "linear", "linear"]
    figure = plots.plot_sweep(sizes, heats, scores, kinds, "F1", title="词")
    figure.savefig(io.BytesIO(), format="png", dpi=40)
    left, right, bar = figure.axes
    fixed, linear, ring = left.collections
    assert fixed.get_offsets().tolist() == [[1, 0.5], [2, 1]]
    # Two trials at one place are shown with their mean.
    assert fixed.get_array().tolist() == pytest.approx([0.3, 0.5])
    assert linear.get_array().tolist() == pytest.approx([0.9, 0.1])
    assert ring.get_offsets().tolist() == [[4, 0.5]]
    assert right.lines[0].get_ydata().tolist() == [0.4, 0.5, 0.9]
    assert bar.get_ylabel() == "F1"
    figure = plots.plot_sweep(sizes, heats, scores, maximize=False)
    assert figure.axes[0].collections[-1].get_offsets().tolist() == [[4, 2]]
    assert figure.axes[1].lines[0].get_ydata().tolist() == [0.2, 0.5, 0.1]


@pytest.mark.parametrize(
    "arguments",
    [
        ([], [], []),
        ([1, 2], [1.0], [0.5, 0.6]),
        ([1, 2], [1.0, 0.0], [0.5, 0.6]),
        ([1, 2], [1.0, 1.0], [0.5, math.nan]),
        ([1, 2], [1.0, 1.0], [0.5, 0.6], ["fixed"]),
    ],
)
def test_sweeps_that_cannot_be_drawn(arguments):
    with pytest.raises(ValueError, match="Received: "):
        plots.plot_sweep(*arguments)
