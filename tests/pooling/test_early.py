"""Reading that stops early: by hand, in streams, and learned."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers
from keras import ops

from keras_seqmech import DecisionPenalties
from keras_seqmech import EarlyPooling
from keras_seqmech import EmissionProbabilities
from keras_seqmech import ExploreThenCommit
from keras_seqmech import ReadingLimit
from keras_seqmech import ReadingWeight
from keras_seqmech import analysis
from keras_seqmech.serving import StreamingModel
from keras_seqmech.serving import export_model

ROWS, TIME, FEATURES = 6, 8, 3
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(ROWS, TIME, FEATURES)).astype("float32")
STOP = RANDOM.uniform(0, 0.7, size=(ROWS, TIME))
STOP[0, 2], STOP[1], STOP[2, :4] = 1.0, 0.0, 0.0
MASK = RANDOM.uniform(size=(ROWS, TIME)) < 0.7
MASK[0], MASK[1, 5:], MASK[-1] = True, False, False
LIMITS = RANDOM.integers(0, TIME, size=(ROWS, TIME))


def by_hand(row, limits=None, is_hard=False):
    """Probabilities to stop at each step, and that a step stopped it."""
    scores, left, answered, read = np.zeros(TIME), 1.0, 0.0, 0
    places = np.flatnonzero(MASK[row])
    for place in places:
        read += 1
        own = STOP[row, place]
        if limits is not None and read > limits[row, place]:
            own = 1.0
        own = float(own > 0.5) if is_hard else own
        answered += left * own
        scores[place] = left * (1.0 if place == places[-1] else own)
        left -= scores[place]
    return scores, answered


@pytest.mark.parametrize("limits", [None, LIMITS])
@pytest.mark.parametrize("training", [True, False])
def test_values(limits, training):
    early = EarlyPooling(return_attention_scores=True, dtype="float64")
    output, decided = early(X, STOP, mask=MASK, limit=limits, training=training)
    found = [by_hand(row, limits, not training) for row in range(ROWS)]
    scores, answered = map(np.array, zip(*found))
    sizes = (scores * MASK.cumsum(axis=1)).sum(axis=1)
    for value, expected in (
        (output, np.einsum("bt,btd->bd", scores, X.astype("float64"))),
        (decided["attention_scores"], scores),
        (decided["size"], sizes),
        (decided["answered"], answered),
    ):
        np.testing.assert_allclose(value, expected, atol=1e-12)
    # Nothing is read in the last row, and all in the second.
    assert sizes[-1] == 0
    assert limits is not None or answered[1] == 0


def test_penalties_are_of_the_further_steps():
    penalties = DecisionPenalties(reading=0.5, entropy=0.1, indecision=0.2)
    early = EarlyPooling(penalties, track_statistics=True, name="early")
    early(X, STOP, mask=MASK, training=True)
    scores = np.array([by_hand(row)[0] for row in range(ROWS - 1)])
    further = (scores * (MASK.cumsum(axis=1) - 1)[:-1]).sum(axis=1)
    nats = -(scores * np.log(np.maximum(scores, 1e-30))).sum(axis=1)
    lengths = MASK.sum(axis=1)[:-1]
    expected = 0.5 * further + 0.1 * (np.log(MASK.sum(axis=1)[:-1]) - nats)
    expected += 0.2 * nats / np.log(np.maximum(lengths, 2))
    (loss,) = early.losses
    np.testing.assert_allclose(loss, expected.mean(), rtol=1e-5)
    found = {x.name: float(x.result()) for x in early.statistics.metrics}
    assert found["early_mean_delay"] == pytest.approx(further.mean(), rel=1e-5)
    assert found["early_penalty"] == pytest.approx(float(loss), rel=1e-5)
    assert found["early_mean_size"] == pytest.approx(1 + further.mean())


def test_entropies_are_of_rows_that_no_limit_stops():
    early = EarlyPooling(track_statistics=True, name="early")
    lengths = MASK.sum(axis=1)
    limits = np.where(np.arange(ROWS) % 2, 0, lengths).astype("int32")

    def counted(rows, **given):
        for metric in early.statistics.metrics:
            metric.reset_state()
        early(X[rows], STOP[rows], mask=MASK[rows], **given)
        return {x.name: float(x.result()) for x in early.statistics.metrics}

    limited = counted(np.arange(ROWS), limit=limits)
    free = counted(np.flatnonzero((limits >= lengths - 1) & (lengths > 0)))
    assert free["early_size_entropy"] > 0
    for name in ("size_entropy", "certain", "choice_entropy"):
        own = f"early_{name}"
        assert limited[own] == pytest.approx(free[own], rel=1e-6), name
    by_step = np.repeat(limits[:, None], TIME, axis=1)
    assert counted(np.arange(ROWS), limit=by_step) == limited


def test_rows_that_are_padded_before_read_as_much():
    early = EarlyPooling(track_statistics=True, name="early")
    # Each row stops at its first real step, wherever that is.
    mask = np.arange(TIME) >= np.arange(ROWS)[:, None]
    early(X, np.ones((ROWS, TIME)), mask=mask)
    found = {x.name: float(x.result()) for x in early.statistics.metrics}
    assert found["early_mean_size"] == 1
    assert found["early_choice_entropy"] == pytest.approx(0, abs=1e-6)


def test_a_weight_is_a_factor_of_its_row():
    weight = np.array([0.1, 2, 0.5, 1, 3, 9], "float32")
    early = EarlyPooling(DecisionPenalties(reading=1.0))
    early(X, STOP, mask=MASK, weight=weight, training=True)
    scores = np.array([by_hand(row)[0] for row in range(ROWS - 1)])
    further = (scores * (MASK.cumsum(axis=1) - 1)[:-1]).sum(axis=1)
    # A row without a real step does not count.
    expected = (weight[:-1] * further).mean()
    np.testing.assert_allclose(early.losses[0], expected, rtol=1e-5)


@pytest.mark.parametrize("policy", ["float32", "mixed_float16"])
def test_gradients_are_finite_at_probabilities_of_0_and_1(policy):
    early = EarlyPooling(dtype=policy)
    x, stop = tf.constant(X), tf.constant(STOP, "float32")
    with tf.GradientTape() as tape:
        tape.watch([x, stop])
        y = early(x, stop, mask=MASK, training=True)
        loss = tf.reduce_sum(tf.cast(y, "float32") ** 2)
    for gradient in tape.gradient(loss, [x, stop]):
        assert np.isfinite(gradient).all()
        assert (gradient.numpy()[~MASK] == 0).all()


@pytest.mark.parametrize("run", ["eager", "graph", "xla"])
def test_gradients_are_those_of_differences(run):
    """Of the output and of what is read, at 0 and 1, too."""
    early = EarlyPooling(return_attention_scores=True, dtype="float64")
    stop = np.where(STOP < 0.1, 0.0, STOP)
    stop[4] = 1.0

    def loss(stop):
        y, decided = early(X.astype("float64"), stop, mask=MASK, training=True)
        return tf.reduce_sum(tf.sin(y)) + tf.reduce_sum(decided["size"])

    def slopes(given):
        with tf.GradientTape() as tape:
            tape.watch(given)
            value = loss(given)
        return tape.gradient(value, given)

    if run != "eager":
        slopes = tf.function(slopes, jit_compile=run == "xla")
    gradient = slopes(tf.constant(stop)).numpy()
    assert np.any(stop[MASK] == 0) and np.any(stop[0] == 1)
    for place in np.argwhere(MASK):
        row, step = place
        ends = np.clip(stop[row, step] + np.array([-1e-6, 1e-6]), 0, 1)
        both = []
        for end in ends:
            moved = stop.copy()
            moved[row, step] = end
            both.append(loss(moved))
        slope = (both[1] - both[0]) / (ends[1] - ends[0])
        np.testing.assert_allclose(gradient[row, step], slope, atol=1e-5)


def test_long_sequences_lose_no_probability():
    early = EarlyPooling(
        return_attention_scores=True, track_statistics=True, name="early"
    )
    steps, chance = 20000, 1e-5
    x, stop = np.ones((1, steps, 1)), np.full((1, steps), chance)
    _, decided = early(x, stop, training=True)
    np.testing.assert_allclose(
        decided["attention_scores"].numpy().sum(), 1, rtol=1e-4
    )
    expected = (1 - (1 - chance) ** steps) / chance
    np.testing.assert_allclose(decided["size"], expected, rtol=1e-4)
    found = {x.name: float(x.result()) for x in early.statistics.metrics}
    assert found["early_delay_percentile"] == 1023
    assert found["early_mean_delay"] == pytest.approx(expected - 1, rel=1e-4)
    _, decided = early(x, np.full((1, steps), 1e-3), training=True)
    assert 1 - 1e-6 < decided["answered"].numpy() <= 1


def answering():
    """Answers at a confidence, and within a limit, that requests give."""
    x = keras.Input((None, FEATURES), name="x")
    mask = keras.Input((None,), dtype="bool", name="mask")
    confidence = keras.Input((), name="confidence")
    limit = keras.Input((), dtype="int32", name="limit")
    states = layers.GRU(5, return_sequences=True)(x, mask=mask)
    each = layers.Dense(4, activation="softmax")(states)
    sure = ops.max(each, axis=-1) > ops.expand_dims(confidence, -1)
    answer, decided = EarlyPooling(return_attention_scores=True)(
        each, ops.cast(sure, "float32"), mask=mask, limit=ReadingLimit(9)(limit)
    )
    return keras.Model(
        [x, mask, confidence, limit],
        {
            "answer": answer,
            **{name: decided[name] for name in ("size", "answered")},
        },
    )


def test_a_stream_takes_no_weight_below_0():
    x = keras.Input((None, FEATURES), name="x")
    weight = keras.Input((), name="weight")
    stop = layers.Dense(1, activation="sigmoid")(x)[..., 0]
    answer = EarlyPooling()(x, stop, weight=weight)
    stream = StreamingModel(keras.Model([x, weight], answer))
    request = {"x": X[:, :1], "weight": np.full(ROWS, -1, "float32")}
    with pytest.raises(tf.errors.InvalidArgumentError, match="`weight`"):
        stream.step(request, stream.start(ROWS))


def test_an_answer_leaves_with_its_step_and_stays():
    model = answering()
    stream = StreamingModel(model)
    request = {
        "confidence": np.array([0.35, 0.3, 0.9, 0.9, 0.4, 0.2], "float32"),
        "limit": np.array([9, 9, 2, 0, 9, 9], "int32"),
    }
    whole = model({"x": X, "mask": MASK, **request})
    state = stream.start(ROWS)
    answers = np.full((ROWS, 4), np.nan)
    seen = np.zeros(ROWS, bool)
    for t in range(TIME):
        part = {"x": X[:, t : t + 1], "mask": MASK[:, t : t + 1]}
        found, state = stream.step({**part, **request}, state)
        now = found["answered"].numpy() > 0
        assert (now >= seen).all()
        answers[now & ~seen] = found["answer"].numpy()[now & ~seen]
        seen |= now
        real = MASK[:, : t + 1].sum(axis=1)
        # The promise: no more further steps than the limit.
        assert (seen | (real <= request["limit"])).all()
        assert (found["size"].numpy() <= real).all()
    np.testing.assert_array_equal(whole["answered"] > 0, seen)
    assert 0 < seen.sum() < ROWS
    np.testing.assert_allclose(
        answers[seen], whole["answer"].numpy()[seen], rtol=1e-5
    )
    np.testing.assert_array_equal(found["size"], whole["size"])


def test_a_limit_may_change_between_steps_and_a_row_start_anew():
    early = EarlyPooling(return_attention_scores=True)
    x, stop = (keras.Input(shape) for shape in ((None, FEATURES), (None,)))
    limit = keras.Input((), dtype="int32")
    y, decided = early(x, stop, limit=limit)
    model = keras.Model([x, stop, limit], {"y": y, "n": decided["answered"]})
    stream = StreamingModel(model)
    names = list(stream.specs)
    given = STOP.astype("float32")
    expected, shown = early(X, given, limit=LIMITS)

    def run(state, steps):
        for t in steps:
            parts = X[:, t : t + 1], given[:, t : t + 1], LIMITS[:, t]
            inputs = dict(zip(names, parts))
            inputs[names[2]] = inputs[names[2]].astype("int32")
            found, state = stream.step(inputs, state)
        return found, state

    found, state = run(stream.start(ROWS), range(TIME))
    np.testing.assert_array_equal(found["y"], expected)
    np.testing.assert_array_equal(found["n"], shown["answered"])
    # As if the row had just begun, beside those that go on.
    again = tf.constant([True, False] * 3)
    first = stream.start(ROWS)
    for name, x in state.items():
        if x.shape.rank:
            rows = tf.reshape(again, [-1] + [1] * (x.shape.rank - 1))
            state[name] = tf.where(rows, first[name], x)
    found, _ = run(state, range(3, TIME))
    anew, _ = early(X[:, 3:], given[:, 3:], limit=LIMITS[:, 3:])
    np.testing.assert_array_equal(found["y"][::2], anew[::2])
    np.testing.assert_array_equal(found["y"][1::2], expected[1::2])


@pytest.mark.parametrize("dtype", ["bool", "int32", "float64"])
def test_streams_take_the_stops_that_calls_take(dtype):
    x = keras.Input((None, FEATURES), name="x")
    stop = keras.Input((None,), name="stop", dtype=dtype)
    model = keras.Model([x, stop], {"y": EarlyPooling()(x, stop)})
    given = np.where(STOP > 0.5, 1, 0).astype(dtype)
    if dtype == "float64":
        given = np.where(given > 0, 0.5 + 1e-9, 0.0)  # 0.5 in float32.
    stream = StreamingModel(model)
    inputs = {"x": X, "stop": given}
    found, _ = stream.step(inputs, stream.start(ROWS))
    np.testing.assert_array_equal(found["y"], model(inputs)["y"])


def test_the_default_learns_to_stop_at_what_decides():
    random = np.random.default_rng(1)
    count, time = 600, 12
    marks, places = (
        random.integers(1, 4, count),
        random.integers(time, size=count),
    )
    ids = np.zeros((count, time), "int32")
    ids[np.arange(count), places] = marks
    keras.utils.set_random_seed(0)
    x = keras.Input((time,), dtype="int32", name="x")
    price = keras.Input((), name="price")
    weight = ReadingWeight(0.01, 1.0)(price)
    states = layers.LSTM(16, return_sequences=True)(layers.Embedding(4, 8)(x))
    each = layers.Dense(4, activation="softmax", name="each")(states)
    surest = ops.stop_gradient(ops.log(ops.max(each, -1, keepdims=True)))
    stop = EmissionProbabilities(share=0.05)(surest, weight=weight)
    early = EarlyPooling(track_statistics=True, name="early")
    model = keras.Model(
        [x, price], {"early": early(each, stop, weight=weight), "each": each}
    )
    model.compile(
        keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy"
    )
    inputs = [ids, np.ones(count, "float32")]
    labels = {"early": marks, "each": np.repeat(marks[:, None], time, 1)}
    model.fit(
        inputs, labels, epochs=20, verbose=0, callbacks=[ExploreThenCommit()]
    )
    inputs[1][:] = 0.05
    sizes = analysis.decisions(model, inputs)["early"]["size"]
    assert np.mean(sizes == places + 1) > 0.95
    answers = model.predict(inputs, verbose=0)["early"].argmax(axis=-1)
    assert np.mean(answers == marks) > 0.98
    dear, cheap = analysis.trade_off(
        keras.Model({"x": x, "price": price}, model.output["early"]),
        {"x": ids},
        [1.0, 0.05],
        weight_input="price",
    )
    waits = [point["early_mean_delay"] for point in (dear, cheap)]
    assert waits == pytest.approx([0, places.mean()], abs=0.3)


@pytest.mark.long
def test_exports(tmp_path):
    inputs = {
        "x": X,
        "mask": MASK,
        "confidence": np.full(ROWS, 0.4, "float32"),
        "limit": np.full(ROWS, 3, "int32"),
    }
    # It compares with a fresh process, the stream's signatures, too.
    export_model(answering(), tmp_path, example_inputs=inputs, streaming=True)
