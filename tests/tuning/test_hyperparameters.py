"""Hyperparameters: what is drawn, what a range may be."""

import math

import numpy as np
import pytest

keras_tuner = pytest.importorskip("keras_tuner")
pytest.importorskip("tensorboard")

from keras_seqmech import ExploreThenCommit  # noqa: E402
from keras_seqmech import TemperatureAnnealing  # noqa: E402
from keras_seqmech import tuning  # noqa: E402


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
            print, max_size=(2, 6), sequence_length=5
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
