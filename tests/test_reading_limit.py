"""The longest wait: drawn in training, given by a request, never exceeded."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from keras_seqmech import LookAhead
from keras_seqmech import ReadingLimit
from keras_seqmech import ReceptiveFieldRNN
from keras_seqmech import ReceptiveFieldWindows
from keras_seqmech import RFCell
from keras_seqmech.serving import StreamingModel
from keras_seqmech.testing import verify

S, ROWS, TIME, FEATURES = 4, 5, 9, 3
RANDOM = np.random.default_rng(3)
X = RANDOM.normal(size=(ROWS, TIME, FEATURES)).astype("float32")
MASK = np.ones((ROWS, TIME), bool)
MASK[1, 6:] = MASK[2, 3] = MASK[2, 5:7] = MASK[3, :2] = False
LIMITS = RANDOM.integers(0, S, (ROWS, TIME)).astype("int32")
SOURCES = pytest.mark.parametrize("size_from", ["field", "input"])
LARGE = keras.initializers.RandomNormal(stddev=1.0, seed=2)


def look_ahead(size_from, **options):
    return LookAhead(
        S,
        size_from=size_from,
        initial_stop=0.4,
        return_field=True,
        kernel_initializer=LARGE,
        seed=1,
        **options,
    )


def recurrent(size_from, **options):
    return ReceptiveFieldRNN(
        keras.layers.GRUCell(4),
        S,
        size_from=size_from,
        return_sequences=True,
        return_field=True,
        kernel_initializer=LARGE,
        seed=1,
        **options,
    )


@SOURCES
@pytest.mark.parametrize("make", [look_ahead, recurrent])
def test_statistics_are_those_of_steps_without_a_limit(make, size_from):
    # Forced sizes would look certain, and unlike each other; they are read.
    layer = make(size_from, track_statistics=True, name="own")
    limit = np.array([S - 1, 0, S - 1, 1, 0])
    padded = np.pad(MASK, ((0, 0), (0, S - 1)))
    whole = np.lib.stride_tricks.sliding_window_view(padded, S, 1).all(axis=-1)

    def counted(rows, **given):
        for metric in layer.statistics.metrics:
            metric.reset_state()
        layer(X[rows], mask=MASK[rows], **given)
        return {
            metric.name.removeprefix("own_"): float(metric.result())
            for metric in layer.statistics.metrics
        }

    limited = counted(np.arange(ROWS), limit=limit)
    free = counted(np.flatnonzero(limit == S - 1))
    for name in ("size_entropy", "certain", "choice_entropy"):
        assert limited[name] == pytest.approx(free[name], rel=1e-5, abs=1e-7)
    assert free["size_entropy"] > 0.1
    read = layer(X, mask=MASK, limit=limit)[-1]["size"].numpy()
    mean = read[whole].mean()
    assert limited["mean_size"] == pytest.approx(mean, rel=1e-6)
    assert abs(mean - free["mean_size"]) > 0.1


# The layer.


def test_limits_are_drawn_uniformly():
    layer = ReadingLimit(3, seed=1)
    drawn = layer(np.ones((4000, 1)), training=True)
    assert drawn.shape == (4000,) and drawn.dtype == "int32"
    counts = np.bincount(drawn, minlength=4)
    assert len(counts) == 4 and stats.chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "uint8"])
def test_given_limits_are_whole_numbers_up_to_the_largest(dtype):
    layer, given = ReadingLimit(3), np.array([[0], [2], [9]], dtype)
    for call in (layer, tf.function(layer, jit_compile=True)):
        limits = call(tf.constant(given))
        assert limits.dtype == "int32" and limits.numpy().tolist() == [0, 2, 3]
    # The largest may be more than the dtype holds.
    largest = ReadingLimit(256)(tf.constant(given))
    assert largest.numpy().tolist() == [0, 2, 9]
    if dtype == "float32":
        assert layer(np.array([1.9, 0.2])).numpy().tolist() == [1, 0]
        compiled = tf.function(layer, jit_compile=True)
        found = compiled(tf.constant([np.nan, -1.0]))
        assert found.numpy().tolist() == [0, 0]


@pytest.mark.parametrize("limit", [-1.0, float("nan")])
def test_bad_limits(limit):
    layer, limits = ReadingLimit(3), np.array([1.0, limit])
    with pytest.raises(ValueError, match="`limit`.*Received: limit="):
        layer(limits)
    with pytest.raises(tf.errors.InvalidArgumentError, match="`limit` must"):
        tf.function(layer)(tf.constant(limits))


# Calls, against what they read by hand.


@SOURCES
def test_a_look_ahead_reads_as_far_as_its_limit_and_those_before(size_from):
    layer = look_ahead(size_from)
    free = layer(X)[1]["probabilities"].numpy()
    if size_from == "field":
        later = np.cumsum(free[..., ::-1], axis=-1)[..., ::-1] - free
        own = np.argmax(free >= later, axis=-1) + 1
    else:
        own = np.argmax(free, axis=-1) + 1
    own = np.minimum(own, LIMITS + 1)
    ends = np.maximum.accumulate(np.arange(TIME) + own, axis=1)
    expected = np.minimum(ends, TIME) - np.arange(TIME)
    outputs, field = layer(X, limit=LIMITS)
    np.testing.assert_array_equal(field["size"], expected)
    # What is shown is what was read.
    shown = outputs.numpy()[..., : 3 * FEATURES].reshape(ROWS, TIME, 3, -1)
    padded = np.pad(X, ((0, 0), (0, 2), (0, 0)))
    for i in range(3):
        read = np.where((expected > i)[..., None], padded[:, i : TIME + i], 0)
        np.testing.assert_array_equal(shown[:, :, i], read)
    unlimited = layer(X)
    for given, result in (
        (np.full(ROWS, S - 1), unlimited),
        (np.full((ROWS, TIME), 2**31 - 1), unlimited),
    ):
        np.testing.assert_array_equal(layer(X, limit=given)[0], result[0])
    assert (layer(X, limit=np.zeros(ROWS, int))[1]["size"] == 1).numpy().all()


@SOURCES
@pytest.mark.parametrize("packed", [False, True])
def test_a_field_is_cut_as_its_windows_would_be(size_from, packed):
    layer = recurrent(size_from)
    layer.packed = packed
    mask = MASK if packed else None
    call = tf.function(lambda: layer(X, mask=mask, limit=LIMITS))
    outputs, field = call()
    cell = RFCell(
        keras.layers.GRUCell(4),
        S,
        size_from=size_from,
        kernel_initializer=LARGE,
    )
    plain = keras.layers.RNN(cell, return_sequences=True)
    windows = ReceptiveFieldWindows(S)(X, mask=mask).numpy()
    plain.build(windows.shape)
    plain.set_weights(layer.get_weights()[: len(plain.weights)])
    windows[..., -1] *= np.arange(S) <= LIMITS[..., None]
    real = MASK if packed else np.ones_like(MASK)
    np.testing.assert_allclose(
        outputs.numpy()[real],
        plain(windows, mask=mask).numpy()[real],
        rtol=1e-5,
        atol=1e-6,
    )
    assert (field["size"].numpy() <= LIMITS + 1)[real].all()
    full = layer(X, mask=mask)
    same = layer(X, mask=mask, limit=np.full(ROWS, S - 1))
    np.testing.assert_array_equal(full[0], same[0])


@SOURCES
@pytest.mark.parametrize("make", [look_ahead, recurrent])
@pytest.mark.parametrize("estimator", ["relaxed", "straight_through"])
def test_nothing_beyond_the_limit_has_a_gradient(make, size_from, estimator):
    layer = make(size_from, estimator=estimator)
    x, limit = tf.constant(X), np.full(ROWS, 1)
    with tf.GradientTape() as tape:
        tape.watch(x)
        outputs, field = layer(x, mask=MASK, limit=limit, training=True)
        loss = tf.reduce_sum(tf.square(outputs[:, :2]))
    gradient = tape.gradient(loss, x).numpy()
    assert np.isfinite(gradient).all() and (gradient[:, 3:] == 0).all()
    assert field["size"].numpy().max() <= 2 + 1e-6
    if estimator == "relaxed":
        assert np.any(gradient[:, 2] != 0)


def test_layers_that_read_backwards_have_limits_of_their_steps():
    layer = recurrent("input", go_backwards=True)
    forwards = recurrent("input")
    forwards.build(X.shape)
    layer.build(X.shape)
    layer.set_weights(forwards.get_weights())
    expected = forwards(X[:, ::-1], limit=LIMITS[:, ::-1])[0]
    np.testing.assert_array_equal(layer(X, limit=LIMITS)[0], expected)


@pytest.mark.parametrize(
    ("limit", "received"),
    [
        (np.ones((ROWS, 2, 2), int), r"limit.shape=\(5, 2, 2\)"),
        (np.ones(ROWS + 1, int), r"limit.shape=\(6,\)"),
        (np.ones((ROWS, TIME + 1), int), r"limit.shape=\(5, 10\)"),
        (np.ones(ROWS, "float32"), "limit.dtype=float32"),
        (-np.ones(ROWS, int), "limit=-1"),
        (2, r"limit.shape=\(\)"),
        (["a"] * ROWS, "limit.dtype=string"),
        (np.ones(ROWS, "uint64"), "limit.dtype=uint64"),
        (tf.ragged.constant([[1]] * 4 + [[1, 2]]), "limit.shape="),
        ([[1], [1, 2]], "limit=.*1"),
    ],
)
@pytest.mark.parametrize("make", [look_ahead, recurrent])
def test_limits_of_other_forms_are_refused(make, limit, received):
    with pytest.raises(ValueError, match=f"`limit`.*Received: {received}"):
        make("field")(X, limit=limit)


@pytest.mark.slow
@SOURCES
@pytest.mark.parametrize("make", [look_ahead, recurrent])
def test_contracts(make, size_from):
    verify(lambda: make(size_from), {"sequence": X, "limit": LIMITS[:, 0]})


# Streams.


def tagger(size_from, layers=1):
    """Look-aheads, or fields, one above the other, beneath a GRU."""
    x = keras.Input((None, FEATURES), name="x")
    mask = keras.Input((None,), dtype="bool", name="mask")
    given = keras.Input((), dtype="int32", name="limit")
    limit, y = ReadingLimit(S - 1)(given), x
    for make in (look_ahead, recurrent)[:layers]:
        y, _ = make(size_from)(y, mask=mask, limit=limit)
    y = keras.layers.GRU(3, return_sequences=True)(y, mask=mask)
    return keras.Model([x, mask, given], {"y": y})


def run(stream, limit_of, chunks, layers=1):
    """Outputs, waits and the limits in force when steps left."""
    state, start = stream.start(ROWS), 0
    outputs = [[] for _ in range(ROWS)]
    waits, limits = np.zeros((2, ROWS, TIME), int)
    for size in chunks:
        part = slice(start, start + size)
        start += size
        limit = limit_of(start)
        inputs = {"x": X[:, part], "mask": MASK[:, part], "limit": limit}
        found, state = stream.step(inputs, state, end=start == TIME)
        for row, count in enumerate(found["count"].numpy()):
            for y in found["y"].numpy()[row, :count]:
                step = len(outputs[row])
                waits[row, step] = start - 1 - step
                limits[row, step] = limit[row]
                outputs[row].append(y)
            # The promise, after each chunk: whatever may leave has left.
            waiting = start - len(outputs[row])
            assert waiting <= layers * limit[row] or start == TIME
    return np.array(outputs), waits, limits


@SOURCES
@pytest.mark.parametrize("layers", [1, 2])
def test_no_answer_of_a_stream_is_later_than_its_limit(size_from, layers):
    model = tagger(size_from, layers)
    stream = StreamingModel(model)
    limits = np.array([0, 1, 2, 3, 9], "int32")
    outputs, waits, _ = run(stream, lambda _: limits, [1] * TIME, layers)
    longest = np.minimum(limits, S - 1) * layers
    assert (waits.max(axis=1) <= longest).all()
    assert waits.max() > 0
    expected = model({"x": X, "mask": MASK, "limit": limits})["y"]
    np.testing.assert_allclose(
        outputs[MASK], expected.numpy()[MASK], rtol=1e-5, atol=1e-6
    )
    assert stream.delay == (S - 1) * layers


@SOURCES
@pytest.mark.parametrize("make", [look_ahead, recurrent])
@pytest.mark.parametrize("chunks", [[1] * TIME, [2, 1, 3, 1, 2]])
def test_a_limit_that_changes_holds_for_all_that_wait(make, size_from, chunks):
    x = keras.Input((None, FEATURES), name="x")
    mask = keras.Input((None,), dtype="bool", name="mask")
    limit = keras.Input((), dtype="int32", name="limit")
    layer = make(size_from)
    y, _ = layer(x, mask=mask, limit=limit)
    stream = StreamingModel(keras.Model([x, mask, limit], {"y": y}))
    by_time = RANDOM.integers(0, S, (TIME + 1, ROWS)).astype("int32")
    by_time[by_time == S - 1] = 2**31 - 1
    outputs, _, limits = run(stream, by_time.__getitem__, chunks)
    # Of a masked step nothing is asked.
    limits[~MASK] = 0
    expected = layer(X, mask=MASK, limit=limits.astype("int32"))[0].numpy()
    np.testing.assert_allclose(
        outputs[MASK], expected[MASK], rtol=1e-5, atol=1e-6
    )


def test_limits_by_step_are_refused_in_streams():
    x = keras.Input((None, FEATURES), name="x")
    limit = keras.Input((None,), dtype="int32", name="limit")
    y, _ = look_ahead("field")(x, limit=limit)
    with pytest.raises(ValueError, match=r"`limit`.*\(batch,\) in a stream"):
        StreamingModel(keras.Model([x, limit], {"y": y}))
