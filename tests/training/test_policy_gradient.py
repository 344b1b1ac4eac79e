import contextlib

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_seqmech import PolicyGradientModel
from keras_seqmech.training import collect_log_probabilities
from tests import drawing_layers
from tests.pairs import pairs


def sampled_gradients(model, x, y, sample_weight=None, count=200):
    """Gradients of as many draws of a whole batch, `(count, parameters)`."""

    @tf.function
    def draw():
        with collect_log_probabilities(), tf.GradientTape() as tape:
            loss = model.compute_loss(
                x=x,
                y=y,
                y_pred=model(x, training=True),
                sample_weight=sample_weight,
                training=True,
            )
        return tape.gradient(loss, model.trainable_variables)

    return np.stack([drawing_layers.flat(draw()) for _ in range(count)])


def largest_z(samples, exact):
    """The largest deviation of a mean, in standard errors."""
    error = samples.std(axis=0, ddof=1) / np.sqrt(len(samples))
    return np.max(np.abs(samples.mean(axis=0) - exact) / error)


def examples(count=3, length=4, repeats=1, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, length, 3)).astype("float32")
    y = rng.normal(size=(count, 1)).astype("float32")
    return np.tile(x, (repeats, 1, 1)), np.tile(y, (repeats, 1))


# Of 5 to 12 parameters one deviates by more than 5 standard errors in one of
# 100,000 runs; the seeds are fixed besides.
Z = 5.0


@pytest.mark.parametrize("baseline", ["moving_average", "batch_mean"])
def test_mean_of_sampled_gradients_is_the_exact_gradient(baseline):
    model = drawing_layers.gated_model(penalty_weight=0.3, baseline=baseline)
    model.compile("sgd", "mse")
    x, y = examples(repeats=40)
    samples = sampled_gradients(model, x, y)
    share = np.full(len(x), 1 / len(x), "float32")
    exact = drawing_layers.flat(
        drawing_layers.exact_gradient(model, x, y, share)
    )
    assert largest_z(samples, exact) < Z
    assert np.abs(exact).max() > 10 * samples.std(axis=0).max() / np.sqrt(200)


@pairs(
    baseline=["moving_average", "batch_mean", None],
    reduction=["sum_over_batch_size", "mean_with_sample_weight", "sum"],
    weights=[None, np.array([0.0, 0.5, 3.0], "float32")],
    penalty_weight=[0.0, 0.3],
)
def test_gradient_is_the_definition_for_given_draws(
    baseline, reduction, weights, penalty_weight
):
    """Of a layer that is called twice: both draws of a row count."""
    inputs = keras.Input((4, 3))
    gates = drawing_layers.Gates(penalty_weight)
    pooled = drawing_layers.GatedSum()
    both = [pooled(x, gates(x)) for x in (inputs, ops.flip(inputs, axis=1))]
    outputs = keras.layers.Dense(1)(both[0] + both[1])
    model = PolicyGradientModel(
        keras.Model(inputs, outputs), baseline=baseline, baseline_decay=0.75
    )
    model.compile("sgd", keras.losses.MeanSquaredError(reduction=reduction))
    x, y = examples()
    share = np.ones(3, "float32") if weights is None else weights
    if reduction != "sum":
        mean = reduction == "mean_with_sample_weight"
        share = share / (share.sum() if mean else 3)
    sums = np.zeros(2)
    for _ in range(3):
        with tf.GradientTape(persistent=True) as tape:
            with collect_log_probabilities() as drawn:
                y_pred = model(x, training=True)
                draws = list(drawn)
                found = model.compute_loss(
                    x=x, y=y, y_pred=y_pred, sample_weight=weights
                )
            expected = tf.reduce_sum(share * (y_pred - y)[:, 0] ** 2)
            expected += sum(model.losses)
            # What each row adds to the mean over three of them.
            worth = 3 * share * (y_pred - y).numpy()[:, 0] ** 2
            if penalty_weight:
                worth += sum(draw.penalty.numpy() for draw in draws)
            advantage, weight = worth, 3 * share
            if baseline == "batch_mean":
                others = (worth.sum() - worth) / (weight.sum() - weight)
                advantage = worth - weight * others
            elif baseline == "moving_average":
                if sums[1]:
                    advantage = worth - weight * sums[0] / sums[1]
                new = np.array([worth.mean(), weight.mean()])
                sums = 0.75 * sums + 0.25 * new
            log_probability = sum(draw.log_probability for draw in draws)
            learned = tf.reduce_sum(advantage * log_probability) / 3
            expected_with_draws = expected + learned
        np.testing.assert_allclose(found, expected, rtol=1e-5)
        sources = model.trainable_variables
        np.testing.assert_allclose(
            drawing_layers.flat(tape.gradient(found, sources)),
            drawing_layers.flat(tape.gradient(expected_with_draws, sources)),
            rtol=1e-4,
            atol=1e-5,
        )


def test_an_empty_batch_does_no_harm():
    model = drawing_layers.gated_model()
    model.compile("sgd", "mse")
    x, y = examples()
    (gradients,) = sampled_gradients(model, x[:0], y[:0], count=1)
    np.testing.assert_array_equal(gradients, 0)
    (sums,) = (v for v in model.weights if v.name == "baseline")
    np.testing.assert_array_equal(sums.numpy(), 0)


def test_fit_makes_the_step_of_the_gradient():
    x, y = examples(repeats=4)
    results = []
    for fit in (True, False):
        keras.utils.set_random_seed(2)
        model = drawing_layers.gated_model()
        model.network.get_layer("gates").seed_generator.state.assign([1, 2])
        model.compile(keras.optimizers.SGD(0.5), "mse")
        before = drawing_layers.flat(model.trainable_variables)
        if fit:
            model.fit(x, y, batch_size=len(x), shuffle=False, verbose=0)
            after = drawing_layers.flat(model.trainable_variables)
            results.append((before - after) / 0.5)
        else:
            results.append(sampled_gradients(model, x, y, count=1)[0])
    np.testing.assert_allclose(*results, rtol=1e-4, atol=1e-6)
    assert np.abs(results[0][:4]).min() > 1e-3


def gated(model, x, training):
    return model.sum(x, model.gates(x, training=training))


class Reading(keras.Model):
    """A network with a `call` of its own: a way to read, and a layer."""

    def __init__(self, way=gated):
        super().__init__()
        self.way = way
        self.gates = drawing_layers.Gates(name="gates")
        self.sum = drawing_layers.GatedSum()
        self.dense = keras.layers.Dense(1)

    def call(self, x, training=None):
        if not self.gates.built:
            self.gates.build(x.shape)
        return self.dense(self.way(self, x, training))


def reading_model():
    return PolicyGradientModel(Reading())


@pytest.mark.long
@pytest.mark.parametrize(
    ("make", "settings"),
    [
        (reading_model, {"steps_per_execution": 2}),
        (drawing_layers.gated_model, {"jit_compile": True}),
    ],
    ids=["subclass", "jit_compile"],
)
def test_fit_in_all_ways(make, settings):
    x, y = examples(repeats=8)
    model = make()
    model.compile(
        keras.optimizers.Adam(0.05, gradient_accumulation_steps=2),
        "mse",
        metrics=["mae"],
        **settings,
    )
    fit = model.fit(x, y, batch_size=8, epochs=2, verbose=0)
    assert sorted(fit.history) == ["loss", "mae"]
    assert np.all(np.isfinite(fit.history["loss"]))
    assert np.abs(model.network.get_layer("gates").bias.numpy()).max() > 0.01


@pytest.mark.filterwarnings("ignore:Gradients do not exist")
def test_class_weights_dict_inputs_and_several_outputs():
    x = keras.Input((4, 3), name="x")
    scale = keras.Input((1,), name="scale")
    pooled = drawing_layers.GatedSum()(x, drawing_layers.Gates(name="gates")(x))
    outputs = {
        "kind": keras.layers.Dense(2, activation="softmax", name="kind")(
            pooled
        ),
        "size": keras.layers.Dense(1, name="size")(pooled * scale),
        "free": pooled,
    }
    settings = dict(
        loss={
            "kind": "sparse_categorical_crossentropy",
            "size": "mse",
            "free": None,
        },
        loss_weights={"kind": 0.5, "size": 2.0, "free": None},
        metrics={"kind": ["accuracy"]},
        run_eagerly=True,
    )
    data, size = examples(repeats=8)
    inputs = {"x": data, "scale": np.ones((24, 1), "float32")}
    targets = {"kind": (size[:, 0] > 0).astype("int32"), "size": size}
    targets["free"] = np.zeros((24, 3))
    histories = []
    for model_class in (keras.Model, PolicyGradientModel):
        model = keras.Model({"x": x, "scale": scale}, outputs)
        if model_class is PolicyGradientModel:
            model = PolicyGradientModel(model)
        model.compile("sgd", **settings)
        with collect_log_probabilities():
            fit = model.fit(inputs, targets, verbose=0, epochs=2)
        histories.append(sorted(fit.history))
        names = sorted(
            model.evaluate(inputs, targets, verbose=0, return_dict=True)
        )
        histories.append(names)
    assert histories[0] == histories[2]
    assert histories[1] == histories[3]
    assert "kind_loss" in histories[2]


def test_half_precision():
    """The step of float32 for the same draws, but for rounding."""
    x, y = examples(repeats=20)
    steps = []
    for policy in ("float32", "mixed_float16"):
        keras.config.set_dtype_policy(policy)
        keras.utils.set_random_seed(2)
        model = drawing_layers.gated_model()
        model.network.get_layer("gates").seed_generator.state.assign([1, 2])
        model.compile(keras.optimizers.SGD(1.0), "mse")
        before = drawing_layers.flat(model.trainable_variables)
        model.train_on_batch(x, y)
        steps.append(before - drawing_layers.flat(model.trainable_variables))
    assert hasattr(model.optimizer, "inner_optimizer")
    np.testing.assert_allclose(*steps, rtol=0.02, atol=0.02)
    assert np.abs(steps[0]).max() > 0.5


def test_the_moving_average_survives_nan():
    x, y = examples(repeats=8)
    model = drawing_layers.gated_model()
    model.compile(keras.optimizers.SGD(0.0), "mse")
    model.train_on_batch(x, y)
    (sums,) = (v for v in model.weights if v.name == "baseline")
    before = sums.numpy()
    model.train_on_batch(x, np.full_like(y, np.nan))
    np.testing.assert_array_equal(sums.numpy(), before)


def test_batch_mean_of_a_single_example_is_none():
    x, y = examples(count=1)
    gradients = []
    for baseline in ("batch_mean", None):
        keras.utils.set_random_seed(3)
        model = drawing_layers.gated_model(baseline=baseline)
        model.network.get_layer("gates").seed_generator.state.assign([1, 2])
        model.compile("sgd", "mse")
        gradients.append(sampled_gradients(model, x, y, count=5))
    np.testing.assert_array_equal(*gradients)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["list", "dict"])
def test_several_losses_survive_saving(tmp_path, kind):
    x = keras.Input((4, 3))
    pooled = drawing_layers.GatedSum()(x, drawing_layers.Gates()(x))
    outputs = [keras.layers.Dense(1, name=name)(pooled) for name in "ab"]
    loss = ["mse", keras.losses.MeanAbsoluteError(reduction="sum")]
    if kind == "dict":
        loss = {"a": loss[0], "b": loss[1]}
    model = PolicyGradientModel(keras.Model(x, outputs))
    model.compile(
        "sgd", loss, [0.5, 1.0] if kind == "list" else None, run_eagerly=True
    )
    x, y = examples()
    model.fit(x, [y, y], verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.evaluate(x, [y, y], verbose=0) == model.evaluate(
        x, [y, y], verbose=0
    )
    loaded.fit(x, [y, y], verbose=0)


def test_weights_have_telling_names():
    model = drawing_layers.gated_model()
    assert sorted(variable.path for variable in model.weights) == sorted(
        ["gates/kernel", "gates/bias", "dense/kernel", "dense/bias"]
        + [f"{model.name}/baseline"]
    )


@pytest.mark.long
def test_export_is_that_of_the_network(tmp_path):
    x, _ = examples()
    network = drawing_layers.gated_network()
    signatures = []
    for part in (PolicyGradientModel(network), network):
        part.export(tmp_path / "served", verbose=False)
        loaded = tf.saved_model.load(tmp_path / "served")
        serve = loaded.signatures["serving_default"]
        (names,) = serve.structured_input_signature[1:]
        (out,) = serve(**{name: tf.constant(x) for name in names}).values()
        np.testing.assert_allclose(out, network(x), rtol=1e-6)
        signatures.append(str((names, serve.structured_outputs)))
    assert signatures[0] == signatures[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"baseline": "mean"}, "baseline='mean'"),
        ({"baseline_decay": 1.0}, "baseline_decay=1.0"),
        ({"baseline_decay": -0.1}, "baseline_decay=-0.1"),
        ({"baseline_decay": "0.9"}, "baseline_decay='0.9'"),
    ],
)
def test_arguments_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        drawing_layers.gated_model(**arguments)


def scalar_loss(y_true, y_pred):
    return ops.mean((y_true - y_pred) ** 2)


def test_errors_say_what_to_do():
    x, y = examples()
    model = drawing_layers.gated_model()
    with pytest.raises(TypeError):
        PolicyGradientModel(model.network.input, model.network.output)
    with pytest.raises(ValueError, match="`network` .*Received: network=<Ker"):
        PolicyGradientModel(model.network.input)
    with pytest.raises(ValueError, match="no_such_loss"):
        model.compile("sgd", "no_such_loss")
    for loss, name in (
        (scalar_loss, "loss 'scalar_loss'"),
        ([scalar_loss], "loss 'scalar_loss' of output 0"),
        (keras.losses.Dice(name="overlap"), "loss 'overlap'"),
    ):
        model.compile("sgd", loss)
        with pytest.raises(ValueError, match=name):
            model.train_on_batch(x, y)
    model.compile("sgd", lambda y_true, y_pred: (y_true - y_pred)[:2, 0] ** 2)
    with pytest.raises(
        (ValueError, tf.errors.InvalidArgumentError), match="drew for"
    ):
        model.train_on_batch(x, y)

    model = drawing_layers.gated_model(penalty_weight=1.0)
    model.compile("sgd")
    with pytest.raises(ValueError, match="it is the reward"):
        model.train_on_batch(x, y)

    inputs = keras.Input((3,))
    dense = keras.Model(inputs, keras.layers.Dense(1)(inputs))
    model = PolicyGradientModel(dense)
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match="drew nothing in training"):
        model.train_on_batch(x[:, 0], y)
    assert model.evaluate(x[:, 0], y, verbose=0) > 0


def test_compute_loss_takes_what_was_collected():
    """Two steps in one collection are as two in one each."""
    x, y = examples()
    results = []
    for shared in (collect_log_probabilities, contextlib.nullcontext):
        keras.utils.set_random_seed(1)
        model = drawing_layers.gated_model(baseline=None)
        model.network.get_layer("gates").seed_generator.state.assign([1, 2])
        model.compile("sgd", "mse")
        own = contextlib.nullcontext
        if shared is own:
            own = collect_log_probabilities
        steps = []
        with shared():
            for _ in range(2):
                with own(), tf.GradientTape() as tape:
                    y_pred = model(x, training=True)
                    loss = model.compute_loss(x=x, y=y, y_pred=y_pred)
                gradients = tape.gradient(loss, model.trainable_variables)
                steps.append(drawing_layers.flat(gradients))
        results.append(steps)
    np.testing.assert_array_equal(*results)
    assert np.any(results[0][0] != results[0][1])


def test_time_distributed_draws_for_each_step():
    inputs = keras.Input((2, 4, 3))
    gates = drawing_layers.Gates(name="gates")
    layer = keras.layers.TimeDistributed(gates)
    outputs = ops.sum(layer(inputs), axis=(1, 2))[:, None]
    model = PolicyGradientModel(keras.Model(inputs, outputs))
    x = np.random.default_rng(0).normal(size=(3, 2, 4, 3)).astype("float32")
    with collect_log_probabilities() as decisions:
        layer(x, training=True)
    assert [d.log_probability.shape for d in decisions] == [(3,), (3,)]
    model.compile("sgd", "mse", run_eagerly=True)
    before = gates.kernel.numpy()
    model.train_on_batch(x, np.ones((3, 1)))
    assert np.all(gates.kernel != before)


@pytest.mark.parametrize("batch_size", [None, 2])
def test_a_layer_that_sees_another_batch_is_refused(batch_size):
    inputs = keras.Input(batch_shape=(batch_size, 5, 4, 3))
    inner = keras.Input((4, 3))
    gates = keras.Model(inner, drawing_layers.Gates(name="gates")(inner))
    folded = keras.layers.Lambda(lambda x: ops.reshape(x, (-1, 4, 3)))(inputs)
    opened = ops.reshape(gates(folded), (-1, 5, 4))
    outputs = ops.sum(opened, axis=(1, 2))[:, None]
    model = PolicyGradientModel(keras.Model(inputs, outputs))
    model.compile("sgd", "mse")
    with pytest.raises(
        (ValueError, tf.errors.InvalidArgumentError),
        match="'gates' drew for",
    ):
        model.train_on_batch(np.ones((2, 5, 4, 3)), np.ones((2, 1)))


def compiled_apart(model, x, training):
    return tf.function(lambda x: gated(model, x, training))(x)


def looping(model, x, training):
    """It draws outside of the loop, too, and before."""
    opened = ops.fori_loop(
        0,
        2,
        lambda i, n: n + model.gates(x, training=training),
        model.gates(x, training=training),
    )
    return model.sum(x, opened)


@pytest.mark.parametrize(
    ("way", "eagerly"),
    [(compiled_apart, False), (compiled_apart, True), (looping, False)],
)
def test_draws_in_a_graph_within_the_step_are_refused(way, eagerly):
    x, y = examples()
    model = PolicyGradientModel(Reading(way))
    model.compile("sgd", "mse", run_eagerly=eagerly)
    with pytest.raises(ValueError, match=r"not within .*\['gates'\]"):
        model.train_on_batch(x, y)


LABELS = np.arange(12) % 3


@pytest.mark.filterwarnings("ignore:Gradients do not exist")
@pytest.mark.parametrize(
    ("loss", "labels"),
    [
        ("sparse_categorical_crossentropy", LABELS[:, None] * 1.0),
        ("binary_crossentropy", np.eye(3)[LABELS]),
    ],
)
def test_a_plain_model_of_the_same_seed_reports_the_same(loss, labels):
    x, _ = examples(repeats=4)
    logs = []
    for model_class in (keras.Model, PolicyGradientModel):
        keras.utils.set_random_seed(5)
        inputs = keras.Input((4, 3))
        gates = drawing_layers.Gates(0.2, name="gates", seed=1)(inputs)
        pooled = drawing_layers.GatedSum()(inputs, gates)
        outputs = keras.layers.Dense(3, activation="softmax")(pooled)
        model = network = keras.Model(inputs, outputs)
        if model_class is PolicyGradientModel:
            model = PolicyGradientModel(network)
        model.compile(
            keras.optimizers.SGD(0.1),
            loss,
            metrics=["accuracy"],
            run_eagerly=True,
        )
        with collect_log_probabilities():
            trained = model.train_on_batch(x, labels)
        # The dense layer has the plain gradient, the gates have more.
        logs.append([*trained, *network.get_weights()[2:4]])
        for weight in network.weights[:2]:
            weight.assign(keras.ops.ones_like(weight))
        logs[-1] += model.test_on_batch(x, labels)
        logs[-1] += model.evaluate(x, labels, verbose=0)
        logs[-1].append(model.predict(x, verbose=0))
    for plain, found in zip(*logs, strict=True):
        np.testing.assert_array_equal(found, plain)
