"""Training by chunks of time against loops written by hand."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_seqmech.initial_state import LearnedInitialState
from keras_seqmech.receptive_field import LookAhead
from keras_seqmech.receptive_field import ReceptiveFieldRNN
from keras_seqmech.training import TruncatedBackpropagationModel
from tests.conformance.registry import fields

UNITS = 4
BATCH = 5
OPTIONS = {"return_sequences": True, "return_state": True}
MODES = {
    "eager": {"run_eagerly": True},
    "xla": {"jit_compile": True},
}


def draw(*shape, seed=0):
    """Normal numbers that float32, which `fit` casts to, holds exactly."""
    values = np.random.default_rng(seed).normal(size=shape)
    return values.astype("float32").astype("float64")


def data(length, rows=BATCH):
    """Inputs, a mask of any pattern, targets, and weights of real steps."""
    mask = np.random.default_rng(5).random((rows, length)) < 0.7
    inputs = {"x": draw(rows, length, 3), "mask": mask}
    weights = mask * np.random.default_rng(6).random((rows, length))
    return inputs, draw(rows, length, 2, seed=1), weights.astype("float32")


def parts():
    """Two recurrent layers and a head; the first learns where it starts."""
    keras.utils.set_random_seed(1)
    lstm = keras.layers.LSTM(UNITS, **OPTIONS)
    return (
        LearnedInitialState(lstm, "random_normal"),
        keras.layers.GRU(UNITS, **OPTIONS),
        keras.layers.Dense(2),
    )


def build(chunk_length=None, length=None):
    """The model of `parts`, a plain one if there is no chunk length."""
    first, second, head = parts()
    x = keras.Input((length, 3), name="x")
    mask = keras.Input((length,), dtype="bool", name="mask")
    h, *_ = first(x, mask=mask)
    h, *_ = second(h, mask=mask)
    # Keras' losses would leave out masked steps if the mask came with these.
    outputs = head(h) * 1.0
    network = keras.Model({"x": x, "mask": mask}, outputs)
    if chunk_length is None:
        return network
    return TruncatedBackpropagationModel(network, chunk_length=chunk_length)


def train_by_hand(chunk_length, length, batches):
    """Weights after one pass, and the losses of all chunks."""
    first, second, head = parts()
    optimizer = keras.optimizers.Adam(0.05)
    losses = []
    for inputs, y, weights in batches:
        before = [None, None]
        for start in range(0, length, chunk_length):
            cut = slice(start, start + chunk_length)
            x, mask = inputs["x"][:, cut], inputs["mask"][:, cut]
            with tf.GradientTape() as tape:
                h, *after = first(x, mask=mask, initial_state=before[0])
                h, *more = second(h, mask=mask, initial_state=before[1])
                errors = ops.mean(ops.square(head(h) - y[:, cut]), axis=-1)
                loss = ops.mean(errors * weights[:, cut])
            variables = [
                v
                for layer in (first, second, head)
                for v in layer.trainable_variables
                if start == 0 or not v.name.startswith("initial_state")
            ]
            if not optimizer.built:
                optimizer.build(variables)
            optimizer.apply(tape.gradient(loss, variables), variables)
            before = keras.tree.map_structure(
                tf.stop_gradient, [list(after), list(more)]
            )
            losses.append(float(loss))
    layers = (first, second, head)
    return [w for layer in layers for w in layer.get_weights()], losses


@pytest.mark.parametrize(
    "length, mode",
    [
        (10, "eager"),
        (3, "eager"),
        pytest.param(12, "xla", marks=pytest.mark.long),
    ],
)
def test_against_a_loop_by_hand(length, mode):
    """Chunks of 4: two and a short one, a short one, three."""
    keras.config.set_dtype_policy("float64")
    model = build(4)
    loss = keras.losses.MeanSquaredError(dtype="float64")
    model.compile(keras.optimizers.Adam(0.05), loss, **MODES[mode])
    inputs, y, weights = data(length, 2 * BATCH)
    start = model.get_weights()
    history = model.fit(
        inputs,
        y,
        sample_weight=weights,
        batch_size=BATCH,
        shuffle=False,
        verbose=0,
    ).history
    halves = [slice(0, BATCH), slice(BATCH, None)]
    batches = [
        ({k: v[rows] for k, v in inputs.items()}, y[rows], weights[rows])
        for rows in halves
    ]
    expected, losses = train_by_hand(4, length, batches)
    for before, result, value in zip(start, model.get_weights(), expected):
        assert (before != value).any()
        np.testing.assert_allclose(result, value, rtol=1e-8, atol=1e-10)
    steps = np.diff([*range(0, length, 4), length])
    loss = np.average(losses, weights=np.tile(steps, 2))
    np.testing.assert_allclose(history["loss"], [loss], rtol=1e-5)
    assert int(model.optimizer.iterations) == len(losses) == 2 * len(steps)


@pytest.mark.parametrize(
    "is_scaled", [False, pytest.param(True, marks=pytest.mark.slow)]
)
def test_accumulated_gradients(is_scaled):
    """Learned initial states keep theirs, which they have in one chunk of 3."""
    model = build(2)
    optimizer = keras.optimizers.SGD(1.0, gradient_accumulation_steps=3)
    if is_scaled:
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    model.compile(optimizer, "mse", run_eagerly=not is_scaled)
    inputs, y, _ = data(6)
    first = {name: x[:, :2] for name, x in inputs.items()}
    learned = model.network.layers[2].initial_states
    with tf.GradientTape() as tape:
        errors = model.network(first, training=True) - y[:, :2]
        loss = ops.mean(ops.square(errors))
    gradients = tape.gradient(loss, [v.value for v in learned])
    expected = [v - g / 3 for v, g in zip(learned, gradients)]
    model.fit(inputs, y, verbose=0)
    for result, value in zip(learned, expected, strict=True):
        np.testing.assert_allclose(result, value, rtol=1e-4, atol=1e-6)


def test_one_chunk_is_ordinary_training():
    """Evaluation and prediction are the network's, whatever the chunks."""
    keras.config.set_dtype_policy("float64")
    inputs, y, weights = data(7)
    results, scores = [], []
    for model in (build(9), build(), build(3)):
        model.compile("rmsprop", "mse", metrics=["mae"], run_eagerly=True)
        scores.append(model.evaluate(inputs, y, 3, 0, weights))
        scores[-1].append(model.predict(inputs, verbose=0).sum())
        history = model.fit(inputs, y, sample_weight=weights, verbose=0).history
        results.append([*model.get_weights(), *history.values()])
    assert scores[0] == scores[1] == scores[2]
    for result, expected in zip(*results[:2]):
        np.testing.assert_allclose(result, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.long
def test_lengths_that_vary_share_a_graph():
    lengths = (7, 2, 4, 8, 9)
    batches = [data(length) for length in lengths]
    spec = keras.tree.map_structure(
        lambda x: tf.TensorSpec((BATCH, None, *x.shape[2:]), x.dtype),
        batches[0],
    )
    dataset = tf.data.Dataset.from_generator(
        lambda: iter(batches), output_signature=spec
    )
    eager, graph = build(4), build(4)
    eager.compile("sgd", "mse", run_eagerly=True)
    for batch in batches:
        eager.train_on_batch(*batch)
    graph.compile("sgd", "mse")
    history = graph.fit(
        dataset, steps_per_epoch=len(batches), shuffle=False, verbose=0
    ).history
    assert np.isfinite(history["loss"])
    for result, value in zip(graph.get_weights(), eager.get_weights()):
        np.testing.assert_allclose(result, value, rtol=1e-4, atol=1e-6)


@pytest.mark.long
def test_graph_does_not_grow_with_the_sequence():
    traced = []

    class Probe(keras.layers.Layer):
        def call(self, inputs):
            traced.append(inputs.shape[1])
            return inputs

    x = keras.Input((None, 3))
    h, *_ = keras.layers.SimpleRNN(UNITS, **OPTIONS)(x)
    model = TruncatedBackpropagationModel(
        keras.Model(x, Probe()(h)), chunk_length=4
    )
    model.compile("sgd", "mse")
    counts = []
    for length in (14, 42):
        traced.clear()
        model.make_train_function(force=True)
        model.train_on_batch(draw(2, length, 3), draw(2, length, UNITS))
        assert max(traced) == 4
        counts.append(len(traced))
    assert counts[0] == counts[1]


def outputs_in_training(network, chunk_length, x):
    """What the loss sees of each chunk, joined in time."""
    seen = []

    def loss(y, y_pred):
        seen.append(y_pred.numpy())
        return ops.mean(y_pred * 0, axis=-1)

    model = TruncatedBackpropagationModel(network, chunk_length=chunk_length)
    model.compile(keras.optimizers.SGD(0.0), loss, run_eagerly=True)
    model.train_on_batch(x, np.zeros(x.shape[:2]))
    return np.concatenate(seen, axis=1)


def test_masks_that_keras_passes_on():
    tokens = keras.Input((None,), dtype="int32")
    h = keras.layers.Embedding(9, 3, mask_zero=True)(tokens)
    h, *_ = keras.layers.LSTM(UNITS, **OPTIONS)(h)
    network = keras.Model(tokens, keras.layers.Dense(2)(h))
    values = np.random.default_rng(0).integers(1, 9, (4, 8)) * (
        np.arange(8) < np.array([[8], [5], [2], [0]])
    )
    values[0, 3:5] = 0
    found = outputs_in_training(network, 3, values)
    expected = network(values).numpy()
    real = values > 0
    np.testing.assert_allclose(found[real], expected[real], rtol=1e-5)


def test_states_of_every_call_and_kind():
    """A state given, a layer called twice, stacked cells, a dict returned."""
    x = keras.Input((8, 3))
    cells = [fields.gru(), fields.lstm(), fields.custom()]
    h, *_ = keras.layers.RNN(cells, **OPTIONS)(x)
    shared = keras.layers.SimpleRNN(UNITS, **OPTIONS)
    h, *_ = shared(h, initial_state=keras.layers.Dense(UNITS)(x[:, 0]))
    h, *_ = shared(ops.sin(h))
    field = ReceptiveFieldRNN(fields.gru(), 1, return_field=True, **OPTIONS)
    y, *_ = field(LookAhead(1)(h))
    network = keras.Model(x, y)
    values = draw(4, 8, 3)
    np.testing.assert_allclose(
        outputs_in_training(network, 3, values),
        network(values),
        rtol=1e-5,
        atol=1e-6,
    )


def test_half_precision():
    keras.config.set_dtype_policy("mixed_float16")
    model = build(4)
    model.compile("adam", "mse", run_eagerly=True)
    inputs, y, weights = data(6)
    before = model.get_weights()
    losses = model.fit(inputs, y, verbose=0).history["loss"]
    assert np.isfinite(losses).all()
    for old, new in zip(before, model.get_weights()):
        assert np.isfinite(new).all()
        assert (old != new).any()


def test_weights_of_rows_and_losses_of_layers():
    """In every chunk; at a static length, too."""
    x = keras.Input((8, 3))
    h, *_ = keras.layers.SimpleRNN(UNITS, kernel_regularizer="l2", **OPTIONS)(x)
    network = keras.Model(x, h)
    model = TruncatedBackpropagationModel(network, chunk_length=3)

    def mean_square(y, y_pred):
        return ops.mean(ops.square(y - y_pred), axis=(1, 2))

    model.compile(keras.optimizers.SGD(0.0), mean_square, run_eagerly=True)
    values, y, rows = draw(2, 8, 3), draw(2, 8, UNITS), np.array([0.5, 2.0])
    errors = np.square(network(values).numpy() - y).mean(axis=(1, 2))
    kernel = network.layers[1].cell.kernel.numpy()
    expected = np.mean(rows * errors) + 0.01 * np.sum(np.square(kernel))
    result = model.train_on_batch(values, y, sample_weight=rows)
    np.testing.assert_allclose(result, expected, rtol=1e-5)


def bad_model(layer, **options):
    x = keras.Input((6, 3))
    network = keras.Model(x, keras.tree.flatten(layer(x))[0])
    return TruncatedBackpropagationModel(
        network, **{"chunk_length": 2, **options}
    )


@pytest.mark.parametrize("value", [0, 2.5, True])
def test_bad_chunk_length(value):
    with pytest.raises(ValueError, match="Received: chunk_length="):
        bad_model(keras.layers.GRU(2, **OPTIONS), chunk_length=value)


class RunningSum(keras.layers.Layer):
    """Declares a step, with a state."""

    def call(self, x):
        return ops.cumsum(x, axis=1)

    def stream_state(self, batch_size):
        return {"total": ops.zeros((batch_size, 1, 3))}

    def stream_step(self, state, tick, x):
        total = state["total"] + ops.where(tick.present[:, None, None], x, 0)
        return total, {"total": total}


@pytest.mark.parametrize(
    "make",
    [
        lambda: keras.layers.GRU(2, return_sequences=True),
        lambda: keras.layers.GRU(2, go_backwards=True, **OPTIONS),
        lambda: keras.layers.Bidirectional(keras.layers.GRU(2, **OPTIONS)),
        lambda: LearnedInitialState(keras.layers.GRU(2, return_sequences=True)),
        lambda: LearnedInitialState(
            keras.layers.Bidirectional(keras.layers.GRU(2, **OPTIONS))
        ),
        lambda: keras.Sequential([keras.layers.GRU(2, return_sequences=True)]),
        RunningSum,
        lambda: keras.Sequential([RunningSum()]),
    ],
    ids=[
        "states",
        "backwards",
        "both",
        "wrapped",
        "wrapped-both",
        "nested",
        "step",
        "nested-step",
    ],
)
def test_layers_that_cannot_be_resumed(make):
    with pytest.raises(ValueError, match="Received: layer=<"):
        bad_model(make())


def test_models_without_time_or_states():
    with pytest.raises(ValueError, match="Received: network with layers="):
        bad_model(keras.layers.Dense(2))
    dense = keras.Sequential([keras.Input((6, 3)), keras.layers.Dense(2)])
    with pytest.raises(ValueError, match="Received: network with layers="):
        TruncatedBackpropagationModel(dense, chunk_length=2)
    with pytest.raises(ValueError, match="Received: network with inputs and"):
        bad_model(keras.layers.GRU(2, return_state=True))


def test_targets_of_another_length():
    model = bad_model(keras.layers.GRU(2, **OPTIONS))
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match="Received: shapes="):
        model.fit(draw(2, 6, 3), draw(2, 5, 2), verbose=0)


def test_no_strategy():
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        model = bad_model(keras.layers.GRU(2, **OPTIONS))
        model.compile("sgd", "mse")
    with pytest.raises(ValueError, match="Received: strategy="):
        model.fit(draw(2, 6, 3), draw(2, 6, 2), verbose=0)
