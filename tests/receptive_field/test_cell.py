"""The adaptive receptive field against independent answers."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_seqmech import ReceptiveFieldRNN
from keras_seqmech import ReceptiveFieldWindows
from keras_seqmech import RFCell
from tests import references
from tests.finite_differences import slope
from tests.fixed_noise import fix_sizes
from tests.pairs import combinations
from tests.pairs import pairs

# Here layers draw for themselves; nobody is to learn from it.
pytestmark = pytest.mark.filterwarnings("ignore:Layer .* draws in training")

CELLS = {
    "simple": (keras.layers.SimpleRNNCell, references.simple_rnn),
    "lstm": (keras.layers.LSTMCell, references.lstm),
    "gru": (keras.layers.GRUCell, references.gru),
}
ESTIMATORS = ("relaxed", "straight_through", "reinforce")
GATED = ("memory", "output")
SIZE_SOURCES = ("input", "field")
BATCH, TIME, FEATURES, UNITS = 3, 6, 4, 5
MASK = np.array(
    [
        [True, True, True, True, True, True],
        [False, True, False, True, True, False],
        [False, False, False, False, False, False],
    ]
)


def make_layer(cell="lstm", max_size=4, dtype="float64", spread=0.8, **kwargs):
    """A built layer with random weights, biases included."""
    inner = CELLS[cell][0](UNITS, dtype=dtype)
    layer = ReceptiveFieldRNN(
        inner, max_size, return_sequences=True, dtype=dtype, **kwargs
    )
    layer.build((None, None, FEATURES))
    generator = np.random.default_rng(1)
    for weight in layer.trainable_weights:
        weight.assign(spread * generator.normal(size=weight.shape))
    return layer


def make_inputs(seed=2):
    return np.random.default_rng(seed).normal(size=(BATCH, TIME, FEATURES))


def make_noise(max_size=4, seed=3):
    generator = np.random.default_rng(seed)
    return generator.gumbel(size=(BATCH, TIME, max_size))


def fix_noise(monkeypatch, noise):
    """Makes the layer draw this noise, `(batch, time, S)`."""
    time_first = np.swapaxes(noise, 0, 1)
    fix_sizes(monkeypatch, lambda shape, dtype: tf.constant(time_first, dtype))


def gated_state(gated, cell):
    """Index among h and, of an LSTM, c."""
    return int(gated == "memory" and cell == "lstm")


def reference(layer, cell, x, mask=None, noise=None, mode="argmax"):
    """Runs the numpy loop on every row, with the layer's weights."""
    rf = layer.cell
    names = [w.name for w in rf.weights[: -len(rf.cell.weights)]]
    field = dict(zip(names, [w.numpy() for w in rf.weights]))
    weights = [w.numpy() for w in rf.cell.weights]
    rows = []
    for b in range(len(x)):
        rows.append(
            references.receptive_field(
                field,
                lambda x, s: CELLS[cell][1](weights, x, s),
                x[b],
                [np.zeros(UNITS) for _ in range(1 + (cell == "lstm"))],
                layer.max_size,
                rf.summary,
                mode,
                None if noise is None else noise[b],
                rf.initial_temperature,
                None if mask is None else mask[b],
                gated_state(rf.gated, cell),
            )
        )
    return [np.stack(part) for part in zip(*[(r[0], r[2], r[3]) for r in rows])]


def assert_equal(actual, expected, tolerance=1e-10):
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


def assert_is_the_paper(found, *arguments):
    outputs, field = found
    expected, sizes, probabilities = reference(*arguments)
    assert_equal(outputs, expected)
    assert_equal(field["size"], sizes)
    assert_equal(field["probabilities"], probabilities)
    return field


@pairs(
    cell=list(CELLS),
    gated=GATED,
    size_from=SIZE_SOURCES,
    summary=["mean", "last"],
    mask=[None, MASK],
)
def test_inference_is_the_paper_written_out(
    cell, gated, size_from, summary, mask
):
    layer = make_layer(
        cell,
        summary=summary,
        gated=gated,
        size_from=size_from,
        return_field=True,
    )
    x = make_inputs()
    field = assert_is_the_paper(layer(x, mask=mask), layer, cell, x, mask)
    assert len(set(np.unique(field["size"]))) > 2  # sizes do vary


@pairs(
    max_size=[1, 2, 5],
    gated=GATED,
    # Together they say what is read softly.
    way=list(itertools.product(SIZE_SOURCES, ESTIMATORS)),
    summary=["mean", "last"],
    mask=[None, MASK],
)
def test_training_is_the_paper_written_out(
    monkeypatch, max_size, gated, way, summary, mask
):
    size_from, estimator = way
    layer = make_layer(
        "lstm",
        max_size,
        estimator=estimator,
        summary=summary,
        gated=gated,
        size_from=size_from,
        temperature=0.75,
        return_field=True,
    )
    x, noise = make_inputs(), make_noise(max_size)
    fix_noise(monkeypatch, noise)
    mode = "soft" if estimator == "relaxed" else "drawn"
    found = layer(x, mask=mask, training=True)
    assert_is_the_paper(found, layer, "lstm", x, mask, noise, mode)


def loss_and_gradients(function, x, weights):
    with tf.GradientTape() as tape:
        tape.watch(x)
        outputs = function(x)
        scale = tf.cos(tf.range(tf.size(outputs), dtype=tf.float64))
        loss = tf.reduce_sum(outputs * tf.reshape(scale, tf.shape(outputs)))
    sources = [x, *weights]
    gradients = [
        tf.zeros(source.shape, "float64") if gradient is None else gradient
        for source, gradient in zip(sources, tape.gradient(loss, sources))
    ]
    return outputs, gradients


@pairs(
    cell=list(CELLS),
    gated=GATED,
    way=list(itertools.product(SIZE_SOURCES, ["relaxed", "reinforce"])),
    summary=["mean", "last"],
)
def test_gradients_agree_with_finite_differences(
    monkeypatch, cell, gated, way, summary
):
    size_from, estimator = way
    layer = make_layer(
        cell,
        estimator=estimator,
        summary=summary,
        gated=gated,
        size_from=size_from,
    )
    noise = make_noise()
    fix_noise(monkeypatch, noise)
    mode = "soft" if estimator == "relaxed" else "drawn"
    x = tf.Variable(make_inputs())
    outputs, gradients = loss_and_gradients(
        lambda x: layer(x, mask=MASK, training=True),
        x.value(),
        layer.trainable_weights,
    )
    scale = np.cos(np.arange(outputs.numpy().size)).reshape(outputs.shape)

    def loss():
        arguments = layer, cell, x.numpy(), MASK, noise, mode
        return np.sum(scale * reference(*arguments)[0])

    generator = np.random.default_rng(4)
    for weight, gradient in zip([x, *layer.trainable_weights], gradients):
        direction = generator.normal(size=weight.shape)
        numeric = slope(weight, direction, loss, 1e-5)
        chooses = weight.name.startswith(("size", "stop"))
        if estimator == "reinforce" and chooses:
            assert np.all(gradient.numpy() == 0)
            continue
        assert_equal(np.sum(gradient * direction), numeric, 1e-6)


@pytest.mark.parametrize("size_from", SIZE_SOURCES)
def test_straight_through_gradient_is_that_of_the_selection_form(
    monkeypatch, size_from
):
    """One step: m = sum_i I_i n_i, where I moves as the relaxed draw does."""
    temperature = 0.625
    layer = make_layer(
        "simple",
        estimator="straight_through",
        size_from=size_from,
        temperature=temperature,
    )
    noise, x = make_noise(), make_inputs()
    fix_noise(monkeypatch, noise)
    rf = layer.cell
    state = np.random.default_rng(5).normal(size=(BATCH, UNITS))
    with tf.GradientTape() as tape:
        output = layer(x, initial_state=[state], training=True)
        loss = tf.reduce_sum(output[:, 0])
    weights = choosing_weights(layer)
    gradients = tape.gradient(loss, [weight.value for weight in weights])

    def draw_and_read(b):
        """The relaxed draw of a row, and what fields of each size read."""
        field = {w.name: w.numpy() for w in rf.weights[: -len(rf.cell.weights)]}
        window, valid = list(x[b, : layer.max_size]), [True] * layer.max_size
        if size_from == "input":
            logits = x[b, 0] @ field["size_kernel"]
            logits += state[b] @ field["size_recurrent_kernel"]
        else:
            logits = np.log(
                references.stopping_distribution(field, window, valid, state[b])
            )
        read = [
            references.drawn_summary(field, window, valid, size, "mean")
            for size in range(1, layer.max_size + 1)
        ]
        soft = references.softmax((logits + noise[b, 0]) / temperature)
        return soft, np.array(read)

    drawn = [draw_and_read(b)[0] for b in range(BATCH)]

    def selected_loss():
        total = 0.0
        for b, at in enumerate(drawn):
            soft, read = draw_and_read(b)
            m = read[np.argmax(at)] + (soft - at) @ read
            gate = references.sigmoid(m @ rf.forget_kernel + rf.forget_bias)
            cell = [w.numpy() for w in rf.cell.weights]
            step, _ = references.simple_rnn(cell, x[b, 0], [gate * state[b]])
            total += np.sum(step)
        return total

    generator = np.random.default_rng(4)
    for weight, gradient in zip(weights, gradients):
        direction = generator.normal(size=weight.shape)
        found = np.sum(gradient * direction)
        assert abs(found) > 1e-4
        expected = slope(weight, direction, selected_loss)
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_sizes_from_the_field_start_equally_likely():
    layer = ReceptiveFieldRNN(
        keras.layers.GRUCell(UNITS), 5, size_from="field", return_field=True
    )
    _, field = layer(np.zeros((1, 9, FEATURES)))
    assert_equal(field["probabilities"][0, :5], np.full((5, 5), 0.2), 1e-6)


def windowed(layer):
    """The same mechanism as a cell in `keras.layers.RNN`."""
    cell = RFCell.from_config(layer.cell.get_config())
    rnn = keras.layers.RNN(cell, return_sequences=True, dtype="float64")
    windows = ReceptiveFieldWindows(layer.max_size, dtype="float64")

    def run(x, mask=None, training=False):
        return rnn(windows(x, mask=mask), mask=mask, training=training)

    rnn.build((None, None, layer.max_size, FEATURES + 1))
    rnn.set_weights(layer.get_weights())
    return run, rnn


def assert_fast_loop_is_the_cell(
    monkeypatch, cell, max_size, mask, training, compiled="eager", **options
):
    """Values and gradients; the same noise at every step."""
    row = make_noise(max_size)[0, 0]
    fix_sizes(
        monkeypatch,
        lambda shape, dtype: tf.broadcast_to(
            tf.constant(row, dtype), tf.stack(tf.unstack(shape))
        ),
    )
    layer = make_layer(
        cell, max_size, jit_compile=compiled == "inner", **options
    )
    run, rnn = windowed(layer)
    x = tf.constant(make_inputs()[:, :4])
    mask = None if mask is None else mask[:, :4]
    expected = loss_and_gradients(
        lambda x: run(x, mask, training), x, rnn.trainable_weights
    )

    def fast(x):
        return loss_and_gradients(
            lambda x: layer(x, mask=mask, training=training),
            x,
            layer.trainable_weights,
        )

    if compiled != "eager":
        fast = tf.function(fast, jit_compile=compiled == "xla")
    for a, b in zip(tf.nest.flatten(fast(x)), tf.nest.flatten(expected)):
        assert_equal(a, b, 1e-9)


@pytest.mark.filterwarnings("ignore:Sizes that are drawn")
@pytest.mark.parametrize(
    "options",
    combinations(
        cell=list(CELLS),
        gated=GATED,
        max_size=[1, 2, 5],
        mask=[None, MASK],
        size_from=SIZE_SOURCES,
        estimator=ESTIMATORS,
        summary=["mean", "last"],
    ),
)
def test_fast_loop_is_the_cell_in_keras_rnn(monkeypatch, options):
    assert_fast_loop_is_the_cell(monkeypatch, training=True, **options)


@pytest.mark.filterwarnings("ignore:Sizes that are drawn")
@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    combinations(
        compiled=["xla", "inner"],
        cell=list(CELLS),
        gated=GATED,
        max_size=[1, 2, 4],
        mask=[None, MASK],
        size_from=SIZE_SOURCES,
        estimator=ESTIMATORS,
        training=[True, False],
    ),
)
def test_compiled_loop_is_the_cell_in_keras_rnn(monkeypatch, options):
    assert_fast_loop_is_the_cell(monkeypatch, **options)


@pytest.mark.parametrize("size_from", SIZE_SOURCES)
def test_sampled_sizes_follow_their_probabilities(size_from):
    """Chi-square of 20,000 draws; 99.9 % quantile of 3 degrees: 16.27."""
    layer = make_layer(
        "simple",
        dtype="float32",
        estimator="reinforce",
        size_from=size_from,
        return_field=True,
        seed=7,
    )
    x = np.tile(make_inputs()[:1, :4], (20_000, 1, 1))
    _, field = layer(x, training=True)
    counts = np.bincount(field["size"].numpy()[:, 0].astype(int), minlength=5)
    expected = 20_000 * field["probabilities"][0, 0].numpy()
    assert expected.min() > 50
    assert np.sum((counts[1:] - expected) ** 2 / expected) < 16.27


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_cell_that_draws_at_inference_reads_whole_positions(estimator):
    """At any temperature: three sizes, three results."""
    cell = RFCell(
        keras.layers.GRUCell(UNITS),
        3,
        estimator=estimator,
        temperature=100.0,
        inference="sample",
        seed=1,
    )
    windows = np.ones((100, 3, FEATURES + 1), "float32")
    output, _ = cell(windows, [np.ones((100, UNITS), "float32")])
    assert len(np.unique(np.round(output, 4), axis=0)) == 3


def test_a_cell_reads_no_position_that_is_not_valid():
    windows = np.ones((2, 3, FEATURES + 1), "float32")
    windows[0, 1] = [*[np.nan] * FEATURES, 0]
    states = [np.ones((2, UNITS), "float32")]
    cell = RFCell(keras.layers.GRUCell(UNITS), 3)
    with tf.GradientTape() as tape:
        output, _ = cell(windows, states, training=True)
    gradients = tape.gradient(output, cell.trainable_variables)
    for values in (output, *gradients):
        assert np.isfinite(values).all()


@pytest.mark.parametrize("size_from", SIZE_SOURCES)
def test_log_probability_is_that_of_the_drawn_sizes(monkeypatch, size_from):
    layer = make_layer(
        "gru", estimator="reinforce", size_from=size_from, return_field=True
    )
    noise, x = make_noise(), make_inputs()
    fix_noise(monkeypatch, noise)
    _, field = layer(x, training=True)
    # Steps that have all positions.
    size, log_probability, probabilities = (
        field[name].numpy()[:, : TIME - 3]
        for name in ("size", "log_probability", "probabilities")
    )
    expected = np.log(
        np.take_along_axis(
            probabilities, size.astype(int)[..., None] - 1, axis=-1
        )
    )
    assert_equal(log_probability, expected[..., 0])
    with tf.GradientTape() as tape:
        _, field = layer(x, mask=MASK, training=True)
        loss = tf.reduce_sum(field["log_probability"])
    for gradient in tape.gradient(loss, choosing_weights(layer)):
        assert np.abs(gradient).max() > 0


def choosing_weights(layer):
    return [
        weight
        for weight in layer.trainable_weights
        if weight.name.startswith(("size", "stop"))
    ]


def test_drawn_sizes_within_keras_rnn_are_warned_of():
    """Nobody would learn them: a step reports no log-probability."""
    x = ReceptiveFieldWindows(2)(np.ones((1, 3, 2)))
    cell = RFCell(keras.layers.GRUCell(2), 2, estimator="reinforce")
    with pytest.warns(UserWarning, match="use `ReceptiveFieldRNN`"):
        keras.layers.RNN(cell)(x, training=True)


@pytest.mark.parametrize("unit_forget_bias", [True, False])
def test_the_gate_starts_mostly_open_if_it_is_to(unit_forget_bias):
    layer = ReceptiveFieldRNN(
        keras.layers.GRUCell(3), 2, unit_forget_bias=unit_forget_bias
    )
    layer.build((None, 4, 2))
    np.testing.assert_array_equal(
        layer.cell.forget_bias, np.full(3, float(unit_forget_bias))
    )
    default = ReceptiveFieldRNN(keras.layers.GRUCell(3), 2).get_config()
    assert default["unit_forget_bias"] is True
