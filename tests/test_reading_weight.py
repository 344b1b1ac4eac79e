"""The weight of what is read: drawn in training, given at inference."""

import inspect

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from keras_seqmech import BoundaryGate
from keras_seqmech import DecisionPenalties
from keras_seqmech import EmissionProbabilities
from keras_seqmech import ExpectedSubsample
from keras_seqmech import ExploreThenCommit
from keras_seqmech import FocusedHierarchicalEncoder
from keras_seqmech import LookAhead
from keras_seqmech import PolicyGradientModel
from keras_seqmech import ReadingWeight
from keras_seqmech import ReceptiveFieldRNN
from keras_seqmech.serving import StreamingModel
from keras_seqmech.testing import verify
from tests.fixed_noise import silence
from tests.serving import streamed

LEAST, MOST = 0.004, 0.15
X = np.random.default_rng(1).normal(size=(4, 6, 3)).astype("float32")
MASK = np.array([[1] * 6, [1, 1, 0, 1, 0, 0], [1, 1, 1, 0, 0, 0], [0] * 6])
WEIGHTS = np.array([0.004, 0.02, 0.05, 0.15], "float32")
CONTEXT = X[:, 0]
ONE = DecisionPenalties(reading=1.0)


def test_weights_are_drawn_log_uniformly():
    layer = ReadingWeight(LEAST, MOST, seed=1)
    drawn = layer(np.ones((4000, 1)), training=True)
    assert drawn.shape == (4000,) and drawn.dtype == "float32"
    share = np.log(drawn / LEAST) / np.log(MOST / LEAST)
    assert stats.kstest(share, "uniform").pvalue > 1e-3
    assert (layer(np.ones(4000), training=True) != drawn).numpy().mean() > 0.99


@pytest.mark.parametrize("policy", ["float32", "mixed_float16", "float64"])
def test_given_weights_are_held_in_the_range(policy):
    layer = ReadingWeight(LEAST, MOST, dtype=policy)
    weights = layer(np.array([[0.0], [0.02], [9.0]]))
    assert weights.dtype == ("float64" if policy == "float64" else "float32")
    np.testing.assert_allclose(weights, [LEAST, 0.02, MOST], rtol=1e-6)
    compiled = tf.function(layer, jit_compile=True)
    np.testing.assert_allclose(
        compiled(tf.constant([np.nan, 0.02])), [LEAST, 0.02], rtol=1e-6
    )


def test_weights_are_not_drawn_where_they_are_recomputed():
    with keras.RematScope("full"):
        layer = ReadingWeight(LEAST, MOST)
    np.testing.assert_array_equal(layer(WEIGHTS), WEIGHTS)
    with pytest.raises(ValueError, match="A layer that draws"):
        layer(WEIGHTS, training=True)


@pytest.mark.parametrize("weight", [-0.1, float("nan")])
def test_bad_weights(weight):
    layer, weights = ReadingWeight(LEAST, MOST), np.array([0.01, weight])
    with pytest.raises(ValueError, match="`weight`.*Received: weight="):
        layer(weights)
    with pytest.raises(tf.errors.InvalidArgumentError, match="`weight` must"):
        tf.function(layer)(tf.constant(weights))


def test_bad_shapes():
    with pytest.raises(ValueError, match=r"`weight`.*\(batch, 1\).*\(2, 3\)"):
        ReadingWeight(LEAST, MOST)(np.ones((2, 3)))


@pytest.mark.parametrize(
    ("weight", "received"),
    [
        (np.array(["a", "b"]), "weight.dtype=string"),
        (np.ones(2, bool), "weight.dtype=bool"),
        (np.ones(2, "complex64"), "weight.dtype=complex64"),
        ([[1.0], [1.0, 2.0]], "weight="),
        (tf.ragged.constant([[1.0], [1.0, 2.0]]), "weight.shape="),
    ],
)
def test_layers_refuse_weights_that_are_no_numbers(weight, received):
    with pytest.raises(ValueError, match=f"`weight`.*Received: {received}"):
        LookAhead(3)(np.ones((2, 4, 3)), weight=weight)


def look_ahead(penalties):
    return LookAhead(
        3, penalties=penalties, initial_stop=0.4, return_field=True
    ), {"mask": MASK}


def recurrent(penalties):
    cell = keras.layers.GRUCell(3, name="inner")
    options = {"return_sequences": True, "return_field": True}
    layer = ReceptiveFieldRNN(cell, 3, penalties=penalties, **options)
    return layer, {"mask": MASK}


def gate(penalties):
    layer = BoundaryGate(3, penalties=penalties, return_gates=True)
    return layer, {"context": CONTEXT, "mask": MASK}


def encoder(penalties):
    layer = FocusedHierarchicalEncoder(
        3, penalties=penalties, return_gates=True
    )
    return layer, {"context": CONTEXT, "mask": MASK}


def subsample(penalties):
    emission = np.linspace(0.1, 0.9, 24).reshape(4, 6).astype("float32")
    layer = ExpectedSubsample(3, penalties=penalties, return_emission=True)
    return layer, {"emission_probabilities": emission, "mask": MASK}


LAYERS = pytest.mark.parametrize(
    "make",
    [look_ahead, recurrent, gate, encoder, subsample],
    ids=lambda f: f.__name__,
)


def train(layer, **arguments) -> tuple[float, list]:
    """The auxiliary loss and the outputs of a call in training."""
    outputs = layer(X, training=True, **arguments)
    return sum(map(float, layer.losses)), keras.tree.flatten(outputs)


@LAYERS
def test_penalties_by_example(make, monkeypatch):
    """Each example's weight multiplies its part of the loss, and no other."""
    silence(monkeypatch)
    layer, arguments = make(ONE)
    layer(X, weight=WEIGHTS, **arguments)
    for variable in layer.weights:
        if "weight_kernel" in variable.path:
            # What decisions see has no effect.
            variable.assign(variable * 0)
    parts = [train(layer, weight=w, **arguments)[0] for w in np.eye(4) + 1e-9]
    assert min(parts[:3]) > 1e-3 > parts[3]
    found, _ = train(layer, weight=WEIGHTS, **arguments)
    np.testing.assert_allclose(found, WEIGHTS @ parts, rtol=1e-5)


@LAYERS
def test_a_constant_weight_is_the_plain_one(make, monkeypatch):
    """It multiplies `reading`, as the argument of the penalties would."""
    silence(monkeypatch)
    weighed, arguments = make(ONE)
    plain, _ = make(DecisionPenalties(reading=0.01))
    # Of this weight decisions see 0.
    constant = np.full(4, 0.01, "float32")
    weighed(X, weight=constant, **arguments)
    plain(X, **arguments)
    own = {v.path.partition("/")[2]: v for v in weighed.weights}
    for variable in plain.trainable_weights:
        variable.assign(own[variable.path.partition("/")[2]])
    loss, outputs = train(weighed, weight=constant, **arguments)
    plain_loss, expected = train(plain, **arguments)
    np.testing.assert_allclose(loss, plain_loss, rtol=1e-5)
    for x, y in zip(outputs, expected, strict=True):
        features = y.shape[-1]
        np.testing.assert_allclose(x[..., :features], y, atol=1e-6)
        np.testing.assert_allclose(x[..., features:], 0, atol=1e-6)


@LAYERS
@pytest.mark.parametrize(
    "policy", [pytest.param("float32", marks=pytest.mark.slow), "mixed_float16"]
)
def test_weights_beyond_float16(make, policy, monkeypatch):
    """They count as the largest of it, infinity too, whatever the policy."""
    silence(monkeypatch)
    found = []
    for weight in (65504.0, 7e4, np.inf):
        keras.utils.set_random_seed(1)
        keras.config.set_dtype_policy(policy)
        layer, arguments = make(ONE)
        weights = np.full(4, weight, "float32")
        layer(X, weight=weights, **arguments)
        with tf.GradientTape() as tape:
            loss, outputs = train(layer, weight=weights, **arguments)
            total = sum(layer.losses)
        variables = [v.value for v in layer.trainable_weights]
        gradients = tape.gradient(total, variables)
        if policy == "float32":
            # Those of float16 need a loss scale.
            assert all(np.isfinite(g).all() for g in gradients if g is not None)
        found.append([loss, *outputs])
    assert np.isfinite(found[0][0])
    for other in found[1:]:
        for x, y in zip(other, found[0], strict=True):
            np.testing.assert_array_equal(x, y)


def test_emission_probabilities_under_an_infinite_weight():
    layer = EmissionProbabilities(0.5)
    layer(X, weight=WEIGHTS)
    use_weight(layer)
    found, expected = (
        layer(X, weight=np.full(4, w, "float32")) for w in (np.inf, 65504)
    )
    np.testing.assert_array_equal(found, expected)


def test_packed_rows_have_their_own_weights():
    layer, arguments = recurrent(None)
    layer(X, weight=WEIGHTS, **arguments)
    use_weight(layer)
    outputs = []
    for packs in (True, False):
        layer.packed = packs
        call = tf.function(lambda w: layer(X, weight=w, **arguments))
        outputs.append(keras.tree.flatten(call(tf.constant(WEIGHTS))))
    for x, y in zip(*outputs, strict=True):
        np.testing.assert_allclose(x, y, atol=1e-6)
    # The second row's weight is its own.
    others = WEIGHTS[[2, 1, 0, 3]]
    changed = layer(X, weight=others, **arguments)
    differs = np.any(changed[1]["probabilities"] != outputs[0][1], axis=(1, 2))
    assert differs.tolist() == [True, False, True, False]


def use_weight(layer) -> None:
    """Makes decisions depend on the weight, some more than others."""
    (kernel,) = (v for v in layer.weights if v.name == "weight_kernel")
    size = int(np.prod(kernel.shape))
    kernel.assign(np.linspace(-3, 3, size).reshape(kernel.shape))


@LAYERS
def test_weights_are_given_always_or_never(make):
    layer, arguments = make(ONE)
    layer(X, **arguments)
    for given in (WEIGHTS, [*WEIGHTS], 0.02):
        with pytest.raises(ValueError, match="`weight`.*or None in all"):
            layer(X, weight=given, **arguments)
    layer, _ = make(ONE)
    for bad in (WEIGHTS[:, None], WEIGHTS[:3]):
        with pytest.raises(ValueError, match=r"`weight`.*\(batch,\)"):
            layer(X, weight=bad, **arguments)
    layer(X, weight=WEIGHTS, **arguments)
    with pytest.raises(ValueError, match=r"`weight`.*\(batch,\)"):
        layer(X, weight=0.02, **arguments)
    for bad in (np.nan, -0.1):
        with pytest.raises(ValueError, match="`weight`.*at least 0"):
            layer(X, weight=[0.1, 0.1, bad, 0.1], **arguments)
    call = tf.function(
        lambda weight: layer(X, weight=weight, **arguments),
        input_signature=[tf.TensorSpec([None])],
    )
    call(WEIGHTS)
    with pytest.raises(tf.errors.InvalidArgumentError, match="weight"):
        call(WEIGHTS[:1])


def model(estimator="straight_through"):
    """Sizes, gates and kept steps under one weight."""
    x = keras.Input((None, 3), name="x")
    given = keras.Input((), name="weight")
    weight = ReadingWeight(LEAST, MOST)(given)
    own = {"estimator": estimator, "track_statistics": True}
    read = LookAhead(3, name="look", initial_stop=0.4, **own)(x, weight=weight)
    assert read.shape[-1] == 3 * 3 + 3  # The weight is for decisions alone.
    context = keras.layers.GlobalAveragePooling1D()(x)
    states = FocusedHierarchicalEncoder(
        3, return_sequences=True, name="encoder", **own
    )(read, context, weight=weight)
    emission = EmissionProbabilities(0.5)(states, weight=weight)
    kept = ExpectedSubsample(3, estimator="straight_through")(
        states, emission, weight=weight
    )
    outputs = keras.layers.Dense(1)(keras.layers.LSTM(3)(kept))
    return [x, given], outputs


@pytest.mark.long
@pytest.mark.parametrize(
    "estimator, jit_compile", [("reinforce", False), ("straight_through", True)]
)
def test_one_weight_of_a_whole_model(estimator, jit_compile, tmp_path):
    inputs, outputs = model(estimator)
    network = keras.Model(inputs, outputs)
    trained = network
    if estimator == "reinforce":
        trained = PolicyGradientModel(network)
    trained.compile("adam", "mse", jit_compile=jit_compile)
    history = trained.fit(
        {"x": X, "weight": WEIGHTS},
        np.ones((4, 1)),
        epochs=2,
        callbacks=[ExploreThenCommit()],
        verbose=0,
    ).history
    assert np.isfinite(history["loss"]).all()
    assert history["reading_factor"][-1] == 1 and "reading" not in history
    for layer in network.layers:
        if hasattr(layer, "penalty_weights"):
            assert float(layer.penalty_weights.reading) == 1
    path = tmp_path / "model.keras"
    network.save(path)
    again = keras.saving.load_model(path)
    inputs = {"x": X, "weight": WEIGHTS}
    np.testing.assert_array_equal(
        again.predict(inputs, verbose=0), network.predict(inputs, verbose=0)
    )


@pytest.mark.parametrize(
    "kind",
    [
        "look_ahead-field",
        pytest.param("recurrent-input", marks=pytest.mark.slow),
        pytest.param("encoder", marks=pytest.mark.slow),
    ],
)
def test_each_row_of_a_stream_has_its_own(kind):
    x = keras.Input((None, 3), name="x")
    weight = keras.Input((), name="weight")
    weights = np.array([*WEIGHTS[:3], np.inf], "float32")
    kind, _, size_from = kind.partition("-")
    options = {"size_from": size_from, "return_field": True}
    if kind == "look_ahead":
        layer = LookAhead(4, initial_stop=0.4, **options)
        read, shown = layer(x, weight=weight)
    elif kind == "recurrent":
        cell = keras.layers.GRUCell(3)
        layer = ReceptiveFieldRNN(cell, 4, return_sequences=True, **options)
        read, shown = layer(x, weight=weight)
    else:
        options = {"return_sequences": True, "return_gates": True}
        layer = FocusedHierarchicalEncoder(3, initial_openness=0.5, **options)
        table = keras.ops.tile(keras.ops.reshape(weight, (-1, 1)), (1, 2))
        read, shown = layer(x, keras.ops.ones_like(table), weight=weight)
    use_weight(layer)
    decided = shown["size" if size_from else "gates"]
    whole = keras.Model([x, weight], {"read": read, "decided": decided})
    expected = whole({"x": X, "weight": weights})
    by_row = expected["decided"].numpy().mean(axis=1)
    assert len(np.unique(by_row)) > 1
    stream = StreamingModel(whole)
    found = streamed.run(stream, {"x": X, "weight": weights}, [1] * 6)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, atol=1e-5)
    weights[0] = np.nan
    with pytest.raises(tf.errors.InvalidArgumentError, match="`weight`"):
        streamed.run(stream, {"x": X, "weight": weights}, [1] * 6)


def emission(_):
    return EmissionProbabilities(0.5), {"mask": MASK}


@pytest.mark.long
@pytest.mark.parametrize(
    "make", [look_ahead, recurrent, gate, encoder, emission]
)
def test_contracts(make):
    # A seed of which no decision is nearly a tie, in bfloat16 neither.
    generator = np.random.default_rng(1)
    layer, arguments = make(None)
    first = next(iter(inspect.signature(layer.call).parameters))
    inputs = {first: generator.normal(size=(5, 7, 3))}
    if "context" in arguments:
        inputs["context"] = generator.normal(size=(5, 2))
    inputs["weight"] = generator.uniform(LEAST, MOST, size=5)
    wide = ["output_0"] if make in (gate, emission) else []
    held = verify(lambda: make(None)[0], inputs, wide=wide)
    assert "masked_steps_reach_nothing" in held
    assert "xla_gives_the_same" in held
