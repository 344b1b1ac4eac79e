"""Gradient profiles against hand computation, and against a tape."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from keras_seqmech import KeepMask
from keras_seqmech import LearnedInitialState
from keras_seqmech import PolicyGradientModel
from keras_seqmech import ReceptiveFieldRNN
from keras_seqmech import ReceptiveFieldWindows
from keras_seqmech import RFCell
from keras_seqmech import analysis
from keras_seqmech.analysis import recurrent_gradients
from tests import tolerances

W, R = 0.7, -0.3


def linear_model():
    """h1 = W x1, h2 = W x2 + R h1; returns h2."""
    inputs = keras.Input((2, 1), dtype="float64")
    rnn = layers.SimpleRNN(1, activation="linear", use_bias=False)
    model = keras.Model(inputs, rnn(inputs))
    rnn.set_weights([np.array([[W]]), np.array([[R]])])
    return model


def test_two_linear_steps_by_hand():
    keras.config.set_dtype_policy("float64")
    model = linear_model()
    x = np.array([[[1.0], [2.0]], [[3.0], [-1.0]], [[0.5], [0.25]]])
    y = np.array([[0.1], [0.2], [0.3]])
    last = np.abs(2 * (W * x[:, 1] + R * W * x[:, 0] - y)).mean()
    profile = analysis.gradient_profile(model, x, y, loss="mse", num_points=2)
    np.testing.assert_allclose(profile, [abs(R) * last, last], rtol=1e-13)
    assert profile.dtype == "float64"
    ratio = (abs(R) + 1) / 2
    assert analysis.vanishing_ratio(profile, "right") == pytest.approx(ratio)
    expected = ratio / abs(R)
    assert analysis.vanishing_ratio(profile) == pytest.approx(expected)


class Leaky(keras.layers.Layer):
    """A cell of a user's own, of one state."""

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.state_size = units
        self.mix = layers.Dense(units, activation="tanh")

    def build(self, input_shape):
        self.mix.build((input_shape[0], input_shape[-1] + self.state_size))

    def call(self, inputs, states):
        (last,) = states
        mixed = self.mix(keras.ops.concatenate([inputs, last], axis=-1))
        state = 0.5 * last + 0.5 * mixed
        return state, [state]


def last_output(rnn, states, bumps, x, mask):
    """Runs the bare cell one step after another, bumping its outputs."""
    turn = -1 if rnn.go_backwards else 1
    x, mask = x[:, ::turn], mask[:, ::turn]
    if isinstance(rnn.cell, RFCell):
        x = ReceptiveFieldWindows(rnn.cell.max_size)(x, mask=mask)
    hidden = tf.zeros_like(bumps[0])
    for t, bump in enumerate(bumps[::turn]):
        output, new = rnn.cell(x[:, t], states)
        bumped = output + bump
        new = keras.tree.map_structure(
            lambda s, o=output, b=bumped: b if s is o else s, new
        )
        real = mask[:, t, None]
        hidden = tf.where(real, bumped, hidden)
        states = keras.tree.map_structure(
            lambda n, s, real=real: tf.where(real, n, s), new, states
        )
    return hidden


def unrolled_norms(rnns, head, x, y, mask, states):
    """Norms by a tape around the bare cells of one or two directions."""
    shape = (len(x), head.weights[0].shape[0] // len(rnns))
    bumps = [[tf.Variable(np.zeros(shape)) for _ in x[0]] for _ in rnns]
    with tf.GradientTape() as tape:
        ends = [
            last_output(*direction, x, mask)
            for direction in zip(rnns, states, bumps)
        ]
        outputs = head(tf.concat(ends, axis=-1))
        loss = tf.reduce_sum(tf.square(outputs - y))
    slopes = np.array(tape.gradient(loss, bumps))
    return np.sqrt(np.sum(slopes**2, axis=(0, -1))).T


def field(cell=layers.LSTMCell, **options):
    return ReceptiveFieldRNN(cell(3), 3, **options)


LAYERS = {
    "gru": lambda: layers.GRU(3, reset_after=False, go_backwards=True),
    "both": lambda: layers.Bidirectional(layers.LSTM(3)),
    "simple": lambda: layers.SimpleRNN(3),
    "stacked": lambda: layers.RNN(
        [layers.LSTMCell(2), layers.GRUCell(3)], return_state=True
    ),
    "own": lambda: layers.RNN(Leaky(3), go_backwards=True),
    "fields in keras": lambda: layers.RNN(RFCell(layers.LSTMCell(3), 3)),
    "fields, mask kept": lambda: KeepMask(field(return_field=True)),
    "fields, backwards": lambda: field(
        layers.GRUCell, size_from="field", go_backwards=True
    ),
    "fields, learned state": lambda: LearnedInitialState(
        field(), state_initializer="random_normal"
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_against_an_unrolled_tape(name):
    keras.config.set_dtype_policy("float64")
    rng = np.random.default_rng(4)
    layer, head = LAYERS[name](), layers.Dense(1)
    rnn = getattr(layer, "rnn", getattr(layer, "layer", layer))
    rnns = [rnn]
    if name == "both":
        rnns = [layer.forward_layer, layer.backward_layer]
    inputs = keras.Input(batch_shape=(2, 5, 4), dtype="float64")
    real = keras.Input(batch_shape=(2, 5), dtype="bool")
    steps = inputs
    if name == "fields in keras":
        steps = ReceptiveFieldWindows(3)(inputs, mask=real)
    hidden = keras.tree.flatten(layer(steps, mask=real))[0]
    model = keras.Model([inputs, real], head(hidden))
    states = [each.get_initial_state(2) for each in rnns]
    if name == "fields, learned state":
        states = [layer.get_initial_state(2)]
    x, y = rng.normal(size=(2, 5, 4)), rng.normal(size=(2, 1))
    mask = np.array([[1, 1, 1, 1, 1], [1, 0, 1, 1, 0]], bool)
    norms = unrolled_norms(rnns, head, x, y, mask, states)
    assert norms[mask].all() and not norms[~mask].any()
    profile = analysis.gradient_profile(
        model,
        [x, mask],
        y,
        mask=np.ones((2, 5), bool),
        loss="mse",
        num_points=5,
    )
    np.testing.assert_allclose(profile, norms.mean(axis=0), rtol=1e-10)


def small_model(output_units=1, activation=None, **options):
    return keras.Sequential(
        [
            keras.Input((6, 2)),
            layers.Dropout(0.5),
            layers.GRU(3, dropout=0.5, **options),
            layers.Dense(output_units, activation),
        ]
    )


@pytest.fixture
def examples():
    rng = np.random.default_rng(5)
    return rng.normal(size=(7, 6, 2)).astype("float32"), np.arange(7) % 2


def test_batches_reductions_and_shapes_of_targets(examples):
    """A loss of Keras is the mean over the steps of one example."""
    x, y = examples
    model = small_model(1, "sigmoid", return_sequences=True)
    targets = np.broadcast_to(y[:, None], (7, 6))
    crossentropy = keras.losses.BinaryCrossentropy(reduction="sum")
    model.compile("sgd", crossentropy)
    found = analysis.gradient_profile(model, x, targets, batch_size=3)
    assert found.shape == (100,) and (found > 0).all()

    def loss(y, p):
        return -keras.ops.log(keras.ops.where(y > 0, p, 1 - p))

    expected = analysis.gradient_profile(model, x, targets, loss=loss)
    np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.long
def test_without_a_mask_the_layers_own_counts():
    rng = np.random.default_rng(6)
    model = keras.Sequential(
        [
            keras.Input((None,), dtype="int32"),
            layers.Embedding(9, 2, mask_zero=True),
            layers.Bidirectional(layers.LSTM(3, return_sequences=True)),
            layers.GlobalAveragePooling1D(),
            layers.Dense(1),
        ]
    )
    model.compile("sgd", "mse")
    # The third text has no words, and their mean is no number.
    ids, y = rng.integers(1, 9, (5, 7)), np.arange(5) % 2
    ids[0, 4:] = ids[1, :3] = ids[2] = 0
    found = analysis.gradient_profile(model, ids, y, batch_size=2)
    expected = analysis.gradient_profile(model, ids, y, mask=ids != 0)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    with pytest.raises(ValueError, match="own mask.*real step"):
        analysis.gradient_profile(model, 0 * ids[:2], y[:2])


def test_a_model_of_half_precision(examples):
    keras.config.set_dtype_policy("mixed_float16")
    x, y = examples
    model = small_model()
    half = analysis.gradient_profile(model, x, y, loss="mse")
    keras.config.set_dtype_policy("float32")
    single = small_model()
    single.set_weights(model.get_weights())
    expected = analysis.gradient_profile(single, x, y, loss="mse")
    # float16 has 11 bits: a dozen roundings of 5e-4 each.
    np.testing.assert_allclose(half, expected, rtol=1e-2)


def test_states_and_seeds_of_other_layers_are_as_before():
    class Noisy(layers.Layer):
        def __init__(self):
            super().__init__()
            self.seed = keras.random.SeedGenerator(2)

        def call(self, x):
            return x + keras.random.normal(keras.ops.shape(x), seed=self.seed)

    inputs = keras.Input(batch_shape=(2, 6, 2))
    lower = layers.GRU(2, stateful=True, return_sequences=True, name="lower")
    hidden = layers.LSTM(2, name="upper")(Noisy()(lower(inputs)))
    model = keras.Model(inputs, hidden)
    x, y = np.ones((4, 6, 2)), np.ones((4, 2))
    model(x[:2])
    kept = [lower.states[0].numpy(), *map(np.array, model.variables)]
    analysis.gradient_profile(
        model, x, y, layer="upper", loss="mse", batch_size=2
    )
    after = [lower.states[0].numpy(), *map(np.array, model.variables)]
    keras.tree.map_structure(np.testing.assert_array_equal, after, kept)
    assert kept[0].any()


class Aside(Leaky):
    """Its output is none of its states."""

    def call(self, inputs, states):
        output, states = super().call(inputs, states)
        return 2 * output, states


def stateful():
    inputs = keras.Input(batch_shape=(7, 6, 2))
    return keras.Model(inputs, layers.GRU(2, stateful=True)(inputs))


def shared_model():
    inputs = keras.Input((6, 2))
    rnn = layers.GRU(2, return_sequences=True)
    return keras.Model(inputs, rnn(rnn(inputs)))


def wrapped(*parts):
    return keras.Sequential([keras.Input((6, 2)), *parts])


class Doubled(layers.LSTM):
    """It does more than run its cell."""

    def call(self, sequences, initial_state=None, mask=None, training=False):
        return 2 * super().call(sequences, initial_state, mask, training)


class Subclassed(keras.Model):
    """Its layers are known, the way through them is not."""

    def __init__(self):
        super().__init__()
        self.rnn = layers.GRU(2)

    def call(self, inputs):
        return self.rnn(inputs)


class Scaled(keras.Model):
    """A graph of layers that is not all it does."""

    def call(self, inputs):
        return 2 * super().call(inputs)


def graph_of_its_own():
    inputs = keras.Input((6, 2))
    return Scaled(inputs, layers.GRU(2)(inputs))


def scalar_loss(targets, outputs):
    return keras.ops.mean(outputs)


def two_outputs():
    inputs = keras.Input((6, 2))
    return keras.Model(inputs, layers.GRU(2, return_state=True)(inputs))


def two_layers():
    return wrapped(
        layers.GRU(2, return_sequences=True, name="gru"),
        layers.LSTM(2, name="lstm"),
    )


@pytest.mark.long
def test_models_within_models_and_models_that_train_them(examples):
    x, y = examples
    gru, head = layers.GRU(3, name="inner"), layers.Dense(1)
    inputs = keras.Input((6, 2))
    flat = keras.Model(inputs, head(gru(inputs)))
    sequential = keras.Sequential([keras.Input((6, 2)), gru])
    functional = keras.Model(inputs, sequential(inputs))
    nested = keras.Sequential([keras.Input((6, 2)), functional, head])
    trained = PolicyGradientModel(nested)
    trained.compile("sgd", "mse")
    expected = analysis.gradient_profile(flat, x, y, "inner", loss="mse")
    assert (expected > 0).all()
    found = analysis.gradient_profile(trained, x, y, "inner")
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("mode", ["concat", "sum", "ave", "mul", None])
def test_directions_are_merged_as_keras_merges_them(mode, examples):
    inputs = keras.Input((6, 2))
    states = [keras.Input((3,)), keras.Input((3,))]
    gru = layers.GRU(
        3, return_sequences=mode != "concat", return_state=mode != "sum"
    )
    outputs = layers.Bidirectional(gru, merge_mode=mode)(
        inputs, initial_state=states
    )
    model = keras.Model([inputs, *states], outputs)
    start = np.random.default_rng(1).normal(size=(2, 7, 3)).astype("float32")
    probe = recurrent_gradients.RecurrentProbe(model, loss="mse")
    found = probe._perturbed([examples[0], *start])
    expected = model([examples[0], *start])
    tolerances.assert_close(found, expected, operations=200)


@pytest.mark.parametrize(
    "make, options, message",
    [
        (small_model, {"layer": "gone"}, r"layer.*\['gru'\].*'gone'"),
        (small_model, {"layer": "dense"}, "`LSTM`, `GRU`.*GradientTape"),
        (two_layers, {}, r"only one.*\['gru', 'lstm'\]"),
        (small_model, {"num_points": 0}, "num_points"),
        (small_model, {"batch_size": 0}, "batch_size"),
        (small_model, {"mask": np.ones((7, 5), bool)}, "mask"),
        (small_model, {"mask": np.ones((6, 6), bool)}, "mask"),
        (small_model, {"targets": np.zeros(3)}, "equally many"),
        (small_model, {"inputs": np.zeros(())}, "equally many"),
        (small_model, {"loss": None}, "single loss"),
        (small_model, {"loss": scalar_loss}, "one value an example"),
        (two_outputs, {}, "function.*several outputs"),
        (lambda: wrapped(layers.Dense(1)), {}, r"layer.*\[\]"),
        (lambda: wrapped(layers.RNN(Aside(2))), {}, "Aside"),
        (lambda: wrapped(Doubled(2)), {}, r"classes.*are \[\]"),
        (stateful, {}, r"not stateful.*are \[\]"),
        (Subclassed, {}, "must be a functional model.*Subclassed"),
        (graph_of_its_own, {}, "without a `call` of its own.*Scaled"),
        (shared_model, {}, "it runs 2 times"),
        (small_model, {"inputs": {}}, "equally many"),
    ],
)
def test_bad_input(make, options, message, examples):
    given = {"inputs": examples[0], "targets": examples[1], "loss": "mse"}
    with pytest.raises(ValueError, match=f"(?s){message}"):
        analysis.gradient_profile(make(), **{**given, **options})


@pytest.mark.parametrize(
    "profile, end, expected",
    [
        ([3.0], "left", 1.0),
        ([2.0, 4.0], "left", 1.5),
        ([2.0, 0.5, 4.0], "right", 0.125),
        ([0.0, 0.5, 4.0], "left", np.inf),
        ([0.0, 0.0, 4.0], "left", 1.0),
        (np.arange(1.0, 101.0), "left", np.mean(np.arange(46, 56))),
        (np.arange(1.0, 101.0)[::-1], "left", np.mean(np.arange(46, 56)) / 100),
    ],
)
def test_ratio_by_hand(profile, end, expected):
    ratio = analysis.vanishing_ratio(profile, end)
    assert type(ratio) is float
    assert ratio == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize(
    "profile, end, message",
    [
        ([1.0], "mid", "end"),
        ([], "left", "profile"),
        ([[1.0]], "left", "profile"),
        ([1.0, -1.0], "left", "profile"),
        ([1.0, np.nan], "left", "profile"),
        ("abc", "left", "profile"),
        ([[1.0], [1.0, 2.0]], "left", "profile"),
    ],
)
def test_bad_profiles(profile, end, message):
    with pytest.raises(ValueError, match=f"{message}.*Received"):
        analysis.vanishing_ratio(profile, end)


def trained(examples, *callbacks, epochs=2):
    keras.utils.set_random_seed(1)
    keras.utils.clear_session(free_memory=False)
    model = small_model()
    model.compile("adam", "mse", metrics=["mae"])
    x, y = examples
    history = model.fit(
        x,
        y,
        batch_size=3,
        epochs=epochs,
        verbose=0,
        callbacks=list(callbacks),
    )
    return model, history.history


@pytest.mark.long
def test_training_logs_the_ratio_and_is_the_same(examples):
    x, y = examples
    mask = np.arange(6) < np.array([[3], [6], [4], [5]])
    ratio = analysis.VanishingRatio(
        x[:4], y[:4], "gru", mask, every=2, end="right", loss="mae"
    )
    model, history = trained(examples, ratio)
    plain, plain_history = trained(examples)
    for weight, other in zip(model.get_weights(), plain.get_weights()):
        np.testing.assert_array_equal(weight, other)
    assert history["mae"] == plain_history["mae"]
    assert ratio.history["step"] == [0, 2, 3, 4, 6]
    values = ratio.history["vanishing_ratio"]
    assert len(set(values)) == 5
    assert history["vanishing_ratio"] == [values[2], values[4]]
    profile = analysis.gradient_profile(
        model, x[:4], y[:4], "gru", mask, loss="mae"
    )
    assert values[4] == pytest.approx(
        analysis.vanishing_ratio(profile, "right"), rel=1e-5
    )


@pytest.mark.long
def test_a_model_of_a_distribution_strategy(examples):
    """Executions of two steps, and a second fit that goes on."""
    x, y = examples
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        model = small_model()
        model.compile("sgd", "mse", steps_per_execution=2)
    expected = analysis.gradient_profile(model, x, y)
    ratio = analysis.VanishingRatio(x, y, every=2)
    for _ in range(2):
        model.fit(x, y, batch_size=2, verbose=0, callbacks=[ratio])
    assert ratio.history["step"] == [0, 2, 4, 6, 8]
    first = ratio.history["vanishing_ratio"][0]
    assert first == pytest.approx(analysis.vanishing_ratio(expected), rel=1e-4)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"every": 0}, "every"),
        ({"end": "mid"}, "end"),
        ({"batch_size": 0}, "batch_size"),
        ({"mask": np.ones((3, 6), bool)}, "mask"),
    ],
)
def test_bad_callbacks(options, message, examples):
    with pytest.raises(ValueError, match=f"{message}.*Received"):
        analysis.VanishingRatio(*examples, **options)


def test_a_layer_the_model_lacks(examples):
    ratio = analysis.VanishingRatio(*examples, layer="gone")
    with pytest.raises(ValueError, match="gone"):
        trained(examples, ratio, epochs=1)
