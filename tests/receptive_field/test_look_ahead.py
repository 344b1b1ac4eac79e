"""Reading ahead in front of any layer, against its equations written out."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from examples.tasks import look_ahead as task
from keras_seqmech import ExploreThenCommit
from keras_seqmech import LookAhead
from keras_seqmech import ReceptiveFieldRNN
from keras_seqmech import ReceptiveFieldWindows
from keras_seqmech import analysis
from keras_seqmech.receptive_field import ahead
from tests import references
from tests.fixed_noise import fix_sizes
from tests.pairs import pairs

BATCH, TIME, FEATURES, CONTEXT, SIZE, UNITS = 3, 8, 4, 2, 4, 5
MASK = np.array(
    [
        [True] * TIME,
        [True] * 5 + [False] * 3,
        [False, True, True, False, True, False, False, True],
    ]
)


def stop_probabilities(weights, x, valid, context):
    """p(size) of one step by a walk over its window."""
    left, state, result = 1.0, None, []
    for i, exists in enumerate(valid):
        later = any(valid[i + 1 :])
        if not exists:
            result.append(0.0)
            continue
        new = x[i] @ weights["kernel"] + weights["bias"]
        if i == 0 and context is not None:
            new = new + context @ weights["context_kernel"]
        if state is not None:
            new = new + state @ weights["recurrent_kernel"]
        state = np.tanh(new)
        stop = 1.0
        if later:
            logit = state @ weights["stop_kernel"] + weights["stop_bias"][i]
            stop = float(references.sigmoid(logit[0]))
        result.append(left * stop)
        left *= 1 - stop
    return np.array(result)


def summarize(weights, window, keep, valid):
    """Reads back from the last position to the second."""
    result = np.zeros(UNITS)
    for x, share, exists in list(zip(window, keep, valid))[:0:-1]:
        if exists:
            new = x @ weights["summary_kernel"] + weights["summary_bias"]
            new = new + result @ weights["summary_recurrent_kernel"]
            result = share * np.tanh(new)
    return result


def reference(layer, x, context, mask, noise=None):
    """Outputs, sizes and probabilities, step by step in order."""
    weights = {w.name: w.numpy() for w in layer.weights}
    outputs = np.zeros((*x.shape[:2], layer.window * x.shape[2] + UNITS))
    sizes = np.zeros(x.shape[:2])
    probabilities = np.zeros((*x.shape[:2], SIZE))
    for b, row in enumerate(x):
        asked = np.zeros((TIME + SIZE, SIZE))  # q, with zeros before the start
        arrived = np.zeros((TIME + 1, SIZE + 1))
        for t in range(TIME):
            places = range(t, t + SIZE)
            valid = [p < TIME and bool(mask[b, p]) for p in places]
            window = [row[p] if p < TIME else 0 * row[0] for p in places]
            window = [v * w for v, w in zip(valid, window)]
            c = None if context is None else context[b, t]
            if layer.size_from == "field":
                p = stop_probabilities(weights, window, valid, c)
                log_p = np.log(np.maximum(p, 1e-300)) - 1e9 * (p == 0)
            else:
                log_p = window[0] @ weights["kernel"] + weights["bias"]
                if c is not None:
                    log_p = log_p + c @ weights["context_kernel"]
                p = references.softmax(log_p)
            if noise is not None:
                chosen = references.softmax(log_p + noise[b, t])
            elif layer.size_from == "field":
                later = p[::-1].cumsum()[::-1] - p
                chosen = np.eye(SIZE)[np.argmax(p >= later)]
            else:
                chosen = np.eye(SIZE)[np.argmax(log_p)]
            asked = chosen[::-1].cumsum()[::-1] * mask[b, t]
            arrived[t + 1, :SIZE] = 1 - (1 - asked) * (1 - arrived[t, 1:])
            keep = arrived[t + 1, :SIZE] * valid * mask[b, t]
            shown = [k * w for k, w in zip(keep, window[: layer.window])]
            summary = summarize(weights, window, keep, valid)
            outputs[b, t] = np.concatenate([*shown, summary * mask[b, t]])
            sizes[b, t] = keep.sum()
            probabilities[b, t] = p * mask[b, t]
    return outputs, sizes, probabilities


@pairs(
    size_from=["field", "input"],
    has_context=[True, False],
    mask=[None, MASK],
    training=[False, True],
)
def test_the_equations_written_out(
    size_from, has_context, mask, training, monkeypatch
):
    keras.config.set_dtype_policy("float64")
    generator = np.random.default_rng(0)
    noise = generator.gumbel(size=(BATCH, TIME, SIZE))
    fix_sizes(monkeypatch, lambda shape, dtype: tf.constant(noise, dtype))
    layer = LookAhead(
        SIZE,
        size_from,
        units=UNITS,
        estimator="relaxed",
        initial_stop=0.4,
        return_field=True,
        kernel_initializer=keras.initializers.RandomNormal(1.0, seed=1),
    )
    x = generator.normal(size=(BATCH, TIME, FEATURES))
    context = generator.normal(size=(BATCH, TIME, CONTEXT))
    context = context if has_context else None
    found, field = layer(x, context, mask=mask, training=training)
    real = np.ones((BATCH, TIME), bool) if mask is None else mask
    expected = reference(layer, x, context, real, noise if training else None)
    close = {"rtol": 1e-10, "atol": 1e-10}
    np.testing.assert_allclose(found, expected[0], **close)
    np.testing.assert_allclose(field["size"], expected[1], **close)
    np.testing.assert_allclose(field["probabilities"], expected[2], **close)


def test_arrived_probabilities_are_those_of_independent_choices():
    """By enumeration of all choices of four steps."""
    steps, size = 4, 3
    p = np.random.default_rng(2).dirichlet(np.ones(size), steps)
    expected = np.zeros((steps, size))
    for sizes in itertools.product(range(1, size + 1), repeat=steps):
        chance = np.prod([p[t, s - 1] for t, s in enumerate(sizes)])
        ends = np.maximum.accumulate(np.arange(steps) + sizes)
        for t in range(steps):
            expected[t, : ends[t] - t] += chance
    q = p[None, :, ::-1].cumsum(-1)[..., ::-1]
    np.testing.assert_allclose(ahead.arrived(q)[0], expected, rtol=1e-12)


def test_delays_are_those_of_the_analysis():
    generator = np.random.default_rng(4)
    mask = generator.random((30, 20)) < 0.8
    padded = np.pad(mask, ((0, 0), (0, SIZE - 1)))
    validity = np.stack([padded[:, i : i + 20] for i in range(SIZE)], -1)
    asked = generator.integers(1, SIZE + 1, mask.shape)
    sizes = [
        [min(asked[b, t], validity[b, t].sum()) for t in range(20)]
        for b in range(30)
    ] * mask
    found = ahead.emission_delays(tf.cast(sizes, "float32"), validity)
    expected = analysis.emission_delay(sizes, mask)
    np.testing.assert_array_equal(found, expected)


def test_the_first_probabilities():
    layer = LookAhead(
        3, initial_stop=0.2, kernel_initializer="zeros", return_field=True
    )
    _, field = layer(np.ones((1, 5, 2)))
    found = field["probabilities"][0, 0]
    np.testing.assert_allclose(found, [0.2, 0.16, 0.64], rtol=1e-6)


def test_everything_read_is_the_window():
    layer = LookAhead(SIZE, window=SIZE)
    x = np.random.default_rng(3).normal(size=(2, TIME, FEATURES))
    layer.build(x.shape)
    layer.stop_bias.assign(-100 * np.ones(SIZE - 1))
    windows = ReceptiveFieldWindows(SIZE)(x)[..., :-1]
    width = SIZE * FEATURES
    np.testing.assert_array_equal(
        layer(x)[..., :width], tf.reshape(windows, (2, TIME, width))
    )


def test_sizes_drawn_at_inference_are_hard():
    layer = LookAhead(
        SIZE,
        estimator="relaxed",
        inference="sample",
        initial_stop=0.4,
        return_field=True,
        seed=0,
    )
    x = np.random.default_rng(4).normal(size=(2, TIME, FEATURES))
    sizes = layer(x)[1]["size"].numpy()
    np.testing.assert_array_equal(sizes, np.round(sizes))
    assert (layer(x)[1]["size"].numpy() != sizes).any()


@pytest.mark.parametrize(
    "make",
    [
        lambda **field: LookAhead(SIZE, initial_stop=0.4, **field),
        lambda **field: ReceptiveFieldRNN(
            keras.layers.SimpleRNNCell(2), SIZE, **field
        ),
    ],
)
def test_the_mode_of_inference_may_change(make):
    layer = make(return_field=True, seed=0)
    x = np.random.default_rng(4).normal(size=(2, TIME, FEATURES))

    def sizes():
        return layer(x)[-1]["size"].numpy()

    np.testing.assert_array_equal(sizes(), sizes())
    layer.inference = "sample"
    assert layer.get_config()["inference"] == "sample"
    assert (sizes() != sizes()).any()
    with pytest.raises(ValueError, match="'greedy'.*Received: inference='by'"):
        layer.inference = "by"


def test_summaries_that_overflow_are_not_multiplied_by_zero():
    layer = LookAhead(SIZE, activation="relu", dtype="mixed_float16")
    x = np.random.default_rng(0).choice([-6e4, 6e4], (3, TIME, FEATURES))
    with tf.GradientTape() as tape:
        outputs = layer(x, training=True)
        loss = tf.reduce_sum(tf.cast(outputs, "float32"))
    gradients = tape.gradient(loss, layer.trainable_variables)
    for tensor in (outputs, *filter(lambda x: x is not None, gradients)):
        assert not np.isnan(tensor).any()


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_weights_of_decisions_are_not_rounded(policy):
    options = {"size_from": "field", "return_field": True, "dtype": policy}
    cell = keras.layers.GRUCell(2, dtype=policy)
    for layer in (
        LookAhead(2, **options),
        ReceptiveFieldRNN(cell, 2, return_sequences=True, **options),
    ):
        x = np.zeros((1, 3, FEATURES))
        layer(x)
        (bias,) = (w for w in layer.weights if w.name == "stop_bias")
        bias.assign([1.0029])
        chance = layer(x)[1]["probabilities"][0, 0, 0]
        assert float(chance) == pytest.approx(1 / (1 + np.exp(-1.0029)), 1e-6)


def test_what_is_not_read_has_no_effect():
    """Not even infinity, or what overflows in half precision."""
    layer = LookAhead(3, window=2)
    x = np.array([[[1.0], [np.inf], [2.0]]])
    layer.build(x.shape)
    layer.stop_bias.assign([100.0, 100.0])
    expected = [[[1, 0, 0], [np.inf, 0, 0], [2, 0, 0]]]
    np.testing.assert_array_equal(layer(x), expected)


def test_a_context_is_given_always_or_never():
    layer = LookAhead(2)
    x = np.ones((1, 3, 2))
    layer(x)
    with pytest.raises(ValueError, match="`context` must be given in all"):
        layer(x, context=x)
    with pytest.raises(ValueError, match="steps of its sequence"):
        LookAhead(2)(x, context=np.ones((1, 4, 2)))
    x = keras.Input((3, 2))
    with pytest.raises(ValueError, match="`mask` must have the shape"):
        mask = keras.Input((4,), dtype="bool")
        LookAhead(2)(x, context=x, mask=mask)


@pytest.mark.long
@pytest.mark.parametrize(
    "kind, size_from",
    [
        ("LSTM", "field"),
        pytest.param("GRU", "input", marks=pytest.mark.slow),
    ],
)
def test_defaults_learn_to_read_as_far_as_a_task_needs(kind, size_from):
    """A key asks for a value 1 to 4 steps ahead; "input" is told how far."""
    keras.utils.set_random_seed(0)
    told = size_from == "input"
    train, test = (
        task.examples(count, told=told, longest_gap=3, seed=seed)
        for seed, count in ((1, 4000), (2, 500))
    )
    ids = keras.Input((None,), dtype="int32")
    size = task.vocabulary_size(longest_gap=3)
    words = keras.layers.Embedding(size, 32)(ids)
    read, field = LookAhead(6, size_from, return_field=True)(words)
    states = getattr(keras.layers, kind)(32, return_sequences=True)(read)
    values = keras.layers.Dense(4)(states)
    model = keras.Model(ids, values)
    model.compile(
        keras.optimizers.Adam(5e-3),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    model.fit(
        train.tokens,
        train.targets,
        sample_weight=train.keys.astype("float32"),
        epochs=20,
        batch_size=100,
        verbose=0,
        callbacks=[ExploreThenCommit()],
    )
    found = keras.Model(ids, [values, field["size"]])
    values, sizes = found.predict(test.tokens, verbose=0)
    is_right = np.argmax(values, -1) == test.targets
    assert is_right[test.keys].mean() > 0.99
    for gap in range(4):
        assert abs(sizes[test.gaps == gap].mean() - (gap + 2)) < 0.3
