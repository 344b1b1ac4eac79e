"""The schedule of decisions: its values, kill and resume, who is moved."""

import copy
import re
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_seqmech import BoundaryGate
from keras_seqmech import Curriculum
from keras_seqmech import DistillationModel
from keras_seqmech import ExpectedSubsample
from keras_seqmech import ExploreThenCommit
from keras_seqmech import ReceptiveFieldRNN
from keras_seqmech import ReceptiveFieldWindows
from keras_seqmech import RFCell
from keras_seqmech.training import exploration

NAMES = ("entropy_weight", "cost_weight", "indecision_weight")


def make_model(**options):
    model = keras.Sequential(
        [
            keras.Input((4, 2)),
            ReceptiveFieldRNN(
                keras.layers.SimpleRNNCell(2), max_size=3, **options
            ),
            keras.layers.Dense(1),
        ]
    )
    model.compile("sgd", "mse")
    return model


def fit(model, epochs, *callbacks, initial_epoch=0):
    """Four steps an epoch."""
    x, y = np.ones((8, 4, 2)), np.ones((8, 1))
    return model.fit(
        x,
        y,
        batch_size=2,
        epochs=epochs,
        initial_epoch=initial_epoch,
        verbose=0,
        callbacks=list(callbacks),
    )


def numbers(model):
    layer = model.layers[0]
    values = [float(getattr(layer.costs, name)) for name in NAMES]
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
        price=(0.0, 0.8, 0.25, 0.75),
        indecision=(0.1, 0.3, 0.5, 1.0),
        temperature=(1.0, 0.5, 0.0, 1.0),
        **options,
    )


def test_numbers_of_every_step_by_hand():
    model, recorder = make_model(), Recorder()
    fit(model, 2, make_schedule(), recorder)
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


@pytest.mark.long
def test_a_resumed_run_continues(tmp_path):
    """Killed after one of two epochs: the same numbers as in one go."""
    whole = Recorder()
    fit(make_model(), 2, make_schedule(), whole)

    class Kill(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if epoch == 1:
                raise KeyboardInterrupt

    def backup():
        return keras.callbacks.BackupAndRestore(tmp_path / "backup")

    parts = Recorder()
    with pytest.raises(KeyboardInterrupt):
        fit(make_model(), 2, make_schedule(), backup(), parts, Kill())
    fit(make_model(), 2, make_schedule(), backup(), parts)
    np.testing.assert_allclose(parts.seen, whole.seen, rtol=1e-6)


@pytest.mark.long
def test_a_second_fit_goes_on_where_the_first_ended():
    model, schedule, recorder = make_model(), make_schedule(), Recorder()
    fit(model, 1, schedule)
    fit(model, 1, schedule, recorder)
    np.testing.assert_allclose(
        recorder.seen, [[0, 0.8, 0.3, 0.5]] * 4, rtol=1e-6
    )


def test_a_number_takes_the_place_of_the_one_that_matters():
    default = ExploreThenCommit().ramps
    ramps = ExploreThenCommit(None, 0.25, 0.125, 0.5, 0.75).ramps
    assert ramps == {
        "entropy_weight": default["entropy_weight"]._replace(initial=0.25),
        "cost_weight": default["cost_weight"]._replace(final=0.125),
        "indecision_weight": default["indecision_weight"]._replace(final=0.5),
        "temperature": default["temperature"]._replace(final=0.75),
    }


def test_steps_may_be_given():
    model, recorder = make_model(), Recorder()
    fit(model, 1, make_schedule(steps=16), recorder)
    np.testing.assert_allclose(recorder.seen[3][3], 1 - 0.5 * 3 / 16, rtol=1e-6)


@pytest.mark.long
def test_variables_of_replicas():
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        model = make_model()
    x = tf.data.Dataset.from_tensors((np.ones((8, 4, 2)), np.ones((8, 1))))
    schedule = ExploreThenCommit(price=0.5)
    model.fit(x, shuffle=False, verbose=0, callbacks=[schedule])
    weight = keras.ops.convert_to_numpy(model.layers[0].costs.cost_weight)
    np.testing.assert_allclose(weight, 0.5)


def test_accumulated_gradients_are_one_step():
    model, recorder = make_model(), Recorder()
    optimizer = keras.optimizers.SGD(gradient_accumulation_steps=2)
    model.compile(optimizer, "mse")
    fit(model, 2, make_schedule(), recorder)
    temperatures = [row[3] for row in recorder.seen]
    expected = np.repeat([1.0, 0.875, 0.75, 0.625], 2)
    np.testing.assert_allclose(temperatures, expected, rtol=1e-6)
    np.testing.assert_allclose(numbers(model), [0, 0.8, 0.3, 0.5], rtol=1e-6)


def test_a_schedule_that_is_over_before_it_begins_says_so():
    model = make_model()
    fit(model, 1)
    with pytest.warns(UserWarning, match="over before it begins.*`steps`"):
        fit(model, 1, make_schedule())


def test_a_target_takes_the_place_of_the_price():
    model = make_model(target=2.0, target_weight=1.0)
    fit(model, 1, make_schedule())
    np.testing.assert_allclose(numbers(model), [0, 0, 0.3, 0.5], rtol=1e-6)


def test_a_target_without_a_weight_leaves_the_price():
    model = make_model(target=2.0)
    fit(model, 1, make_schedule())
    others = make_model()
    fit(others, 1, make_schedule())
    np.testing.assert_array_equal(numbers(model), numbers(others))


def test_a_target_whose_weight_rises_stops_the_price():
    model = make_model(target=2.0)
    weight = Curriculum("target_weight", max_epochs=1)
    fit(model, 2, weight, make_schedule(steps=8))
    after_the_first_epoch = make_schedule().values(4 / 8)
    assert after_the_first_epoch["cost_weight"] > 0
    assert numbers(model)[1] == pytest.approx(
        after_the_first_epoch["cost_weight"]
    )


def test_what_is_none_stays():
    model = make_model(entropy_weight=0.25, temperature=0.75)
    fit(model, 1, ExploreThenCommit(entropy=None, temperature=None))
    found = numbers(model)
    assert found[0] == 0.25
    assert found[3] == 0.75


@pytest.mark.parametrize("duplicate", [lambda x: x, copy.deepcopy])
@pytest.mark.parametrize("estimator", ["expectation", "straight_through"])
def test_what_draws_nothing_does_not_explore(estimator, duplicate):
    """Nor with a copy of the callback, as KerasTuner makes it."""
    x = keras.Input((6, 1))
    short = ExpectedSubsample(
        3, estimator=estimator, entropy_weight=0.25, name="short"
    )(x, keras.ops.sigmoid(x[..., 0]))
    model = keras.Model(x, keras.layers.Dense(1)(short))
    model.compile("sgd", "mse")
    model.fit(
        np.ones((2, 6, 1)),
        np.ones((2, 3, 1)),
        verbose=0,
        callbacks=[duplicate(ExploreThenCommit(entropy=(0.5, 0.5, 0, 1)))],
    )
    costs = model.get_layer("short").costs
    if estimator == "expectation":
        assert float(costs.entropy_weight) == 0.25
        expected = exploration.INDECISION_IN_EXPECTATION.final
    else:
        assert float(costs.entropy_weight) == 0.5
        expected = exploration.INDECISION.final
    np.testing.assert_allclose(costs.indecision_weight, expected, rtol=1e-6)


@pytest.mark.long
def test_every_layer_that_decides_is_scheduled_or_those_named():
    x, q = keras.Input((6, 3)), keras.Input((2,))
    gates = BoundaryGate(4, name="gate")(x, q)
    short = ExpectedSubsample(3, name="short")(x, gates)
    outputs, _ = ReceptiveFieldRNN(
        keras.layers.GRUCell(2), 2, return_field=True, name="field"
    )(short)
    model = keras.Model([x, q], keras.layers.Dense(1)(outputs))
    model.compile("sgd", "mse")
    data = [np.ones((4, 6, 3)), np.ones((4, 2))], np.ones((4, 1))
    layers = [model.get_layer(name) for name in ("gate", "short", "field")]

    def prices():
        return [float(layer.costs.cost_weight) for layer in layers]

    some = ExploreThenCommit(layer_names=["short"])
    model.fit(*data, verbose=0, callbacks=[some])
    model.optimizer.iterations.assign(0)
    np.testing.assert_allclose(prices(), [0, 0.02, 0], rtol=1e-6)
    model.fit(*data, verbose=0, callbacks=[ExploreThenCommit()])
    np.testing.assert_allclose(prices(), [0.02] * 3, rtol=1e-6)


@pytest.mark.parametrize(
    "arguments",
    [
        {"steps": 0},
        {"entropy": -0.1},
        {"entropy": True},
        {"price": "12"},
        {"entropy": 10**400},
        {"price": float("nan")},
        {"temperature": 0.0},
        {"entropy": (0.1,)},
        {"price": (0.0, -1.0, 0.0, 1.0)},
        {"price": (0.0, float("inf"), 0.0, 1.0)},
        {"indecision": (0.0, 0.1, 0.5, 0.5)},
        {"entropy": (1.0, 0.0, 0.0, 1.0, 0.0)},
        {"entropy": (1.0, 0.0, 0.0, 1.0, float("nan"))},
        {"temperature": (1.0, 0.0, 0.0, 1.0)},
        {"layer_names": "field"},
        {"layer_names": []},
    ],
)
def test_bad_arguments(arguments):
    ((name, value),) = arguments.items()
    received = re.escape(f"Received: {name}={value!r}")
    with pytest.raises(ValueError, match=f"`{name}`.*{received}$"):
        ExploreThenCommit(**arguments)


def test_a_model_that_its_first_step_builds():
    layer = ReceptiveFieldRNN(keras.layers.SimpleRNNCell(2), max_size=3)
    model = keras.Sequential([layer, keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    seen = []

    class Seen(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            seen.append(float(layer.costs.entropy_weight))

    schedule = ExploreThenCommit(entropy=(0.8, 0.0, 0.0, 1.0))
    fit(model, 1, schedule, Seen())
    np.testing.assert_allclose(seen, [0, 0.6, 0.4, 0.2], rtol=1e-6)


def test_models_without_decisions_and_unknown_names():
    plain = keras.Sequential([keras.Input((4, 2)), keras.layers.Dense(1)])
    plain.compile("sgd", "mse")
    with pytest.raises(ValueError, match="a layer that decides"):
        plain.fit(
            np.ones((2, 4, 2)),
            np.ones((2, 4, 1)),
            verbose=0,
            callbacks=[ExploreThenCommit()],
        )
    with pytest.raises(ValueError, match="`layer_names`.*'other'"):
        fit(make_model(), 1, ExploreThenCommit(layer_names=["other"]))


def test_an_epoch_of_unknown_length_needs_steps():
    def batches():
        while True:
            yield np.ones((2, 4, 2)), np.ones((2, 1))

    schedule = ExploreThenCommit()
    schedule.set_model(make_model())
    schedule.set_params({"epochs": 3, "steps": None})
    with pytest.raises(ValueError, match="`steps` must be given"):
        schedule.on_train_begin()
    # With them, and steps_per_epoch, a generator is as good as arrays.
    model = make_model()
    model.fit(
        batches(),
        steps_per_epoch=2,
        shuffle=False,
        epochs=2,
        verbose=0,
        callbacks=[make_schedule()],
    )
    np.testing.assert_allclose(numbers(model), [0, 0.8, 0.3, 0.5], rtol=1e-6)


def test_an_initial_epoch_without_steps_before_it():
    """A new optimizer: the schedule is as long as the `fit`."""
    model, recorder = make_model(), Recorder()
    fit(model, 3, make_schedule(), recorder, initial_epoch=1)
    temperatures = [row[3] for row in recorder.seen]
    np.testing.assert_allclose(
        temperatures, 1 - 0.5 * np.arange(8) / 8, rtol=1e-6
    )
    # Given steps stay, and so do those that were made.
    model = make_model()
    fit(model, 3, make_schedule(steps=16), initial_epoch=2)
    np.testing.assert_allclose(numbers(model)[3], 1 - 0.5 * 4 / 16, rtol=1e-6)
    fit(model, 3, make_schedule(), initial_epoch=2)
    np.testing.assert_allclose(numbers(model)[3], 1 - 0.5 * 8 / 12, rtol=1e-6)


def test_a_later_epoch_before_the_first_step():
    """An epoch may end before enough gradients are accumulated."""
    model, recorder = make_model(), Recorder()
    optimizer = keras.optimizers.SGD(gradient_accumulation_steps=8)
    model.compile(optimizer, "mse")
    fit(model, 4, make_schedule(), recorder)
    temperatures = [row[3] for row in recorder.seen]
    np.testing.assert_allclose(temperatures, np.repeat([1.0, 0.75], 8))


def test_all_layers_of_a_name_are_scheduled():
    x = keras.Input((4, 2))
    layers, y = [], x
    for _ in range(2):
        layer = ReceptiveFieldRNN(
            keras.layers.SimpleRNNCell(2), 2, return_sequences=True
        )
        layers.append(layer)
        y = layer(y)
    model = keras.Model(x, keras.layers.Dense(1)(y[:, 0]))
    model.compile("sgd", "mse")
    fit(model, 1, ExploreThenCommit(layer_names=["rf_cell"], price=0.5))
    assert [float(layer.costs.cost_weight) for layer in layers] == [0.5, 0.5]


def test_a_cell_in_a_loop_of_keras_is_warned_of():
    """Its weights would move, and have no effect."""
    model = keras.Sequential(
        [
            keras.Input((4, 2)),
            ReceptiveFieldWindows(2),
            keras.layers.RNN(RFCell(keras.layers.GRUCell(2), 2, name="mine")),
            keras.layers.Dense(1),
        ]
    )
    model.compile("sgd", "mse")
    with pytest.warns(UserWarning, match=r"`ReceptiveFieldRNN` only.*'mine'"):
        fit(model, 1, ExploreThenCommit())


def test_a_cell_of_a_model_that_is_not_built_is_warned_of_once():
    model = keras.Sequential(
        [
            ReceptiveFieldWindows(2),
            keras.layers.RNN(RFCell(keras.layers.GRUCell(2), 2, name="mine")),
            keras.layers.Dense(1),
        ]
    )
    model.compile("sgd", "mse")
    with warnings.catch_warnings(record=True) as recorded:
        warnings.simplefilter("always")
        fit(model, 1, ExploreThenCommit())
    found = [
        x for x in recorded if "`ReceptiveFieldRNN` only" in str(x.message)
    ]
    assert len(found) == 1


def test_a_layer_that_is_never_called_is_named():
    class TwoFields(keras.Model):
        def __init__(self):
            super().__init__()
            self.called, self.spare = (
                ReceptiveFieldRNN(keras.layers.GRUCell(1), 2, name=name)
                for name in ("called", "spare")
            )

        def build(self, shape):
            self.called.build(shape)

        def call(self, x, training=False):
            return self.called(x, training=training)

    model = TwoFields()
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match=r"`layer_names`.*\['spare'\] were"):
        fit(model, 1, ExploreThenCommit())
    fit(model, 1, ExploreThenCommit(layer_names=["called"], price=0.5))
    assert float(model.called.costs.cost_weight) == 0.5


def test_a_frozen_teacher_stays_as_it_is():
    def make_encoder():
        x = keras.Input((4, 2))
        layer = ReceptiveFieldRNN(keras.layers.SimpleRNNCell(2), 2)
        return keras.Model(x, layer(x)), layer

    (student, learns), (teacher, stays) = make_encoder(), make_encoder()
    model = DistillationModel(student, teacher)
    model.compile("sgd")
    model.fit(
        np.ones((2, 4, 2)), verbose=0, callbacks=[ExploreThenCommit(price=0.5)]
    )
    assert float(learns.costs.cost_weight) == 0.5
    assert float(stays.costs.cost_weight) == 0
    assert float(stays.temperature) == 1
