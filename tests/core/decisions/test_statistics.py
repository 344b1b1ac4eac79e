"""The metrics of decisions: listed once, and kept outside a context alone."""

import threading

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_seqmech import FocusedHierarchicalEncoder
from keras_seqmech import PolicyGradientModel
from keras_seqmech import ReceptiveFieldRNN
from keras_seqmech.core.decisions import choices
from keras_seqmech.core.decisions import statistics


def field(**options):
    cell = keras.layers.SimpleRNNCell(2)
    return ReceptiveFieldRNN(
        cell, 3, track_statistics=True, name="field", **options
    )


class Block(keras.layers.Layer):
    """A layer of one's own around another."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def build(self, shape):
        self.layer.build(shape)

    def call(self, x, training=False):
        return self.layer(x, training=training)


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.block = Block(Block(field()))

    def call(self, x, training=False):
        return self.block(x, training=training)


def functional(layer):
    x = keras.Input((6, 2))
    return keras.Model(x, layer(x))


def encoder():
    x = keras.Input((6, 2))
    layer = FocusedHierarchicalEncoder(2, track_statistics=True)
    return keras.Model(x, layer(x, x[:, 0]))


MODELS = {
    "sequential": lambda: keras.Sequential([field()]),
    "functional": lambda: functional(field()),
    "nested": lambda: functional(functional(field())),
    "subclassed": Subclassed,
    "wrapped": lambda: functional(keras.layers.Bidirectional(field())),
    "encoder": encoder,
    "policy": lambda: PolicyGradientModel(
        functional(field(estimator="reinforce"))
    ),
}


@pytest.mark.parametrize("kind", MODELS)
def test_each_is_returned_once(kind):
    model = MODELS[kind]()
    model.compile("sgd", "mse", run_eagerly=True)
    x, y = np.ones((2, 6, 2)), np.ones((2, 1))
    history = model.fit(x, y, verbose=0).history
    by_name = model.evaluate(x, y, verbose=0, return_dict=True)
    assert sorted(by_name) == sorted(history)
    assert len(model.evaluate(x, y, verbose=0)) == len(by_name)
    expected = {"wrapped": 15, "encoder": 6}.get(kind, 8)
    assert len(by_name) == expected


@pytest.mark.parametrize(
    ("p", "certain"),
    [
        # Nothing is decided, though the likelier value has 0.94.
        ([0.06] * 50, 0),
        # Two open gates amid many closed ones: which is certain?
        ([0.95, 0.95] + [0.001] * 100, 1.9 / 2),
        ([0.95, 0.75] + [0.001] * 100, 0.95 / 1.8),
        ([0.94] * 50, 1),
        ([0.0] * 50, 0),
    ],
)
def test_few_open_gates_are_certain_by_themselves(p, certain):
    p = tf.constant([p])
    counted = statistics.DecisionStatistics("a", "openness", "entropy", 2)
    counted(choices.decided_steps(p, p, p, None), p > 0.5, None)
    np.testing.assert_allclose(counted.certain.result(), certain, rtol=1e-5)


def test_within_the_context_of_a_thread_none_are_kept():
    seen = []

    def note():
        seen.append(statistics.is_active())

    note()
    with pytest.raises(RuntimeError), statistics.without_statistics():
        with statistics.without_statistics():
            note()
        note()
        thread = threading.Thread(target=note)
        thread.start()
        thread.join()
        raise RuntimeError
    note()
    assert seen == [True, False, False, True, True]
