"""Decisions of layers wherever a model calls them.

That they are what each layer returns, and of loaded models, is a contract:
`tests/conformance/test_contracts.py`.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from keras_seqmech import AttentionPooling
from keras_seqmech import BoundaryGate
from keras_seqmech import FocusedHierarchicalEncoder
from keras_seqmech import KeepMask
from keras_seqmech import LookAhead
from keras_seqmech import MaxAttentionPooling
from keras_seqmech import PolicyGradientModel
from keras_seqmech import ReceptiveFieldRNN
from keras_seqmech import ReceptiveFieldWindows
from keras_seqmech import RFCell
from keras_seqmech import analysis

X = np.random.default_rng(0).normal(size=(5, 7, 3)).astype("float32")
IDS = np.array([[1, 2, 3, 4, 0, 0], [2, 2, 1, 3, 4, 1]])


def field(**options):
    options = {"return_sequences": True, "name": "field", **options}
    return ReceptiveFieldRNN(layers.GRUCell(3), 3, **options)


def returned(layer, x, **call):
    """What a layer with the same weights returns that is told to."""
    twin = type(layer).from_config({**layer.get_config(), "return_field": True})
    twin.build(x.shape)
    twin.set_weights(layer.get_weights())
    return twin(x, **call)[-1]


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-6)


def test_both_directions_in_wrappers():
    ids = keras.Input((None,), dtype="int32")
    embedding = layers.Embedding(5, 3, mask_zero=True)
    both = layers.Bidirectional(field())
    pooling = AttentionPooling(name="pooling")
    model = keras.Model(ids, pooling(KeepMask(both)(embedding(ids))))
    found = analysis.decisions(model, IDS)
    assert list(found) == ["forward_field", "backward_field", "pooling"]
    for layer in (both.forward_layer, both.backward_layer):
        expected = returned(layer, embedding(IDS), mask=IDS != 0)
        assert_same(found[layer.name], expected)
    # A row that is padded begins, from its end, with masked steps.
    assert (found["backward_field"]["size"][0, :2] == 0).all()
    assert (found["pooling"]["attention_scores"][IDS == 0] == 0).all()


def test_nested_models_and_layers_called_again():
    """Repeated names are numbered, and never the name of another layer."""
    x = keras.Input((None, 3))
    shared, first, second = field(), field(), field(name="field_1")
    inner = keras.Model(x, first(x))
    y = shared(shared(inner(x)))
    model = keras.Model(x, second(y))
    found = analysis.decisions(model, X)
    assert list(found) == ["field", "field_2", "field_3", "field_1"]
    once = first(X)
    twice = shared(once)
    assert_same(found["field"], returned(first, X))
    assert_same(found["field_2"], returned(shared, once))
    assert_same(found["field_3"], returned(shared, twice))
    assert_same(found["field_1"], returned(second, shared(twice)))


class Reader(keras.Model):
    """Asks, with layers in attributes and lists, of inputs by name."""

    def __init__(self):
        super().__init__()
        self.field = field(track_statistics=True)
        self.gates = [BoundaryGate(4, name="gate")]

    def call(self, inputs):
        gates = self.gates[0](self.field(inputs["x"]), inputs["question"])
        return keras.ops.sum(gates, axis=1)


def test_subclassed_models_in_batches():
    model, question = Reader(), X[:, 0]
    inputs = {"x": X, "question": question}
    model(inputs)
    count = model.field.statistics.mean_delay.count
    before = count.numpy()
    found = analysis.decisions(model, inputs, batch_size=2)
    assert count.numpy() == before > 0  # It is no evaluation.
    assert list(found) == ["field", "gate"]
    assert_same(found["field"], returned(model.field, X))
    gates = model.gates[0](model.field(X), question)
    np.testing.assert_array_equal(found["gate"]["gates"], gates)
    np.testing.assert_array_equal(
        model.predict(inputs, verbose=0), found["gate"]["gates"].sum(axis=1)
    )


def test_states_and_seeds_of_the_model_stay_as_they_are():
    x = keras.Input(batch_shape=(5, 7, 3))
    stateful = field(stateful=True, inference="sample")
    model = keras.Model(x, stateful(x))
    model.predict(X, batch_size=5, verbose=0)
    kept = [stateful.states[0], *model.non_trainable_variables]
    before = [variable.numpy() for variable in kept]
    analysis.decisions(model, X, batch_size=5)
    for variable, value in zip(kept, before):
        np.testing.assert_array_equal(variable, value)


def test_the_network_of_a_training_model():
    """The encoder shows its gate's decisions as its own."""
    x, question = keras.Input((None, 3)), keras.Input((2,))
    encoder = FocusedHierarchicalEncoder(
        4, estimator="reinforce", return_focused=True, name="encoder"
    )
    focused, mask = encoder(x, question)
    pooled = MaxAttentionPooling(name="pooling")(focused, mask=mask)
    model = PolicyGradientModel(keras.Model([x, question], pooled))
    inputs = [X, X[:, 0, :2]]
    found = analysis.decisions(model, inputs)
    assert list(found) == ["encoder", "pooling"]
    gates = found["encoder"].pop("gates")
    assert found["encoder"].keys() == {
        "probabilities",
        "log_probability",
        "indices",
    }
    np.testing.assert_array_equal(
        gates, found["encoder"]["probabilities"] > 0.5
    )
    count = gates.sum(axis=1).astype(int)
    scores = found["pooling"]["attention_scores"]
    assert scores.shape[1] == count.max()
    np.testing.assert_allclose(scores.sum(axis=1), count > 0, rtol=1e-5)


class GatedCell(layers.Layer):
    """A cell in which a gate decides, within the loop of Keras."""

    state_size = output_size = 3

    def __init__(self):
        super().__init__()
        self.gate = BoundaryGate(2, name="gate")

    def build(self, shape):
        self.gate.build((None, 1, shape[-1]), (None, 3))

    def call(self, x, states):
        gate = self.gate(x[:, None], states[0])
        return states[0] + gate * x, [states[0] + gate * x]


def test_what_is_decided_within_loops_of_keras():
    """It is left out; where nothing else is decided, an error says why."""
    x = keras.Input((None, 3))
    cell = RFCell(layers.GRUCell(3), 2)
    windows = ReceptiveFieldWindows(2)(x)
    y = layers.RNN(cell, return_sequences=True)(windows)
    y = layers.RNN(GatedCell(), return_sequences=True)(y)
    model = keras.Model(x, y)
    with pytest.raises(ValueError, match="in loops .'gate'., others"):
        analysis.decisions(model, X)
    model = keras.Model(x, AttentionPooling(name="pooling")(y))
    assert list(analysis.decisions(model, X)) == ["pooling"]


def test_steps_of_a_time_distributed_layer_are_calls():
    x = keras.Input((2, 7, 3))
    pooling = AttentionPooling(name="pooling")
    model = keras.Model(x, layers.TimeDistributed(pooling)(x))
    found = analysis.decisions(model, np.stack([X, 2 * X], axis=1))
    assert list(found) == ["pooling", "pooling_1"]
    for scores, factor in zip(found.values(), (1, 2)):
        logits = factor * X @ pooling.query.numpy()
        expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(
            scores["attention_scores"], expected, rtol=1e-5
        )


@pytest.mark.parametrize("model", [Reader(), layers.Dense(1), None])
def test_what_is_no_built_model(model):
    with pytest.raises(ValueError, match="`model` must be a built .*Received"):
        analysis.decisions(model, X)


@pytest.mark.parametrize(
    "inputs",
    [X[:0], X.tolist(), {}, [], None, 1.0, tf.data.Dataset.range(0).batch(2)],
)
def test_inputs_without_a_row_and_lists(inputs):
    x = keras.Input((None, 3))
    model = keras.Model(x, LookAhead(2)(x))
    with pytest.raises(ValueError, match="`inputs` must hold arrays.*Received"):
        analysis.decisions(model, inputs)


def test_models_that_only_run_eagerly():
    class Eager(keras.Model):
        def __init__(self):
            super().__init__()
            self.pooling = MaxAttentionPooling(name="pooling")

        def call(self, x):
            return self.pooling(x) * float(np.max(x.numpy()))

    model = Eager()
    model.compile(run_eagerly=True)
    model(X)
    found = analysis.decisions(model, X)["pooling"]["attention_scores"]
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-6)


def test_batches_of_other_lengths_are_padded():
    x = keras.Input((None, 3))
    model = keras.Model(x, MaxAttentionPooling(name="pooling")(x))
    batches = [X[:2, :5], X[2:]]
    spec = tf.TensorSpec((None, None, 3))
    data = tf.data.Dataset.from_generator(
        lambda: iter(batches), output_signature=spec
    ).apply(tf.data.experimental.assert_cardinality(2))
    found = analysis.decisions(model, data)["pooling"]["attention_scores"]
    assert found.shape == (5, 7) and not found[:2, 5:].any()
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-6)
