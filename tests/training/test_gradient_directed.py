"""Gradient-directed training against closed forms and finite differences."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_seqmech
from keras_seqmech.training import GradientDirectedModel
from keras_seqmech.training import Schedule
from tests import references
from tests.fixed_noise import fix_gates
from tests.fixed_noise import fix_sizes

BATCH, TIME, WORDS = 4, 5, 6
# A gap, padding, one real position, none.
MASK = np.array(
    [[1, 0, 1, 1, 1], [1, 1, 1, 0, 0], [0, 1, 0, 0, 0], [0, 0, 0, 0, 0]], "bool"
)


def sample(seed=0):
    rng = np.random.default_rng(seed)
    tokens = rng.integers(1, WORDS, (BATCH, TIME))
    labels = rng.integers(0, 2, (BATCH, 1)).astype("float64")
    return {"tokens": tokens, "mask": MASK}, labels


def classifier(rnn=None, time=TIME, layer="embedding", **options):
    tokens = keras.Input((time,), dtype="int32", name="tokens")
    mask = keras.Input((time,), dtype="bool", name="mask")
    embedding = keras.layers.Embedding(WORDS, 2, name="embedding")
    rnn = rnn or keras.layers.SimpleRNN(3)
    outputs = keras.layers.Dense(1, activation="sigmoid")(
        rnn(embedding(tokens), mask=mask)
    )
    inputs = {"tokens": tokens, "mask": mask}
    options = {"mask": "mask", **options}
    network = keras.Model(inputs, outputs)
    return GradientDirectedModel(network, layer=layer, **options)


def compile_(model, **options):
    model.compile(
        keras.optimizers.SGD(1.0),
        keras.losses.BinaryCrossentropy(dtype="float64"),
        **{"run_eagerly": True, **options},
    )
    return model


def update(model, inputs, labels, **options):
    """What one step of SGD with rate 1 takes away, the gradient."""
    before = [v.numpy() for v in model.trainable_variables]
    logs = model.train_on_batch(inputs, labels, return_dict=True, **options)
    after = [v.numpy() for v in model.trainable_variables]
    return np.concatenate([(a - b).ravel() for a, b in zip(before, after)]), {
        name: float(value) for name, value in logs.items()
    }


@pytest.fixture
def double():
    keras.config.set_dtype_policy("float64")


def test_linear_rnn_closed_form(double):
    """h_t = W h_{t-1} + U x_t, so dl/dx_t = c (v^T W^(T-t) U)."""
    x = keras.Input((TIME, 2), name="x")
    rnn = keras.layers.SimpleRNN(3, activation="linear", use_bias=False)
    head = keras.layers.Dense(1, use_bias=False)
    model = GradientDirectedModel(
        keras.Model(x, head(rnn(x))), layer="x", gradient_weight=0.5
    )
    rng = np.random.default_rng(0)
    u, w, v = (rng.normal(size=s) for s in ((2, 3), (3, 3), (3, 1)))
    for variable, value in zip(model.trainable_variables, (u, w, v)):
        variable.assign(value)
    inputs, y = rng.normal(size=(BATCH, TIME, 2)), rng.normal(size=(BATCH, 1))
    model.compile("sgd", "mse", run_eagerly=True)
    logs = model.train_on_batch(inputs, y, return_dict=True)
    powers = [np.linalg.matrix_power(w, TIME - 1 - t) for t in range(TIME)]
    norms = np.array([np.linalg.norm(u @ power @ v) for power in powers])
    (expected,) = references.gradient_divergence(
        norms[None], np.ones((1, TIME))
    )
    state = np.zeros((BATCH, 3))
    for t in range(TIME):
        state = inputs[:, t] @ u + state @ w
    mse = np.mean((state @ v - y) ** 2)
    assert expected > 0.05
    np.testing.assert_allclose(logs["gradient_divergence"], expected, rtol=1e-6)
    np.testing.assert_allclose(logs["loss"], mse + 0.5 * expected, rtol=1e-6)


def numeric_gradient(model, inputs, labels, weight):
    """Central differences of a loss put together from first derivatives."""
    embedding, rnn, head = (
        layer for layer in model.network.layers if layer.weights
    )  # in the order of the graph

    @tf.function
    def first_derivatives():
        x = embedding(inputs["tokens"])
        with tf.GradientTape() as tape:
            tape.watch(x)
            p = head(rnn(x, mask=inputs["mask"], training=True))
            losses = -tf.math.log(tf.where(labels > 0, p, 1 - p))
        return losses, tf.norm(tape.gradient(losses, x), axis=-1)

    def loss():
        losses, norms = (part.numpy() for part in first_derivatives())
        rows = inputs["mask"].any(axis=1)
        return losses.mean() + weight * (
            references.gradient_divergence(norms, inputs["mask"])[rows].mean()
        )

    result, step = [], 1e-5
    for variable in model.trainable_variables:
        value = variable.numpy()
        for index in np.ndindex(value.shape):
            pair = []
            for sign in (1, -1):
                moved = np.array(value)
                moved[index] += sign * step
                variable.assign(moved)
                pair.append(loss())
            result.append((pair[0] - pair[1]) / (2 * step))
        variable.assign(value)
    return np.array(result), loss()


@pytest.mark.long
@pytest.mark.parametrize(
    "kind, mode, time",
    [
        (keras.layers.LSTM, dict(run_eagerly=True), TIME),
        (keras.layers.SimpleRNN, dict(run_eagerly=False), None),
    ],
)
def test_whole_gradient_against_finite_differences(double, kind, mode, time):
    inputs, labels = sample()
    model = classifier(kind(2), time, gradient_weight=0.7)
    for variable in model.trainable_variables:
        variable.assign(
            np.random.default_rng(1).normal(size=variable.shape, scale=0.8)
        )
    expected, loss = numeric_gradient(model, inputs, labels, weight=0.7)
    found, logs = update(compile_(model, **mode), inputs, labels)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(logs["loss"], loss, rtol=1e-6)


def test_evaluate_and_predict_are_those_of_the_plain_model():
    inputs, labels = sample()
    model = compile_(classifier(), metrics=["accuracy"])
    plain = compile_(model.network, metrics=["accuracy"])
    found = model.evaluate(inputs, labels, verbose=0, return_dict=True)
    assert found == plain.evaluate(inputs, labels, verbose=0, return_dict=True)
    assert set(found) == {"loss", "accuracy"}
    assert len(model.evaluate(inputs, labels, verbose=0)) == 2
    np.testing.assert_array_equal(
        model.predict(inputs, verbose=0), plain.predict(inputs, verbose=0)
    )
    history = model.fit(
        inputs, labels, validation_data=(inputs, labels), verbose=0
    ).history
    assert set(history) == {
        "loss",
        "accuracy",
        "gradient_divergence",
        "val_loss",
        "val_accuracy",
    }


def test_sample_weights(double):
    """Rows of weight 0 count as 0; other weights do not change a row's KL."""
    inputs, labels = sample()
    model = compile_(classifier(gradient_weight=0.0))
    start = model.get_weights()

    def logs(weights):
        model.set_weights(start)
        model.reset_metrics()
        weights = np.array(weights)
        gradient, found = update(model, inputs, labels, sample_weight=weights)
        assert np.isfinite(gradient).all()
        return found["gradient_divergence"]

    whole = logs([1.0, 1, 1, 1])
    assert logs([0.5, 3, 1, 2]) == pytest.approx(whole)
    first, second = logs([1.0, 0, 1, 1]), logs([0.0, 1, 1, 1])
    assert min(first, second) > 1e-3
    assert first + second == pytest.approx(whole)
    assert logs([0.0, 0, 0, 0]) == 0


def test_an_epoch_of_uneven_batches(double):
    """The loss of an epoch is l1 + gradient_weight * divergence."""
    rng = np.random.default_rng(0)
    x = keras.Input((TIME, 2), name="x")
    mask = keras.Input((TIME,), dtype="bool", name="mask")
    outputs = keras.layers.SimpleRNN(2)(x, mask=mask)
    model = GradientDirectedModel(
        keras.Model({"x": x, "mask": mask}, outputs),
        layer="x",
        mask="mask",
        gradient_weight=0.5,
    )
    model.compile(
        keras.optimizers.SGD(0.0), "mse", metrics=["mse"], run_eagerly=True
    )
    inputs = {
        "x": rng.normal(size=(5, TIME, 2)),
        "mask": rng.random((5, TIME)) < 0.8,
    }
    y = np.array([[0.1], [0.2], [0.3], [0.4], [9.0]]) * np.ones((5, 2))

    def epoch(inputs, y, batch_size):
        logs = model.fit(
            inputs, y, batch_size=batch_size, shuffle=False, verbose=0
        ).history
        return [logs[k][0] for k in ("loss", "mse", "gradient_divergence")]

    uneven, whole = epoch(inputs, y, 4), epoch(inputs, y, 5)
    np.testing.assert_allclose(uneven, whole, rtol=1e-5)
    loss, mse, kl = uneven
    assert kl > 1e-3
    assert loss == pytest.approx(mse + 0.5 * kl, rel=1e-5)
    # A batch with fewer real rows counts less, one without any does not.
    order = [0, 1, 0, 1, 2]
    padded = {name: part[order] for name, part in inputs.items()}
    padded["mask"][:2] = False
    rows = {name: part[:3] for name, part in inputs.items()}
    expected = epoch(rows, y[:3], 3)[2]
    for batch_size in (2, 4):
        found = epoch(padded, y[order], batch_size)[2]
        assert found == pytest.approx(expected, rel=1e-5)


def test_what_layers_add_is_in_the_loss_but_not_in_the_gradient():
    class Penalty(keras.layers.Layer):
        def call(self, inputs):
            self.add_loss(keras.ops.mean(inputs[:, 0] ** 2))
            return inputs

    x = keras.Input((TIME, 2), name="x")
    rnn, head = keras.layers.SimpleRNN(2), keras.layers.Dense(1)
    inputs = np.random.default_rng(0).normal(size=(BATCH, TIME, 2))
    logs = []
    for h in (x, Penalty()(x)):
        model = GradientDirectedModel(keras.Model(x, head(rnn(h))), layer="x")
        model.compile(keras.optimizers.SGD(0.0), "mse", run_eagerly=True)
        logs.append(update(model, inputs, np.ones((BATCH, 1)))[1])
    assert logs[0]["gradient_divergence"] > 1e-3
    assert logs[1]["gradient_divergence"] == logs[0]["gradient_divergence"]
    difference = logs[1]["loss"] - logs[0]["loss"]
    assert difference == pytest.approx(np.mean(inputs[:, 0] ** 2), rel=1e-5)


def test_named_outputs_frozen_embedding_and_computed_mask():
    tokens = keras.Input((None,), dtype="int32", name="tokens")
    mask = keras.ops.not_equal(tokens, 0)
    mask = keras.layers.Identity(name="real")(mask)
    embedding = keras.layers.Embedding(WORDS, 2, name="embedding")
    x = embedding(tokens)
    embedding.trainable = False
    h = keras.layers.Bidirectional(keras.layers.SimpleRNN(2))(x, mask=mask)
    outputs = {
        "a": keras.layers.Dense(1, name="a")(h),
        "b": keras.layers.Dense(2, name="b")(h),
    }
    model = GradientDirectedModel(
        keras.Model(tokens, outputs), layer="embedding", mask="real"
    )
    model.compile("sgd", {"a": "mse", "b": "mae"}, run_eagerly=True)
    targets = {"a": np.ones((BATCH, 1)), "b": np.ones((BATCH, 2))}
    numbers = sample()[0]["tokens"] * MASK
    history = model.fit(numbers, targets, verbose=0).history
    assert set(history) == {"loss", "a_loss", "b_loss", "gradient_divergence"}
    assert history["gradient_divergence"][0] > 1e-4
    copy = GradientDirectedModel.from_config(model.get_config())
    assert copy.get_config() == model.get_config()
    copy.set_weights(model.get_weights())
    copy.compile("sgd", {"a": "mse", "b": "mae"}, run_eagerly=True)
    logs = [
        list(m.train_on_batch(numbers, targets, return_dict=True).values())
        for m in (model, copy)
        if m.reset_metrics() is None
    ]
    np.testing.assert_allclose(*logs, rtol=1e-6)


@keras.saving.register_keras_serializable(package="test_gradient_directed")
class Subclassed(keras.Model):
    """A functional model whose layers Keras names, in each process anew."""

    def __init__(self, **kwargs):
        tokens = keras.Input((TIME,), dtype="int32")
        mask = keras.Input((TIME,), dtype="bool")
        first, second = (keras.layers.Embedding(WORDS, 2) for _ in range(2))
        names = [first.name, mask.name]
        x = first(tokens) + 0.1 * second(tokens)
        h = keras.layers.SimpleRNN(3)(x, mask=mask)
        super().__init__([tokens, mask], keras.layers.Dense(1)(h), **kwargs)
        self.named = names

    def get_config(self):
        return {"name": self.name}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        return cls(**config)


def test_names_that_change_when_a_network_is_loaded(tmp_path):
    # The names that follow are not the first.
    keras.layers.Embedding(1, 1)(keras.Input((1,)))
    network = Subclassed()
    layer, mask = network.named
    model = GradientDirectedModel(network, layer=layer, mask=mask)
    model.compile("sgd", "mse", run_eagerly=True)
    inputs, labels = sample()
    inputs = [inputs["tokens"], inputs["mask"]]
    model.save(tmp_path / "model.keras")
    logs = model.train_on_batch(inputs, labels, return_dict=True)
    keras.utils.clear_session()
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert [loaded.layer_name, loaded.mask] == loaded.network.named
    assert loaded.layer_name != layer and loaded.mask != mask
    found = loaded.train_on_batch(inputs, labels, return_dict=True)
    assert found.keys() == logs.keys()
    np.testing.assert_allclose([*found.values()], [*logs.values()], rtol=1e-6)


def test_half_precision():
    """Where a scale overflows, the step is skipped, the means stay finite."""
    keras.config.set_dtype_policy("mixed_float16")
    inputs, labels = sample()
    model = classifier()
    model.compile(
        keras.optimizers.Adam(0.0), "binary_crossentropy", run_eagerly=True
    )

    class Overflow(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            scale = 1e38 if batch == 0 else 2.0**15
            self.model.optimizer.dynamic_scale.assign(scale)

    logs = model.train_on_batch(inputs, labels, return_dict=True)
    assert logs["gradient_divergence"] > 1e-4
    before = model.get_weights()
    twice = [np.concatenate([v, v]) for v in (*inputs.values(), labels)]
    history = model.fit(
        dict(zip(inputs, twice)),
        twice[-1],
        batch_size=BATCH,
        shuffle=False,
        verbose=0,
        callbacks=[Overflow()],
    ).history
    assert np.isfinite(history["loss"]).all()
    assert history["gradient_divergence"][0] == pytest.approx(
        logs["gradient_divergence"], rel=1e-3
    )
    for a, b in zip(before, model.get_weights()):
        np.testing.assert_array_equal(a, b)


def test_small_gradients_survive_in_half_precision():
    keras.config.set_dtype_policy("mixed_float16")
    inputs, labels = sample()
    found = []
    for factor in (1.0, 1e-7):
        keras.utils.set_random_seed(0)
        model = classifier()
        model.compile(
            "adam",
            "binary_crossentropy",
            loss_weights=[factor],
            run_eagerly=True,
        )
        logs = model.train_on_batch(inputs, labels, return_dict=True)
        found.append(logs["gradient_divergence"])
    assert found[0] > 1e-3
    assert found[1] == pytest.approx(found[0], rel=0.2)


def test_a_schedule_drives_the_weight_without_retracing():
    inputs, labels = sample()
    calls = []

    class Counted(keras.layers.Dense):
        def call(self, inputs):
            calls.append(1)
            return super().call(inputs)

    x = keras.Input((TIME, 2), name="x")
    h = keras.layers.SimpleRNN(2, unroll=True)(x)
    model = GradientDirectedModel(keras.Model(x, Counted(1)(h)), layer="x")
    model.compile(keras.optimizers.SGD(0.0), "mse")
    schedule = Schedule({"gradient_weight": (1.0, 0.0)}, 2)
    arrays = np.random.default_rng(0).normal(size=(BATCH, TIME, 2)), labels
    traced = []
    count = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: traced.append(len(calls))
    )
    history = model.fit(
        *arrays, epochs=4, verbose=0, callbacks=[schedule, count]
    ).history
    assert traced == traced[:1] * 4
    assert history["gradient_weight"] == [0.5, 0.0, 0.0, 0.0]
    losses = history["loss"]
    assert losses[0] - losses[1] == pytest.approx(losses[1] - losses[2])
    kl = history["gradient_divergence"][0]
    assert losses[0] - losses[2] == pytest.approx(kl, rel=1e-4)


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(layer="word"), r"`layer` .*\['tokens'.*Received: layer='word'"),
        (dict(layer="dense"), r"`layer` .*\(batch, time, f.*'dense' .*\(None"),
        (dict(mask="gap"), r"`mask` .*there are: \['mask'\].*mask='gap'"),
        (dict(mask="tokens"), r"`mask` .*boolean.*Received: mask='tokens'"),
        (dict(mask=MASK), r"`mask` must name .*Received: mask=array"),
        (dict(gradient_weight=-1.0), r"`gradient_weight` .*gradient_weight=-1"),
        (dict(gradient_weight=float("nan")), r"`gradient_weight` .*=nan"),
    ],
)
def test_bad_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        classifier(**options)


def test_bad_graphs():
    tokens = keras.Input((TIME,), dtype="int32")
    embedding = keras.layers.Embedding(WORDS, 2, name="embedding")
    twice = keras.layers.Add()([embedding(tokens), embedding(tokens)])
    with pytest.raises(ValueError, match="once.*layer='embedding', called 2"):
        GradientDirectedModel(keras.Model(tokens, twice), layer="embedding")
    masking = keras.layers.Embedding(WORDS, 2, mask_zero=True, name="masking")
    with pytest.raises(ValueError, match="`mask` .*`mask_zero=True`"):
        GradientDirectedModel(
            keras.Model(tokens, masking(tokens)), layer="masking"
        )
    wide = keras.Input((TIME, 3), dtype="bool", name="wide")
    outputs = embedding(tokens) * keras.ops.cast(wide[..., :1], "float32")
    with pytest.raises(ValueError, match="`network` .*Received: network=<Sim"):
        GradientDirectedModel(keras.layers.SimpleRNN(2), layer="x")
    with pytest.raises(ValueError, match="`mask` .*Received: mask.shape"):
        GradientDirectedModel(
            keras.Model([tokens, wide], outputs), layer="embedding", mask="wide"
        )


def test_no_gradient_reaches_the_layer():
    tokens = keras.Input((TIME,), dtype="int32")
    x = keras.ops.one_hot(tokens, WORDS)
    rnn = keras.layers.SimpleRNN(2)
    model = GradientDirectedModel(keras.Model(tokens, rnn(x)), layer="one_hot")
    model.compile("sgd", "mse", run_eagerly=True)
    with pytest.raises(ValueError, match="`layer` .*loss depends on.*Received"):
        model.train_on_batch(sample()[0]["tokens"], np.ones((BATCH, 2)))


def check_deciding(layer, estimator):
    """Its update, eager and in a graph; soft ones by finite differences."""
    inputs, labels = sample()
    model = classifier(layer, gradient_weight=0.7)
    for variable in model.trainable_variables:
        variable.assign(
            np.random.default_rng(1).normal(size=variable.shape, scale=0.8)
        )
    start = model.get_weights()
    found, _ = update(compile_(model, run_eagerly=True), inputs, labels)
    model.set_weights(start)
    if estimator == "relaxed":
        expected, _ = numeric_gradient(model, inputs, labels, weight=0.7)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-8)
    again, _ = update(compile_(model, run_eagerly=False), inputs, labels)
    np.testing.assert_allclose(again, found, rtol=1e-6, atol=1e-9)


@pytest.mark.long
def test_receptive_fields_against_finite_differences(double, monkeypatch):
    """First derivatives are those of the loop's own gradient."""
    noise = np.random.default_rng(2).gumbel(size=(TIME, BATCH, 2))
    fix_sizes(monkeypatch, lambda *_: noise)
    cell = keras.layers.SimpleRNNCell(2)
    layer = keras_seqmech.ReceptiveFieldRNN(
        cell, max_size=2, size_from="field", estimator="relaxed"
    )
    check_deciding(layer, "relaxed")


class EncodedRows(keras.layers.Layer):
    """The last upper state of an encoder asked the same of every row."""

    def __init__(self, estimator):
        super().__init__()
        self.encoder = keras_seqmech.FocusedHierarchicalEncoder(
            2, estimator=estimator
        )
        self.supports_masking = True

    def build(self, shape):
        self.encoder.build(shape, (None, 2))

    def compute_mask(self, inputs, previous_mask):
        return None

    def call(self, inputs, mask=None, training=None):
        context = keras.ops.ones_like(inputs[:, 0]) / 2
        return self.encoder(
            inputs, context, sequence_mask=mask, training=training
        )


@pytest.mark.long
def test_an_encoder_is_directed(double, monkeypatch):
    """First derivatives are those of the loops' own gradients."""
    noise = np.random.default_rng(2).logistic(size=(BATCH, TIME))
    fix_gates(monkeypatch, noise)
    check_deciding(EncodedRows("straight_through"), "straight_through")


def test_what_has_no_second_derivative_is_refused(monkeypatch):
    inputs, labels = sample()
    monkeypatch.setattr(
        tf.config, "list_physical_devices", lambda kind=None: [kind]
    )
    model = compile_(classifier(keras.layers.LSTM(2, name="lstm")))
    with pytest.raises(ValueError, match=r"`use_cudnn=False`.*\['lstm'\]"):
        model.train_on_batch(inputs, labels)
    model = compile_(classifier(keras.layers.LSTM(2, use_cudnn=False)))
    assert np.isfinite(update(model, inputs, labels)[0]).all()


def test_xla_is_left_off():
    model = classifier()
    with pytest.warns(UserWarning, match="Proceeding with `jit_compile=False`"):
        model.compile("sgd", "mse", jit_compile=True)
