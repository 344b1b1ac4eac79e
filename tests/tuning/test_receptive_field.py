"""Searches over receptive fields: what a trial does, and which fail."""

import keras
import numpy as np
import pytest

keras_tuner = pytest.importorskip("keras_tuner")
pytest.importorskip("tensorboard")

from keras_seqmech import ExploreThenCommit  # noqa: E402
from keras_seqmech import ReceptiveFieldRNN  # noqa: E402
from keras_seqmech import TemperatureAnnealing  # noqa: E402
from keras_seqmech import tuning  # noqa: E402
from tests.tuning.searches import build_number  # noqa: E402

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*(currentThread|getName):DeprecationWarning"
)

FIELD = {"max_size", "summary", "estimator", "temperature"}


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
