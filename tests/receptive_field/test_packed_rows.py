"""`ReceptiveFieldRNN` over real steps alone, against the loop over all."""

import functools
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_seqmech import ReceptiveFieldRNN
from keras_seqmech.core.kept_steps import Packing
from keras_seqmech.receptive_field import layer as module
from tests.pairs import combinations

# Here layers draw for themselves; nobody is to learn from it.
pytestmark = pytest.mark.filterwarnings("ignore:Layer .* draws in training")

FEATURES, UNITS, SIZE = 3, 4, 3
TIME = 4
PATTERNS = np.array(list(itertools.product([False, True], repeat=TIME)))


lstm, gru, simple = (
    functools.partial(cell, UNITS, dtype="float64")
    for cell in (
        keras.layers.LSTMCell,
        keras.layers.GRUCell,
        keras.layers.SimpleRNNCell,
    )
)
# What a pair of layers is made with; `training` says how they are called.
CASES = [
    {"cell": gru, "size_from": "field", "go_backwards": True},
    *combinations(
        cell=[lstm, gru, simple],
        estimator=["relaxed", "straight_through", "reinforce"],
        size_from=["input", "field"],
        summary=["mean", "last"],
        gated=["output", "memory"],
        zero_output_for_mask=[False, True],
        return_sequences=[True, False],
        training=[True, False],
    ),
    {"cell": lstm, "max_size": 1},
    {"cell": functools.partial(gru, reset_after=False)},
    {"cell": gru, "training": False, "inference": "sample"},
]


def make_pair(cell, **options):
    """A packed and a padded layer of the same weights and seeds."""
    options = {
        "max_size": SIZE,
        "return_sequences": True,
        "return_state": True,
        "return_field": True,
        "seed": 5,
        "dtype": "float64",
        **options,
    }
    pair = [ReceptiveFieldRNN(cell(), **options) for _ in range(2)]
    pair[1].packed = False
    generator = np.random.default_rng(1)
    for layer in pair:
        layer.build((None, None, FEATURES))
    for weights in zip(*(layer.trainable_weights for layer in pair)):
        value = generator.normal(size=weights[0].shape)
        for weight in weights:
            weight.assign(value)
    return pair


def traced(layer, training):
    """All that a layer returns, and all gradients.

    A graph for all batches and lengths.
    """
    vectors = tf.TensorSpec((None, None), "float64")
    sequences = tf.TensorSpec((None, None, FEATURES), "float64")
    mask = tf.TensorSpec((None, None), "bool")
    states = [vectors] * len(keras.tree.flatten(layer.state_size))
    signature = [sequences, mask, states]

    @tf.function(input_signature=signature, autograph=False)
    def run(x, mask, states):
        weights = [v.value for v in layer.trainable_variables]
        sources = (x, list(states), weights)
        with tf.GradientTape() as tape:
            tape.watch(sources)
            outputs = layer(
                x, initial_state=list(states), mask=mask, training=training
            )
            parts = keras.tree.flatten(outputs)
            # Each number counts differently.
            loss = sum(
                tf.reduce_sum(tf.sin(part + tf.cumsum(tf.ones_like(part))))
                for part in parts
            )
        gradients = tape.gradient(loss, sources, unconnected_gradients="zero")
        return outputs, gradients

    return run


def make_arguments(mask, states):
    """Sequences with NaN at masked steps, the mask, and states."""
    generator = np.random.default_rng(2)
    values = generator.normal(size=(*mask.shape, FEATURES))
    x = np.where(mask[..., None], values, np.nan)
    return x, mask, list(generator.normal(size=(states, len(mask), UNITS)))


def random_masks():
    """Batches of other sizes, with gaps, or ending early, or of no step."""
    for seed in range(6):
        generator = np.random.default_rng(seed)
        batch, time = generator.integers(1, 6), generator.integers(1, 9)
        lengths = generator.integers(0, time, size=(batch, 1), endpoint=True)
        gaps = generator.random((batch, time)) < (0.4 if seed % 2 else 0)
        yield (np.arange(time) < lengths) & ~gaps


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=[] if number < 2 else pytest.mark.slow)
        for number, case in enumerate(CASES)
    ],
)
def test_packed_is_padded(case):
    """Values and gradients, for all patterns of a row, and others.

    The noise is drawn by each layer, from the same seed.
    """
    options = dict(case)
    training = options.pop("training", True)
    pair = make_pair(**options)
    packed, padded = (traced(layer, training) for layer in pair)
    states = len(keras.tree.flatten(pair[0].state_size))
    nothing = np.zeros((2, TIME), bool)
    for mask in (PATTERNS, nothing, *random_masks()):
        arguments = make_arguments(mask, states)
        actual, expected = packed(*arguments), padded(*arguments)
        keras.tree.assert_same_structure(actual, expected)
        for a, b in zip(
            keras.tree.flatten(actual), keras.tree.flatten(expected)
        ):
            assert np.all(np.isfinite(b))
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


class OwnCell(keras.layers.SimpleRNNCell):
    """A cell of one's own."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "packs, cell, options, call",
    [
        (True, lstm, {}, {}),
        (True, lstm, {}, {"training": True}),
        (True, lstm, {"jit_compile": True}, {}),
        (True, functools.partial(lstm, dropout=0.5), {}, {}),
        (False, lstm, {}, {"mask": None}),
        (False, lstm, {"jit_compile": True}, {"training": True}),
        (False, functools.partial(lstm, dropout=0.5), {}, {"training": True}),
        (False, lambda: OwnCell(UNITS, dtype="float64"), {}, {}),
        (False, lambda: [lstm(), gru()], {}, {}),
        ("not in XLA", lstm, {}, {}),
    ],
)
def test_loops_pack_where_they_can(packs, cell, options, call, monkeypatch):
    layouts = []
    scan = module.scan

    def noting(*arguments):
        layouts.append(arguments[-1])
        return scan(*arguments)

    monkeypatch.setattr(module, "scan", noting)
    layer = ReceptiveFieldRNN(cell(), SIZE, dtype="float64", **options)
    x, mask = np.ones((2, 3, FEATURES)), np.array([[1, 1, 0], [1, 0, 0]], bool)
    layer.build(x.shape)
    keywords = {"mask": tf.constant(mask), **call}
    in_xla = packs == "not in XLA"
    tf.function(lambda x: layer(x, **keywords), jit_compile=in_xla)(x)
    assert [isinstance(x, Packing) for x in layouts] == [packs is True]


@pytest.mark.parametrize("packed", [True, False])
def test_sizes_known_of_the_inputs_are_known_of_the_outputs(packed):
    layer = ReceptiveFieldRNN(
        lstm(), SIZE, return_sequences=True, dtype="float64"
    )
    layer.packed = packed
    shapes = []

    @tf.function(
        input_signature=[
            tf.TensorSpec((2, 3, FEATURES), "float64"),
            tf.TensorSpec((None, None), "bool"),
        ]
    )
    def run(x, mask):
        shapes.append(layer(x, mask=mask).shape)

    layer.build((2, 3, FEATURES))
    run.get_concrete_function()
    assert {tuple(shape) for shape in shapes} == {(2, 3, UNITS)}


@pytest.mark.long
def test_no_steps_at_run_time_is_a_clear_error(tmp_path):
    x = keras.Input(batch_shape=(2, None, FEATURES), dtype="float64")
    mask = keras.Input(batch_shape=(2, None), dtype="bool")
    layer = ReceptiveFieldRNN(gru(), 1, dtype="float64")
    model = keras.Model([x, mask], layer(x, mask=mask))
    model.export(tmp_path, verbose=False)
    served = tf.saved_model.load(tmp_path)

    def inputs(length):
        x = tf.ones((2, length, FEATURES), "float64")
        return [x, tf.ones((2, length)) > 0]

    for run in (tf.function(model, reduce_retracing=True), served.serve):
        for length in (2, 3):
            run(inputs(length))
        with pytest.raises(
            tf.errors.InvalidArgumentError, match="at least one time step"
        ):
            run(inputs(0))
