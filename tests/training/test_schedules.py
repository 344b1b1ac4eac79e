"""Scheduled variables: their values, and which are found."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_seqmech
from keras_seqmech import LastAttentionPooling
from keras_seqmech import Schedule
from keras_seqmech.training import Ramp


class Numbers(keras.layers.Layer):
    """Returns the sum of its numbers; holds much that is not a number."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.traces = 0

    def build(self, shape):
        self.penalty = self.add_weight(
            name="penalty", trainable=False, constraint="non_neg"
        )
        self.rate = self.add_weight(
            name="rate", initializer="zeros", trainable=False
        )
        self.temperature = self.add_weight(
            name="temperature", initializer="ones", trainable=False
        )
        self.offset = self.add_weight(name="offset", initializer="zeros")
        self.add_weight(name="count", dtype="int32", trainable=False)
        self.add_weight(name="vector", shape=(2,), trainable=False)
        self.seed_generator = keras.random.SeedGenerator(0)
        self.metric = keras.metrics.Mean(name="mean")

    def call(self, inputs):
        self.traces += 1
        numbers = self.penalty + 10 * self.rate + 100 * (self.temperature - 1)
        return 0 * inputs + numbers + self.offset


def numbers(*names):
    layers = [Numbers(name=name) for name in names or ("a",)]
    return keras.Sequential([keras.Input((1,)), *layers])


EAGER = {"run_eagerly": True}


def fit(model, *callbacks, epochs=3, steps=2, compiled=None, **options):
    """Steps that leave the optimizer's variables as they are."""
    if compiled is not None or not model.compiled:
        model.compile(keras.optimizers.SGD(0.0), "mae", **(compiled or EAGER))
    inputs, targets = np.ones((4 * steps, 1)), np.zeros((4 * steps, 1))
    options = {"batch_size": 4, "epochs": epochs, "verbose": 0, **options}
    return model.fit(inputs, targets, callbacks=callbacks, **options).history


@pytest.mark.parametrize("jit_compile", [False, True])
def test_compiled_steps_see_the_values_and_trace_once(jit_compile):
    """Of ramps and functions, beside each other; a second `fit` goes on."""
    model = numbers()
    compiled = {"jit_compile": jit_compile}
    schedule = Schedule(
        {"penalty": lambda share: 4**share, "rate": (3, 1, 0.25, 0.75)}, steps=8
    )
    with pytest.warns(UserWarning, match=r"5 of 8 steps.*`penalty` 2.378, not"):
        first = fit(model, schedule, steps=1, epochs=5, compiled=compiled)
    traces = model.layers[0].traces
    second = fit(model, schedule, steps=1, epochs=5)
    penalty = [4 ** min(i / 8, 1) for i in range(11)]
    rate = [3, 3, 3, 2.5, 2, 1.5, 1, 1, 1, 1, 1]
    # The loss of step i is made of the numbers it ran with.
    seen = np.array(penalty) + 10 * np.array(rate)
    found = {name: first[name] + second[name] for name in first}
    np.testing.assert_allclose(found["loss"], seen[:-1], rtol=1e-6)
    np.testing.assert_allclose(found["penalty"], penalty[1:], rtol=1e-12)
    np.testing.assert_allclose(found["rate"], rate[1:], rtol=1e-12)
    assert model.layers[0].traces == traces
    assert float(model.layers[0].penalty) == 4


def test_variables_of_replicas():
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        model = numbers()
        model.compile("sgd", "mae")
    data = tf.data.Dataset.from_tensors((np.ones((4, 1)), np.zeros((4, 1))))
    schedule = Schedule({"rate": (1.0, 0.5)}, 1)
    model.fit(data, shuffle=False, callbacks=[schedule], verbose=0)
    rate = keras.ops.convert_to_numpy(model.layers[0].rate)
    np.testing.assert_allclose(rate, 0.5)


class Wrapper(keras.layers.Layer):
    """Holds layers where only their wrapper knows."""

    def __init__(self, layer, **kwargs):
        super().__init__(**kwargs)
        self.held = {"layers": [layer]}

    def call(self, inputs):
        return self.held["layers"][0](inputs)


def test_variables_at_any_depth_by_name_or_end_of_path():
    x = keras.Input((1,))
    inner = keras.Model(x, Numbers(name="n")(x), name="inner")
    steps = keras.Input((2, 1))
    timed = keras.layers.TimeDistributed(inner, name="timed")
    outer = keras.Model(steps, Wrapper(timed)(steps), name="outer")
    other = Numbers(name="other")
    model = keras.Sequential([keras.Input((2, 1)), outer, other], name="all")
    model.compile("sgd", "mse")
    n = inner.get_layer("n")
    for name, expected in (
        ("rate", (2.0, 2.0)),
        ("n/rate", (2.0, 0.0)),
        ("other/rate", (0.0, 2.0)),
    ):
        for layer in (n, other):
            layer.rate.assign(0.0)
        schedule = Schedule({name: (2.0, 1.0)}, 1)
        schedule.set_model(model)
        schedule.on_train_begin()
        assert (float(n.rate), float(other.rate)) == expected, name
    # A layer that wraps two, and a cell within a layer.
    field = keras_seqmech.ReceptiveFieldRNN(keras.layers.SimpleRNNCell(2), 2)
    both = keras.layers.Bidirectional(field, name="both")
    model = keras.Sequential([keras.Input((3, 1)), both])
    model.compile("sgd", "mse")
    schedule = Schedule({"temperature": (0.5, 1)}, 1)
    schedule.set_model(model)
    schedule.on_train_begin()
    parts = both.forward_layer, both.backward_layer
    assert [float(part.temperature) for part in parts] == [0.5, 0.5]


def test_schedules_of_chosen_layers_are_told_apart():
    model = numbers("a", "b")
    history = fit(
        model,
        Schedule({"a/rate": (0.0, 1.0)}, 2),
        Schedule({"b/rate": (0.0, 4.0)}, 4),
        Schedule({"penalty": (0.0, 3.0)}),
    )
    assert history["a/rate"] == [1.0, 1.0, 1.0]
    assert history["b/rate"] == [2.0, 4.0, 4.0]
    assert history["penalty"] == [1.0, 2.0, 3.0]
    assert [float(layer.rate) for layer in model.layers] == [1.0, 4.0]


def test_frozen_parts_stay_as_they_are():
    def embed(name):
        x = keras.Input((3, 1))
        pooling = LastAttentionPooling(attention_dropout=0.25, name="pool")
        return keras.Model(x, pooling(keras.layers.Dense(1)(x)), name=name)

    student, teacher, head = embed("student"), embed("teacher"), Numbers()
    teacher.trainable = head.trainable = False
    x = keras.Input((3, 1))
    model = keras.Model(x, head(student(x) - teacher(x)))
    model.compile("sgd", "mse")
    data = np.ones((4, 3, 1)), np.ones((4, 1))
    schedules = [
        Schedule({"attention_dropout": (0.5, 1)}),
        Schedule({"pool/penalty": (0, 1)}),
    ]
    model.fit(*data, callbacks=schedules, verbose=0)
    pools = [part.get_layer("pool") for part in (student, teacher)]
    assert [float(pool.attention_dropout) for pool in pools] == [1.0, 0.25]
    assert [float(pool.penalty) for pool in pools] == [1.0, 0.0]
    schedule = Schedule({"rate": (0, 1)}, 1)
    with pytest.raises(ValueError, match="not frozen.*there are.*Received"):
        model.fit(*data, callbacks=[schedule], verbose=0)


def test_a_model_that_its_first_step_builds():
    model, recorder = keras.Sequential([Numbers(name="a")]), Recorder()
    fit(model, ramp(), recorder, epochs=2)
    assert recorder.seen == [0, 0.25, 0.5, 0.75]
    model = keras.Sequential([Numbers(name="a")])
    fit(model, Schedule({"rate": (3.0, 3.0)}), steps=1, epochs=1)
    assert float(model.layers[0].rate) == 3
    model = keras.Sequential([Numbers(name="a")])
    with pytest.raises(ValueError, match="`numbers`.*Received"):
        fit(model, Schedule({"b/rate": (1.0, 5.0)}))


def test_unknown_names_list_what_there_is():
    for schedule in (
        Schedule({"count": (0, 1)}),
        Schedule({"rate": (0, 1), "vector": (0, 1)}),
        Schedule({"a/rate": (0, 1), "c/rate": (0, 1)}),
    ):
        message = (
            "`numbers` must name.*a/penalty', '.*a/rate', '.*a/temp.*'.*Rec"
        )
        with pytest.raises(ValueError, match=message):
            fit(numbers(), schedule)


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("penalty", (0.0, -1.0), "values that `.*a/penalty` may"),
        ("penalty", lambda share: -1 + share, "values that `.*a/penalty` may"),
        ("temperature", (1.0, 0.0), "above 0.*Received: 0.0 for 'temp"),
        ("rate", lambda share: 1 / share if share else "x", "numbers.'rate'"),
        ("rate", lambda share: np.inf, "must be a finite"),
        ("rate", lambda share: None if share < 1 else 0.5, "must be a finite"),
    ],
)
def test_values_that_a_variable_may_not_have(name, value, message):
    with pytest.raises(ValueError, match=message):
        fit(numbers(), Schedule({name: value}))


@pytest.mark.parametrize(
    "name, value",
    [
        ("numbers", None),
        ("numbers", {}),
        ("numbers", {"rate": 1.0}),
        ("numbers", {"rate": "01"}),
        ("numbers", {"rate": (0, 1, 0.5, 0.5)}),
        ("numbers", {"rate": Ramp(0, float("nan"))}),
        ("numbers", {1: (0, 1)}),
        ("steps", 0),
        ("steps", 2.5),
    ],
)
def test_bad_arguments(name, value):
    arguments = {"numbers": {"rate": (0, 1)}, name: value}
    with pytest.raises(ValueError, match=f"`{name}` must.*Received: {name}="):
        Schedule(**arguments)


def ramp(**options):
    """A schedule whose value is the share of the steps."""
    return Schedule({"rate": (0.0, 1.0)}, **options)


class Recorder(keras.callbacks.Callback):
    """The rate of each step."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def on_train_batch_end(self, batch, logs=None):
        self.seen.append(float(self.model.layers[0].rate))


def test_early_stopping_says_so_once():
    class Stop(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            self.model.stop_training = True

    model, schedule = numbers(), ramp()
    with pytest.warns(UserWarning, match="2 of 6 steps.*`EarlyStopping`"):
        fit(model, schedule, Stop())
    fit(model, schedule, Stop())  # A second warning would be an error.
    fit(model, schedule, epochs=1)
    assert float(model.layers[0].rate) == 1


@pytest.mark.parametrize("made", [3, 2])
def test_steps_that_a_loss_scaler_skips(made, recwarn):
    """They are told of where values have not arrived without them."""
    model = keras.Sequential(
        [keras.Input((1,)), Numbers(), keras.layers.Dense(1)]
    )
    optimizer = keras.optimizers.SGD()
    model.compile(keras.optimizers.LossScaleOptimizer(optimizer), "mse")
    schedule = Schedule({"rate": (0.0, 0.3, 0.0, 0.75)})
    y = np.ones((4, 1))
    y[made:] = np.inf
    model.fit(y * 0, y, 1, shuffle=False, verbose=0, callbacks=[schedule])
    told = [f"{made} of 4 steps" in str(x.message) for x in recwarn.list]
    assert any(told) == (made < 3)


def test_accumulated_gradients_are_one_step():
    for accumulated, shares in ((2, [0, 0.25, 0.5, 0.75]), (4, [0, 0.5])):
        model, recorder = numbers(), Recorder()
        optimizer = keras.optimizers.SGD(
            0.0, gradient_accumulation_steps=accumulated
        )
        model.compile(optimizer, "mae")
        # With 4, the first epoch ends before the first step is made.
        fit(model, ramp(), recorder, epochs=4)
        assert recorder.seen == np.repeat(shares, accumulated).tolist()
        assert float(model.layers[0].rate) == 1


def test_a_schedule_that_is_over_before_it_begins_says_so():
    model = numbers()
    fit(model)
    with pytest.warns(UserWarning, match="over before it begins.*`steps`"):
        fit(model, ramp())


def test_an_initial_epoch_without_steps_before_it():
    """A new optimizer: the schedule is as long as the `fit`."""
    model, recorder = numbers(), Recorder()
    fit(model, ramp(), recorder, initial_epoch=1)
    assert recorder.seen == [0, 0.25, 0.5, 0.75]
    # Given steps stay, and so do those that were made.
    model = numbers()
    with pytest.warns(UserWarning, match="2 of 8 steps"):
        fit(model, ramp(steps=8), initial_epoch=2)
    with pytest.warns(UserWarning, match="4 of 6 steps"):
        fit(model, ramp(), initial_epoch=2)


def test_an_epoch_of_unknown_length_needs_steps():
    def batches():
        while True:
            yield np.ones((2, 1)), np.ones((2, 1))

    schedule, model = ramp(), numbers()
    model.compile("sgd", "mse")
    schedule.set_model(model)
    schedule.set_params({"epochs": 3, "steps": None})
    with pytest.raises(ValueError, match=r"epochs \* batches"):
        schedule.on_train_begin()
    # With them, and steps_per_epoch, a generator is as good as arrays.
    model.fit(
        batches(),
        steps_per_epoch=2,
        shuffle=False,
        verbose=0,
        callbacks=[ramp()],
    )
    assert float(model.layers[0].rate) == 1


class Twice(keras.Model):
    """Makes two steps of each batch."""

    def train_step(self, data):
        super().train_step(data)
        return super().train_step(data)


def test_several_steps_a_batch_need_steps():
    x = keras.Input((2,))
    layer = LastTemperature(name="t")
    model = Twice(x, keras.layers.Dense(1)(layer(x)))
    model.compile("sgd", "mse")
    data = np.ones((2, 2)), np.ones((2, 1))
    schedule = {"temperature": (1.0, 0.5)}
    with pytest.raises(ValueError, match="several steps.*steps=None"):
        model.fit(*data, verbose=0, callbacks=[Schedule(schedule)])
    model.optimizer.iterations.assign(0)
    model.fit(*data, verbose=0, callbacks=[Schedule(schedule, 2)])
    assert float(layer.temperature) == 0.5


class LastTemperature(keras.layers.Layer):
    """Divides by a temperature of few digits."""

    def build(self, shape):
        self.temperature = self.add_weight(
            name="temperature",
            initializer="ones",
            trainable=False,
            dtype="bfloat16",
        )

    def call(self, x):
        return x / keras.ops.cast(self.temperature, x.dtype)


def test_two_callbacks_that_set_one_variable():
    def train(*schedules):
        layers = [LastTemperature(), keras.layers.Dense(1)]
        model = keras.Sequential([keras.Input((1,)), *layers])
        fit(model, *schedules, epochs=2)

    one = {"temperature": (1.0, 0.3)}
    with pytest.warns(UserWarning, match=r"sets the variables \['temperature'"):
        train(Schedule(one), Schedule({"temperature": (1.0, 0.5)}))
    train(Schedule(one))  # What is rounded is no change: no warning.
