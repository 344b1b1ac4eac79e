"""Poolings against numpy, closed forms and the properties of each."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

import keras_seqmech
from tests import references

LAYERS = {
    "mean": keras_seqmech.MeanPooling,
    "max": keras_seqmech.MaxPooling,
    "last": keras_seqmech.LastPooling,
    "two": lambda **k: keras_seqmech.LastPooling(bidirectional=True, **k),
    "concat": keras_seqmech.ConcatPooling,
    "attention": keras_seqmech.AttentionPooling,
    "max attention": keras_seqmech.MaxAttentionPooling,
    "last attention": keras_seqmech.LastAttentionPooling,
}


def over_layers(names=tuple(LAYERS)):
    return pytest.mark.parametrize("name", names)


def draw(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def draw_mask(*shape, seed=1):
    mask = np.random.default_rng(seed).uniform(size=shape) < 0.6
    mask[0], mask[-1] = True, False
    return mask


def reference(name, layer, steps):
    """What a layer makes of the real steps `(time, features)` of a row."""
    if not len(steps):
        size = 3 if name == "concat" else 1
        return np.zeros(size * steps.shape[1])
    if name == "attention":
        return references.attend(layer.query.numpy(), steps, steps)
    return {
        "mean": references.mean,
        "max": references.maximum,
        "last": references.last,
        "two": references.two_ends,
        "concat": references.concat,
        "max attention": references.max_attention,
        "last attention": references.last_attention,
    }[name](steps)


@over_layers()
def test_value_of_any_mask(name):
    sequences, mask = draw(6, 5, 4), draw_mask(6, 5)
    layer = LAYERS[name](dtype="float64")
    outputs = layer(sequences, mask=mask)
    for row, steps, real in zip(outputs, sequences, mask):
        expected = reference(name, layer, steps[real])
        np.testing.assert_allclose(row, expected, rtol=1e-12, atol=1e-14)


@over_layers()
def test_gradient_by_finite_differences(name):
    sequences, mask = draw(3, 4, 2), draw_mask(3, 4)
    layer = LAYERS[name](dtype="float64")
    weights = draw(2 * (3 if name == "concat" else 1), seed=2)
    function = lambda x: ops.sum(layer(x, mask=mask) * weights)  # noqa: E731
    theory, numeric = tf.test.compute_gradient(
        function, [tf.constant(sequences)], delta=1e-6
    )
    np.testing.assert_allclose(theory[0], numeric[0], rtol=1e-6, atol=1e-8)


def test_half_precision_scores_do_not_overflow():
    keras.config.set_dtype_policy("mixed_float16")
    sequences = np.full((1, 8, 64), 200.0, "float16")
    sequences[0, 0] = 100  # 64 * 200 * 200 is beyond float16
    for layer in (
        keras_seqmech.AttentionPooling("ones", return_attention_scores=True),
        keras_seqmech.MaxAttentionPooling(return_attention_scores=True),
    ):
        pooled, decisions = layer(sequences)
        weights = decisions["attention_scores"].numpy()
        assert weights.dtype == "float32"
        np.testing.assert_allclose(weights.sum(), 1, rtol=1e-5)
        assert np.isfinite(pooled).all()
    mean = keras_seqmech.MeanPooling()(np.full((1, 4000, 1), 60, "float16"))
    np.testing.assert_array_equal(mean, [[60]])


def test_ties_of_the_maximum_share_its_gradient():
    sequences = tf.constant([[[2.0], [1.0], [2.0], [2.0]]])
    with tf.GradientTape() as tape:
        tape.watch(sequences)
        mask = [[True, True, True, False]]
        pooled = keras_seqmech.MaxPooling()(sequences, mask=mask)
    gradient = tape.gradient(pooled, sequences)
    np.testing.assert_allclose(gradient[0, :, 0], [0.5, 0, 0.5, 0])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("is_finite", [True, False])
def test_the_maximum_may_be_the_lowest_number(dtype, is_finite):
    """It is no sign of a row without a real step."""
    lowest = float(tf.as_dtype(dtype).min) if is_finite else -np.inf
    sequences = tf.fill((2, 3, 1), tf.constant(lowest, dtype))
    mask = np.array([[False, True, True], [False, False, False]])
    for layer in (
        keras_seqmech.MaxPooling(dtype=dtype),
        keras_seqmech.ConcatPooling(["max"], dtype=dtype),
    ):
        for given, expected in ((None, [lowest] * 2), (mask, [lowest, 0.0])):
            with tf.GradientTape() as tape:
                tape.watch(sequences)
                pooled = layer(sequences, mask=given)
            found = keras.ops.cast(pooled, "float64")
            np.testing.assert_array_equal(found[:, 0], expected)
            gradient = tape.gradient(pooled, sequences)
            assert np.isfinite(keras.ops.cast(gradient, "float32")).all()


def test_a_maximum_of_minus_infinity_is_no_query():
    """Keys that are infinite have no direction: all steps weigh the same."""
    sequences = np.array([[[1.0, -np.inf], [3.0, -np.inf]]], "float32")
    pooled = keras_seqmech.MaxAttentionPooling()(sequences)
    np.testing.assert_array_equal(pooled, [[2.0, -np.inf]])


# Last-attention.


@pytest.mark.parametrize("training", [False, True])
def test_dropout_of_one_is_last_pooling(training):
    sequences, mask = draw(6, 5, 4), draw_mask(6, 5)
    layer = keras_seqmech.LastAttentionPooling(attention_dropout=1.0)
    pooled = layer(sequences, mask=mask, training=training)
    expected = keras_seqmech.LastPooling()(sequences, mask=mask)
    np.testing.assert_array_equal(pooled, expected)
    assert float(layer.losses[0]) == 0


def test_attention_may_be_left_out_at_inference():
    sequences, mask = draw(6, 5, 4), draw_mask(6, 5)
    layer = keras_seqmech.LastAttentionPooling(attention_at_inference=False)
    expected = keras_seqmech.LastPooling()(sequences, mask=mask)
    pooled = layer(sequences, mask=mask)
    np.testing.assert_array_equal(pooled, expected)
    pooled = layer(sequences, mask=mask, training=True)
    assert np.abs(pooled - expected).max() > 0.1


def test_dropout_leaves_out_its_share():
    # With equal keys every step that stays has the same weight.
    layer = keras_seqmech.LastAttentionPooling(
        attention_dropout=0.3, return_attention_scores=True, seed=3
    )
    _, decisions = layer(np.ones((400, 101, 2)), training=True)
    weights = decisions["attention_scores"].numpy()
    kept = weights[:, :-1] > 0
    # 40,000 draws: five standard deviations.
    assert abs(kept.mean() - 0.7) < 5 * np.sqrt(0.3 * 0.7 / kept.size)
    assert (weights[:, -1] > 0).all()
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-5)


def test_dropout_follows_its_variable_without_retracing():
    layer = keras_seqmech.LastAttentionPooling(return_attention_scores=True)
    sequences = np.ones((4, 50, 2), "float32")
    call = tf.function(lambda x: layer(x, training=True)[1])
    for rate, kept in ((0.0, 200), (1.0, 4)):
        layer.build(sequences.shape) if not layer.built else None
        layer.attention_dropout.assign(rate)
        weights = call(sequences)["attention_scores"].numpy()
        assert (weights > 0).sum() == kept
    assert call.experimental_get_tracing_count() == 1


def test_a_penalty_is_refused_where_it_is_recomputed():
    """Raised by a schedule, too: it would have no gradient."""
    with keras.RematScope("full"):
        layers = [keras_seqmech.LastAttentionPooling(p) for p in (0.0, 0.5)]
    sequences = draw(6, 5, 4)
    expected = keras_seqmech.LastAttentionPooling()(sequences)
    np.testing.assert_array_equal(layers[0](sequences), expected)
    layers[0].penalty.assign(0.5)
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be 0"):
        layers[0](sequences)
    with pytest.raises(ValueError, match="adds a loss"):
        layers[1](sequences)


@pytest.mark.parametrize("rate", [0.0, 0.4])
def test_penalty_is_the_attention_ratio_the_last_step(rate):
    sequences, mask = draw(6, 5, 4), draw_mask(6, 5)
    layer = keras_seqmech.LastAttentionPooling(
        penalty=0.7,
        attention_dropout=rate,
        return_attention_scores=True,
        dtype="float64",
    )
    _, decisions = layer(sequences, mask=mask, training=True)
    ratios = []
    for weights, real in zip(decisions["attention_scores"].numpy(), mask):
        *others, last = weights[real] if real.any() else (0.0, 1.0)
        ratios.append(sum(others) / last)
    (loss,) = layer.losses
    np.testing.assert_allclose(loss, 0.7 * np.mean(ratios), rtol=1e-6)


def test_penalty_of_an_empty_batch_is_zero():
    # As a replica has it that gets no row of the last batch.
    layer = keras_seqmech.LastAttentionPooling(penalty=1.0)
    layer.build((None, 4, 3))
    run = tf.function(lambda x: (layer(x), layer.losses[0]))
    pooled, loss = run(np.zeros((0, 4, 3), "float32"))
    assert pooled.shape == (0, 3)
    assert float(loss) == 0


def test_huge_products_do_not_give_nan():
    for query, step, policy in (
        ([1e5, -1e5], [1e34, 1e34], "float32"),
        ([1e5, 0], [1.0, 0], "mixed_float16"),
    ):
        keras.config.set_dtype_policy(policy)
        layer = keras_seqmech.AttentionPooling(return_attention_scores=True)
        layer.build((None, None, 2))
        layer.query.assign(query)
        pooled, scores = layer(np.array([[step, step]], "float32"))
        np.testing.assert_array_equal(scores["attention_scores"], [[0.5, 0.5]])
        np.testing.assert_allclose(pooled[0], step, rtol=1e-6)


# Models.


def test_schedules_know_that_dropout_is_a_share():
    layer = keras_seqmech.LastAttentionPooling()
    layer.build((None, None, 2))
    assert float(layer.attention_dropout.constraint(np.float32(1.5))) == 1


def test_mask_of_keras_is_taken_where_it_is_passed_on():
    sequences = draw(2, 4, 3).astype("float32")
    sequences[1, 2:] = 0
    model = keras.Sequential(
        [keras.layers.Masking(), keras_seqmech.MaxPooling()]
    )
    np.testing.assert_array_equal(
        model(sequences)[1], sequences[1, :2].max(axis=0)
    )
