"""`ReceptiveFieldRNN` as a Keras user meets it, and what it refuses."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_seqmech import ReceptiveFieldRNN
from keras_seqmech import ReceptiveFieldWindows
from keras_seqmech import RFCell
from keras_seqmech.analysis import emission_delay

# Here layers draw for themselves; nobody is to learn from it.
pytestmark = pytest.mark.filterwarnings("ignore:Layer .* draws in training")

FEATURES, UNITS = 3, 4


def lstm_cell():
    return keras.layers.LSTMCell(UNITS)


def inputs(batch=2, time=5):
    generator = np.random.default_rng(0)
    return generator.normal(size=(batch, time, FEATURES)).astype("float32")


def assert_close(actual, expected, tolerance=1e-5):
    np.testing.assert_allclose(actual, expected, atol=tolerance, rtol=tolerance)


@keras.saving.register_keras_serializable(package="tests")
class Accumulator(keras.layers.Layer):
    """A cell of one's own: two states of other sizes, output of a third."""

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.state_size = [units, 2]
        self.output_size = units + 2

    def build(self, input_shape):
        self.kernel = self.add_weight(shape=(input_shape[-1], self.units))

    def call(self, inputs, states):
        hidden, counter = states
        hidden = keras.ops.tanh(hidden + keras.ops.matmul(inputs, self.kernel))
        counter = counter + 1
        output = keras.ops.concatenate([hidden, counter], axis=-1)
        return output, [hidden, counter]

    def get_config(self):
        return {**super().get_config(), "units": self.units}


CELLS = {
    "own": lambda: Accumulator(UNITS),
    "dropout": lambda: keras.layers.LSTMCell(
        UNITS, dropout=0.5, recurrent_dropout=0.3
    ),
    "stack": lambda: [lstm_cell(), keras.layers.GRUCell(UNITS + 1)],
    "reset_before": lambda: keras.layers.GRUCell(UNITS, reset_after=False),
    "no_bias": lambda: keras.layers.GRUCell(UNITS, use_bias=False),
    "activation": lambda: keras.layers.SimpleRNNCell(
        UNITS, activation=keras.layers.PReLU()
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("cell", CELLS)
def test_any_cell_trains_and_agrees_with_the_cell_in_keras_rnn(cell):
    """Those that run as they are leave their own compilation to TensorFlow."""
    layer = ReceptiveFieldRNN(
        CELLS[cell](), 3, field_units=6, jit_compile=True, return_sequences=True
    )
    model = keras.Sequential([layer, keras.layers.Dense(1)])
    model.compile("adam", "mse", jit_compile=False)
    x = inputs(8)
    history = model.fit(x, x[..., :1], epochs=1, verbose=0).history
    assert np.isfinite(history["loss"][0])
    rnn = keras.layers.RNN(
        RFCell.from_config(layer.cell.get_config()), return_sequences=True
    )
    windows = ReceptiveFieldWindows(3)(x)
    rnn(windows)
    rnn.set_weights(layer.get_weights())
    assert_close(layer(x), rnn(windows))
    if cell == "dropout":
        assert np.abs(layer(x, training=True) - layer(x)).max() > 1e-3
        keras.Sequential([rnn]).predict(windows, verbose=0)
        assert np.all(np.isfinite(rnn(windows, training=True)))


def test_dropout_masks_are_one_for_all_steps():
    """With all inputs alike and the state cut off, all steps are alike."""
    cell = keras.layers.SimpleRNNCell(50, dropout=0.5)
    layer = ReceptiveFieldRNN(cell, 1, return_sequences=True)
    x = np.ones((1, 6, 50), "float32")
    layer(x)
    cell.recurrent_kernel.assign(0 * cell.recurrent_kernel)
    first, second = layer(x, training=True), layer(x, training=True)
    assert_close(first, np.repeat(first[:, :1], 6, axis=1))
    assert np.abs(first - second).max() > 1e-2


@pytest.mark.parametrize("kind", ["dropout", "recurrent_dropout"])
def test_either_dropout_alone_acts_in_training(kind):
    cell = keras.layers.SimpleRNNCell(50, **{kind: 0.5})
    layer = ReceptiveFieldRNN(cell, 1)
    x = inputs(1)
    served = layer(x)
    first, second = layer(x, training=True), layer(x, training=True)
    for other in (served, second):
        assert np.abs(first - other).max() > 1e-2


@pytest.mark.parametrize("go_backwards", [False, True])
def test_statistics_of_real_and_of_free_steps(go_backwards):
    """In one call, and in batches of other sizes, an empty one among them."""
    layer = ReceptiveFieldRNN(
        lstm_cell(),
        3,
        go_backwards=go_backwards,
        track_statistics=True,
        return_field=True,
    )
    x = inputs(5, 8)
    rows = ["11011111", "0" * 8, "1" * 8, "0" * 8, "11000000"]
    mask = np.array([[step == "1" for step in row] for row in rows])
    layer(x[:0])
    # Some decisions become certain.
    layer.cell.size_kernel.assign(5 * layer.cell.size_kernel)
    for start, end in ((0, 1), (1, 2), (2, 5)):
        layer(x[start:end], mask=mask[start:end])
    counted = layer.statistics
    metrics = [
        counted.amount,
        counted.entropy,
        counted.certain,
        counted.choice_entropy,
        counted.mean_delay,
        counted.delay_percentile,
    ]
    kept = [float(metric.result()) for metric in metrics]
    for metric in metrics:
        metric.reset_state()
    _, field = tf.function(layer)(x, mask=mask)
    assert_close([metric.result() for metric in metrics], kept)
    if go_backwards:
        rows, mask = [row[::-1] for row in rows], mask[:, ::-1]
    free = [[row[t:].startswith("111") for t in range(8)] for row in rows]
    probabilities = field["probabilities"].numpy()[np.array(free)]
    entropy = -np.sum(probabilities * np.log(probabilities), axis=-1)
    choices = np.bincount(probabilities.argmax(-1), minlength=3) / np.sum(free)
    choices = choices[choices > 0]
    size = field["size"].numpy()
    delays = np.sort(emission_delay(size, mask)[mask])
    expected = [
        size[np.array(free)].mean(),
        entropy.mean(),
        np.mean(probabilities.max(-1) > 0.9),
        -np.sum(choices * np.log(choices)),
        delays.mean(),
        delays[np.ceil(0.95 * len(delays)).astype(int) - 1],
    ]
    assert_close(kept, expected)
    assert 0 < expected[2] < 1 and expected[3] > 0


def test_bidirectional_reads_both_ways():
    layer = ReceptiveFieldRNN(lstm_cell(), 3, return_sequences=True)
    both = keras.layers.Bidirectional(layer)
    x = inputs()
    mask = np.array([[1, 1, 1, 0, 0], [0, 1, 0, 1, 1]], bool)
    outputs = both(x, mask=mask).numpy()
    forward = both.forward_layer(x, mask=mask)
    backward = both.backward_layer
    assert backward.go_backwards
    mirrored = ReceptiveFieldRNN(
        lstm_cell(), 3, return_sequences=True, zero_output_for_mask=True
    )
    mirrored(x)
    mirrored.set_weights(backward.get_weights())
    expected = mirrored(x[:, ::-1], mask=mask[:, ::-1]).numpy()[:, ::-1]
    assert_close(outputs[..., :UNITS], forward)
    assert_close(outputs[..., UNITS:], expected)


def test_stateful_carries_the_state_and_resets():
    layer = ReceptiveFieldRNN(
        lstm_cell(), 1, stateful=True, return_sequences=True
    )
    plain = ReceptiveFieldRNN(lstm_cell(), 1, return_sequences=True)
    x = inputs(2, 6)
    layer(x[:, :3])
    plain(x)
    plain.set_weights(layer.get_weights())
    layer.reset_state()
    parts = [layer(x[:, :3]), layer(x[:, 3:])]
    assert_close(np.concatenate(parts, axis=1), plain(x))
    layer.reset_state()
    assert_close(layer(x[:, :3]), plain(x[:, :3]))


def test_a_state_that_is_given_comes_before_the_one_that_is_kept():
    layer = ReceptiveFieldRNN(lstm_cell(), 1, stateful=True)
    x = inputs(2, 6)
    layer(x)
    state = [0.5 * np.ones((2, UNITS), "float32")] * 2
    first = layer(x, initial_state=state)
    assert_close(layer(x, initial_state=state), first)


@pytest.mark.parametrize("zero_output", [False, True])
def test_masked_steps_do_as_in_keras(zero_output):
    """With the gate open, what `keras.layers.LSTM` gives."""
    arguments = {"return_sequences": True, "return_state": True}
    arguments["zero_output_for_mask"] = zero_output
    layer = ReceptiveFieldRNN(lstm_cell(), 2, **arguments)
    lstm = keras.layers.LSTM(UNITS, **arguments)
    x = inputs(3, 5)
    mask = np.array([[0, 1, 0, 1, 0], [1, 1, 1, 1, 1], [0] * 5], bool)
    layer(x), lstm(x)
    layer.cell.forget_bias.assign(0 * layer.cell.forget_bias + 1e3)
    lstm.set_weights(layer.cell.cell.get_weights())
    state = [0.5 * np.ones((3, UNITS), "float32")] * 2
    for initial_state in (None, state):
        actual = layer(x, mask=mask, initial_state=initial_state)
        expected = lstm(x, mask=mask, initial_state=initial_state)
        for a, b in zip(actual, expected):
            assert_close(a, b)
    assert_close(layer(x, mask=mask)[0][2], np.zeros((5, UNITS)))


def test_a_field_not_chosen_has_no_effect_be_it_infinite():
    layer = ReceptiveFieldRNN(
        lstm_cell(), 3, activation="relu", return_sequences=True
    )
    x = np.abs(inputs())
    layer(x)
    layer.cell.size_kernel.assign([[9.0, 0, 0]] * FEATURES)  # Size 1.
    x[:, 3] = np.inf
    assert np.all(np.isfinite(layer(x)[:, :3]))


def test_integers_are_welcome():
    layer = ReceptiveFieldRNN(lstm_cell(), 3, temperature=np.float32(0.5))
    x = np.ones((2, 5, FEATURES), "int32")
    assert_close(layer(x), layer(x.astype("float32")))
    assert ReceptiveFieldWindows(3)(x).dtype == "float32"
    assert type(layer.get_config()["temperature"]) is float


def test_of_a_cell_of_ones_own_the_last_state_is_its_memory():
    """A counter that is gated shut counts from 0 at every step."""
    layer = ReceptiveFieldRNN(Accumulator(UNITS), 2, return_state=True)
    layer(inputs())
    for gate, count in ((1e3, 5), (-1e3, 1)):
        layer.cell.forget_bias.assign([gate, gate])
        *_, counter = layer(inputs(2, 5))
        assert_close(counter, np.full((2, 2), count))


@pytest.mark.parametrize("name", ["unroll", "rolled"])
def test_unknown_arguments_are_refused_as_in_keras(name):
    with pytest.raises(ValueError, match=f"Unrecognized key.*{name}.*False"):
        ReceptiveFieldRNN(lstm_cell(), 3, **{name: False})


def test_build_and_call_refuse():
    layer = ReceptiveFieldRNN(lstm_cell(), 3)
    x = inputs()
    with pytest.raises(ValueError, match="known number of features"):
        ReceptiveFieldRNN(lstm_cell(), 3)(keras.Input((None, None)))
    state = np.zeros((2, UNITS), "float32")
    wrong_states = state, [state], [state, state[:, :2]], [None, None], [0, 0]
    for wrong in wrong_states:
        with pytest.raises(ValueError, match="`initial_state`.*Received"):
            layer(x, initial_state=wrong)
    cell = lstm_cell()
    cell.build((None, FEATURES + 4))
    with pytest.raises(ValueError, match="`cell`.*Received: cell.kernel"):
        ReceptiveFieldRNN(cell, 3)(x)


def test_kernels_of_one_shape_start_different():
    """Of an initializer that is given, too."""
    cell = RFCell(
        keras.layers.GRUCell(4),
        4,
        field_units=4,
        kernel_initializer=keras.initializers.GlorotUniform(),
    )
    cell.build((None, 4, 5))
    assert np.any(cell.field_kernel.numpy() != cell.forget_kernel.numpy())
