import threading
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_seqmech import DecisionPenalties
from keras_seqmech import PolicyGradientModel
from keras_seqmech import ReceptiveFieldRNN
from keras_seqmech.core.decisions import reports
from keras_seqmech.training import collect_log_probabilities
from tests import drawing_layers

X = np.random.default_rng(0).normal(size=(3, 4, 3)).astype("float32")


def field_layer(**arguments):
    return ReceptiveFieldRNN(
        keras.layers.GRUCell(2),
        **{"max_size": 3, "estimator": "reinforce", "name": "field"}
        | arguments,
    )


def test_the_innermost_context_collects():
    gates = drawing_layers.Gates(penalty_weight=2.0, name="gates")
    assert reports.current() is None
    with collect_log_probabilities() as outer:
        gates(X, training=True)
        with pytest.raises(KeyError), reports.collect() as inner:
            assert reports.current() is inner
            opened = gates(X, training=True)
            raise KeyError
        gates(X, training=True)
    assert reports.current() is None
    assert (len(outer), len(inner)) == (2, 1)
    (drawn,) = inner
    assert drawn.layer_name == "gates"
    assert drawn.log_probability.shape == (3,)
    np.testing.assert_allclose(drawn.penalty, 2 * np.sum(opened, axis=1))


def test_threads_collect_apart():
    gates = drawing_layers.Gates()
    gates.build(X.shape)
    found = {}

    def work(name, barrier):
        with reports.collect() as decisions:
            barrier.wait()
            gates(X, training=True)
            barrier.wait()
            found[name] = len(decisions)

    barrier = threading.Barrier(2, timeout=60)
    threads = [
        threading.Thread(target=work, args=(name, barrier)) for name in "ab"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {"a": 1, "b": 1}


def test_inference_and_symbolic_calls_report_nothing():
    with reports.collect() as decisions:
        gates = drawing_layers.Gates()
        gates(keras.Input((4, 3)), training=True)
        gates(X)
        field = field_layer(inference="sample")
        field(keras.Input((4, 3)), training=True)
        field(X)
        # A layer without `build` is built by a symbolic run of its call.
        Wrapper()(X, training=True)
    assert len(decisions) == 1
    assert not hasattr(decisions[0].log_probability, "graph")


def test_the_warning_names_the_layers_around():
    with pytest.warns(UserWarning, match="'outer/gates' draws in training"):
        Wrapper(name="outer")(X, training=True)
    with reports.collect() as decisions:
        Wrapper(name="other")(X, training=True)
    assert decisions[0].layer_name == "gates"


class Wrapper(keras.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.gates = drawing_layers.Gates(name="gates")

    def call(self, x, training=None):
        return self.gates(x, training=training)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Gradients do not exist")
@pytest.mark.parametrize(
    "make", [lambda: drawing_layers.Gates(name="field"), field_layer]
)
def test_a_plain_model_warns_once_when_it_first_trains(make):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = keras.Input((4, 3))
        layer = make()
        h = keras.layers.Flatten()(layer(x, training=None))
        model = keras.Model(x, keras.layers.Dense(1)(h))
        model.compile("sgd", "mse")
        model.evaluate(X, np.ones(3), verbose=0)
    message = "'field' draws in training.*PolicyGradientModel"
    with pytest.warns(UserWarning, match=message) as caught:
        model.fit(X, np.ones(3), verbose=0)
        model.compile("sgd", "mse", run_eagerly=True)
        model.fit(X, np.ones(3), verbose=0)
    assert sum("draws in" in str(w.message) for w in caught) == 1
    with pytest.warns(UserWarning, match=message):
        make()(X, training=True)


def test_a_field_of_one_size_draws_nothing():
    layer = field_layer(max_size=1)
    layer(X, training=True)
    model_input = keras.Input((4, 3))
    model = PolicyGradientModel(keras.Model(model_input, layer(model_input)))
    model.compile("sgd", "mse")
    model.fit(X, np.ones((3, 2)), verbose=0)


@pytest.mark.parametrize("go_backwards", [False, True])
def test_fields_report_the_sum_over_real_steps(go_backwards):
    layer = field_layer(return_field=True, go_backwards=go_backwards)
    mask = np.array([[1, 1, 1, 1], [1, 0, 1, 0], [0, 0, 0, 0]], "bool")
    with reports.collect() as decisions:
        _, field = layer(X, mask=mask, training=True)
    (drawn,) = decisions
    assert drawn.layer_name == "field"
    np.testing.assert_array_equal(drawn.penalty, [0, 0, 0])
    expected = np.sum(field["log_probability"], axis=1)
    np.testing.assert_allclose(drawn.log_probability, expected, rtol=1e-6)
    assert np.all(expected[:2] < -0.1)
    assert expected[2] == 0


def test_fields_report_the_price_of_what_was_drawn():
    """Not that of the uncertainty, which has a gradient of its own."""
    layer = field_layer(
        return_field=True,
        penalties=DecisionPenalties(reading=2.0, entropy=4.0, indecision=8.0),
    )
    mask = np.array([[1, 1, 1, 1], [1, 0, 1, 0], [0, 0, 0, 0]], "bool")
    with reports.collect() as decisions:
        _, field = layer(X, mask=mask, training=True)
    # Shares of the rows in the mean over real steps.
    ahead = np.sum(field["size"] - mask, axis=1) * len(mask) / mask.sum()
    assert ahead.any()
    np.testing.assert_allclose(decisions[0].penalty, 2 * ahead, rtol=1e-6)


def test_what_is_recomputed_is_refused():
    """Its log-probability would have no gradient."""
    with keras.RematScope("full"):
        gates = drawing_layers.Gates()
    with pytest.raises(ValueError, match="A layer that draws"):
        gates(X, training=True)


@pytest.mark.parametrize("name", ["log_probability", "penalty"])
def test_shapes_are_checked(name):
    values = {"log_probability": tf.zeros(3), "penalty": tf.zeros(3)}
    values[name] = tf.zeros((3, 4))
    with pytest.raises(ValueError, match=rf"`{name}`.*\(3, 4\).*'gates'"):
        reports.report_log_probability(
            drawing_layers.Gates(name="gates"), **values
        )
