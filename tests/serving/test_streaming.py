"""Sequences that come in chunks: every cut gives the numbers of one pass."""

import gc
import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from keras_seqmech import BoundaryGate
from keras_seqmech import FocusedHierarchicalEncoder
from keras_seqmech import KeepMask
from keras_seqmech import LearnedInitialState
from keras_seqmech import LookAhead
from keras_seqmech import MeanPooling
from keras_seqmech import PolicyGradientModel
from keras_seqmech import ReceptiveFieldRNN
from keras_seqmech import ReceptiveFieldWindows
from keras_seqmech import RFCell
from keras_seqmech import serving
from keras_seqmech.core.stream import ENDLESS
from keras_seqmech.core.stream import Stepped
from keras_seqmech.serving import StreamingModel
from keras_seqmech.serving import _fresh_process
from keras_seqmech.serving import export
from keras_seqmech.serving.streaming.program import Program
from tests.serving import export_tools
from tests.serving import streamed
from tests.tolerances import within

LENGTH = 11


def check(found, expected, operations=1000):
    for name, x in found.items():
        if np.asarray(x).dtype == object:
            np.testing.assert_array_equal(x, expected[name])
            continue
        near = within("float32", operations=operations)
        np.testing.assert_allclose(x, expected[name], **near, err_msg=name)


def check_stream(model, *cuts, inputs=None, **options):
    """The numbers of a stream are the model's; the stream, and what it gave."""
    stream = StreamingModel(model, **options)
    if inputs is None:
        generator = np.random.default_rng(0)
        inputs = streamed.example(stream.specs, generator, 2, sum(cuts))
    found = streamed.run(stream, inputs, cuts)
    check(found, streamed.whole(stream, model, inputs))
    return stream, found


SHORT = ("looking", "encoder", "masked", "strings")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(x, marks=[] if x in SHORT else [pytest.mark.long])
        for x in streamed.MODELS
    ],
)
def test_any_cut_gives_the_numbers_of_one_pass(name):
    """Decisions too, where a model has some."""
    keras.utils.set_random_seed(3)
    make, delay = streamed.MODELS[name]
    model = make()
    stream = StreamingModel(model, decisions=name != "each_step")
    assert stream.delay == delay
    generator = np.random.default_rng(5)
    inputs = streamed.example(stream.specs, generator, 3, LENGTH)
    at_once = streamed.run(stream, inputs, [LENGTH])
    expected = streamed.whole(stream, model, inputs)
    check(at_once, expected)
    # These depend on what was not read.
    unread = "_probabilities", "early_attention_scores"
    unknown = expected.keys() - at_once.keys()
    assert all(key.endswith(unread) for key in unknown)
    for cuts in ([1] * LENGTH + [0], streamed.random_cuts(generator, LENGTH)):
        found, counts = streamed.run_counted(stream, inputs, cuts)
        for key, x in at_once.items():
            np.testing.assert_array_equal(found[key], x, err_msg=f"{cuts}")
        if counts[0] is not None:
            counts = np.cumsum(counts, axis=0)
            least = np.maximum(np.cumsum(cuts) - delay, 0)[:, None]
            assert np.all(counts >= least)
            assert np.all(counts[-1] == LENGTH)
    # Shorter than most delays.
    inputs = streamed.example(stream.specs, generator, 1, 2)
    found = streamed.run(stream, inputs, [1, 1])
    check(found, streamed.whole(stream, model, inputs))


def emission_times(sizes, arrivals):
    """Step t leaves once its last position has arrived, and t - 1 has left."""
    times = []
    for t, size in enumerate(sizes.astype(int)):
        last = min(t + size - 1, len(sizes) - 1)
        times.append(max([arrivals[last], *times[-1:]]))
    return times


@pytest.mark.parametrize(
    "size_from", [pytest.param("input", marks=pytest.mark.long), "field"]
)
def test_each_step_leaves_when_all_that_it_needs_has_arrived(size_from):
    """Two fields, one behind the other, and a path beside them."""
    keras.utils.set_random_seed(1)
    x = streamed.sequence()
    sizes = {}

    def read(x, name):
        cell, size = layers.GRUCell(5), 4
        field = ReceptiveFieldRNN(
            cell,
            size,
            size_from=size_from,
            return_sequences=True,
            return_field=True,
            kernel_initializer=keras.initializers.RandomNormal(stddev=2.0),
            name=name,
        )
        read, found = field(x)
        sizes[name] = found["size"]
        return read

    first = read(x, "first")
    second = read(layers.LSTM(4, return_sequences=True)(first), "second")
    beside = read(x, "beside")
    both = layers.Concatenate(name="both")([second, beside, x])
    model = keras.Model(x, {"both": both, **sizes})
    stream = StreamingModel(model)
    assert stream.delay == 6
    rows, length = 4, 23
    inputs = np.random.default_rng(2).normal(size=(rows, length, 3))
    inputs = {"sequence": inputs.astype("float32")}
    at_once = streamed.run(stream, inputs, [length])
    check(at_once, model(inputs["sequence"]))
    chosen = {name: at_once[name] for name in sizes}
    assert all(len(np.unique(size)) > 1 for size in chosen.values())
    arrivals = range(length)
    expected = []
    for row in range(rows):
        times = emission_times(chosen["first"][row], arrivals)
        times = emission_times(chosen["second"][row], times)
        beside = emission_times(chosen["beside"][row], arrivals)
        expected.append(np.maximum.accumulate(np.maximum(times, beside)))
    _, counts = streamed.run_counted(stream, inputs, [1] * length)
    found = np.cumsum(counts, axis=0)
    for given in range(1, length):
        certain = np.sum(np.array(expected) < given, axis=1)
        np.testing.assert_array_equal(found[given - 1], certain)
    assert np.all(found[-1] == length)


@pytest.mark.long
@pytest.mark.parametrize(
    "policy, names",
    [
        ("mixed_float16", ("tagger", "cells", "each_step", "convolutions")),
        ("float64", ("encoder", "masked", "nested")),
    ],
)
def test_dtypes(policy, names):
    keras.config.set_dtype_policy(policy)
    for name in names:
        model = streamed.MODELS[name][0]()
        stream = StreamingModel(model)
        generator = np.random.default_rng(7)
        inputs = streamed.example(stream.specs, generator, 2, LENGTH)
        found = streamed.run(stream, inputs, [3, 0, 1, LENGTH - 4])
        expected = streamed.whole(stream, model, inputs)
        dtype = "float16" if policy == "mixed_float16" else policy
        for name, x in found.items():
            assert x.dtype == expected[name].dtype.as_numpy_dtype
            if name not in ("size", "gates"):  # Rounding may change a near tie.
                near = within(dtype, operations=1000)
                np.testing.assert_allclose(x, expected[name], **near)


class Subclass(layers.Dense):
    """Its class is not known, though the one it is of is."""


class Timed(layers.Layer):
    """Adds the time as a feature."""

    def call(self, x):
        steps = keras.ops.cumsum(keras.ops.ones_like(x[..., :1]), axis=1)
        return keras.ops.concatenate([x, steps / 1000], axis=-1)


class TwiceLSTM(layers.LSTM):
    """Does more than its cell says."""

    def call(self, sequences, initial_state=None, mask=None, training=False):
        return 2 * super().call(sequences, initial_state, mask, training)


def in_time(x, **kwargs):
    """A sequence with a step more at each end."""
    return keras.ops.pad(x, [[0, 0], [1, 1], [0, 0]], **kwargs)


UNKNOWN = "is not known to treat each step alone"
LENGTHENED = "changes the number of steps; cut as many as you pad"


REFUSED = {
    "that follow": [
        layers.Conv1D(3, 3, padding="same", dilation_rate=8),
    ],
    "skips steps": [
        layers.Conv1D(3, 2, 2, padding="causal"),
        layers.Conv1D(3, 1, 2),
    ],
    "an activation that is not known": [
        layers.Conv1D(3, 2, padding="causal", activation=keras.ops.cumsum),
    ],
    UNKNOWN: [
        layers.Lambda(lambda x: 2 * x),
        Timed(),
        Subclass(3),
        TwiceLSTM(3),
        KeepMask(TwiceLSTM(3)),
        LearnedInitialState(TwiceLSTM(3)),
        layers.Dense(3, activation=keras.ops.cumsum),
        layers.EinsumDense("abc,cd->adb", (3, None)),
        layers.UnitNormalization(axis=-2),
        layers.Bidirectional(layers.GRU(3)),
        MeanPooling(),
        layers.LayerNormalization(1, center=False, scale=False),
        lambda x: keras.ops.cumsum(x, axis=1),
        lambda x: keras.ops.softmax(x, axis=1),
        keras.ops.max,
        lambda x: keras.ops.expand_dims(x, 1),
        lambda x: x[:, :512],
        lambda x: in_time(x, mode="reflect")[:, 1:-1],
        lambda x: keras.ops.pad(x, 1)[:, 1:-1],
        lambda x: x[..., ::-1, :],
        lambda x: x[()],
        lambda x: x + np.ones((1, 5, 3)),
        # Time meets features, and the batch meets time.
        lambda x: x + keras.ops.max(x, axis=-1),
        lambda x: layers.Add()([x, x[..., 0]]),
        lambda x: layers.Activation("softmax")(x[..., 0]),
        lambda x: layers.Masking()(x[..., 0]),
        lambda x: layers.Concatenate(axis=1)([x, x]),
    ],
    "makes windows that are not read": [ReceptiveFieldWindows(2)],
    LENGTHENED: [lambda x: x[:, 1:], layers.Cropping1D((0, 2))],
    f"ZeroPadding1D.*{LENGTHENED}": [layers.ZeroPadding1D(1)],
    f"GetItem.*{LENGTHENED}": [
        lambda x: layers.GRU(3)(layers.ZeroPadding1D((0, 3))(x)[:, 2:])
    ],
    f"Pad.*{LENGTHENED}": [lambda x: in_time(x)[:, 1:6]],
    "pads where steps were cut off": [
        lambda x: layers.ZeroPadding1D(1)(x[:, 1:])[:, :-1]
    ],
    "from the end": [
        layers.GRU(3, go_backwards=True),
        LearnedInitialState(
            layers.GRU(3, go_backwards=True, return_sequences=True)
        ),
    ],
    "draws at inference": [
        ReceptiveFieldRNN(layers.GRUCell(3), 2, inference="sample")
    ],
}


@pytest.mark.parametrize("reason", REFUSED)
def test_layers_that_need_the_whole_sequence(reason):
    x = streamed.sequence()
    for layer in REFUSED[reason]:
        model = keras.Model(x, layer(x))
        # The error says this alone, not in which graph it was found.
        with pytest.raises(ValueError, match="^Argument `model` must") as error:
            StreamingModel(model)
        assert re.search(reason, str(error.value)), layer
        assert "AtInference" not in str(error.value)


def test_windows_that_a_model_is_given():
    windows = keras.Input((None, 3, streamed.FEATURES + 1))
    model = keras.Model(
        windows, layers.RNN(RFCell(layers.GRUCell(2), 3))(windows)
    )
    with pytest.raises(ValueError, match="'rnn.*windows that the model is giv"):
        StreamingModel(model)


def test_kernels_of_one_step_have_no_state():
    x = streamed.sequence()
    stream = StreamingModel(keras.Model(x, layers.Conv1D(4, 1)(x)))
    assert list(stream.state_specs) == ["state_passed"]


def test_contexts_do_not_meet_time():
    """Where a batch is as large as a sequence is long, they would."""
    x, context = streamed.sequence(), keras.Input((3,))
    table = keras.Input((7, 3))
    for y in (x + context, layers.Add()([x, table])):
        with pytest.raises(ValueError, match=UNKNOWN):
            StreamingModel(keras.Model([x, context, table], y))
    any_length = layers.Lambda(lambda x: x, output_shape=(None, 3))(table)
    with pytest.raises(ValueError, match="makes a sequence of a summary"):
        StreamingModel(keras.Model([x, table], x + any_length))


class Doubled(keras.Model):
    """A functional model with a `call` of its own."""

    def call(self, inputs, **kwargs):
        return 2 * super().call(inputs, **kwargs)


def test_models_with_a_call_of_their_own():
    x = streamed.sequence()
    doubled = Doubled(x, layers.Dense(3)(x))
    for model in (doubled, keras.Model(x, doubled(x))):
        with pytest.raises(
            ValueError, match="class Doubled.*`call` of its own"
        ):
            StreamingModel(model)


class Noise(layers.Layer):
    def call(self, x, training=True):
        return x + 1 if training else x


class Swish(layers.Layer):
    """Treats each step alone; a layer within has a default of its own."""

    def __init__(self):
        super().__init__()
        self.noise = Noise()

    def call(self, x):
        return self.noise(x) * keras.ops.sigmoid(x)


class Largest(layers.Layer):
    """Treats all steps as one."""

    def call(self, x):
        return keras.ops.max(x, axis=1)


def test_layers_that_are_declared():
    x = streamed.sequence()
    model = keras.Model(x, layers.GRU(3, return_sequences=True)(Swish()(x)))
    check_stream(model, 4, 7, per_step=(Swish,))
    x = streamed.sequence()
    with pytest.raises(ValueError, match="does not return a step for each"):
        StreamingModel(keras.Model(x, Largest()(x)), per_step=(Largest,))
    for none in (Swish, ("Swish",), (Swish(),)):
        with pytest.raises(ValueError, match="`per_step` must be a list"):
            StreamingModel(model, per_step=none)


def test_windows_under_another_mask():
    x, mask = streamed.sequence(), keras.Input((None,), dtype="bool")
    rnn = layers.RNN(RFCell(layers.GRUCell(3), 2))
    read = rnn(ReceptiveFieldWindows(2)(x), mask=mask)
    with pytest.raises(ValueError, match="under the same mask"):
        StreamingModel(keras.Model([x, mask], read))


def test_masks_that_a_model_passes_on_by_itself():
    ids, words = _words()
    inner = _inner(_field(3), layers.Conv1D(4, 1))
    inner.supports_masking = True
    with pytest.raises(ValueError, match="passes on masks"):
        StreamingModel(keras.Model(ids, inner(words)))


def test_models_that_cannot_be_streamed():
    x, context = streamed.sequence(), keras.Input((2,))
    encode = FocusedHierarchicalEncoder(3, return_focused=True)
    with pytest.raises(ValueError, match="returns focused states"):
        StreamingModel(keras.Model([x, context], encode(x, context)))
    gate = BoundaryGate(3, inference="running_sum")
    with pytest.raises(ValueError, match="sums over steps outside an encoder"):
        StreamingModel(keras.Model([x, context], gate(x, context)))
    with pytest.raises(ValueError, match="combines a sequence with a summary"):
        state = layers.RepeatVector(1)(layers.GRU(3)(x))
        StreamingModel(keras.Model(x, layers.Add()([x, state])))
    with pytest.raises(ValueError, match=r"free time axis.*\(None, 5, 3\)"):
        fixed = keras.Input((5, 3))
        StreamingModel(keras.Model(fixed, layers.GRU(3)(fixed)))
    with pytest.raises(ValueError, match="is stateful"):
        one = keras.Input(batch_shape=(1, None, 3))
        StreamingModel(keras.Model(one, layers.GRU(3, stateful=True)(one)))
    for other in (
        keras.Model(),
        PolicyGradientModel(keras.Model(x, layers.GRU(3)(x))),
        keras.Sequential([layers.GRU(3)]),
        None,
    ):
        with pytest.raises(ValueError, match="`model` must be a functional"):
            StreamingModel(other)
    with pytest.raises(ValueError, match="no other free axis"):
        words = keras.Input((None, None))
        StreamingModel(keras.Model(words, layers.Activation("relu")(words)))
    with pytest.raises(ValueError, match="'probabilities' that depend on what"):
        _, field = LookAhead(2, return_field=True)(x)
        StreamingModel(keras.Model(x, field))
    with pytest.raises(ValueError, match="calls no layers that decide"):
        StreamingModel(keras.Model(x, layers.GRU(3)(x)), decisions=True)
    for name in ("end", "count", "state_of_things"):
        with pytest.raises(ValueError, match=f"Received: name='{name}'"):
            named = layers.GRU(3, return_sequences=True, name=name)(x)
            StreamingModel(keras.Model(x, {name: named}))


def test_requests_that_do_not_fit():
    x, mask = streamed.sequence(), keras.Input((None,), dtype="bool")
    y = layers.GRU(4, return_sequences=True, name="read")(x, mask=mask)
    stream = StreamingModel(keras.Model([x, mask], y))
    x, mask = np.ones((2, 4, 3), "float32"), np.ones((2, 4), "bool")
    state, key = stream.start(2), "state_layer_read_states"
    assert key in state
    with pytest.raises(ValueError, match="`batch_size` must be a positive int"):
        stream.start(0)
    with pytest.raises(ValueError, match="`inputs` must hold `sequence`"):
        stream.step([x[..., :2], mask], state)
    with pytest.raises(ValueError, match=r"`inputs` .* keys \['sequence'"):
        stream.step({"sequence": x}, state)
    with pytest.raises(ValueError, match="`state` must be a state of"):
        stream.step([x, mask], {**state, "other": 1})
    with pytest.raises(ValueError, match=f"`state` must hold `{key}`"):
        stream.step([x, mask], {**state, key: np.ones((2, 5))})
    with pytest.raises(ValueError, match="`end` must be"):
        stream.step([x, mask], state, end="no")
    with pytest.raises(ValueError, match="same number of steps.*Received"):
        stream.step([x, mask[:, :3]], state)
    with pytest.raises(ValueError, match="of one batch size.*Received"):
        stream.step([x[:1], mask[:1]], state)
    _, ended = stream.step([x, mask], state, end=True)
    with pytest.raises(ValueError, match="`state`.*that go on.*Received"):
        stream.step([x, mask], ended)
    for large in (np.full((2, 4, 3), 1e300), [[[10**400] * 3] * 4] * 2):
        with pytest.raises(ValueError, match="must hold arrays of float32"):
            stream.step([large, mask], state)


def test_weights_that_are_replaced_are_followed():
    x = streamed.sequence()
    dense = layers.Dense(8)
    model = keras.Model(x, layers.GRU(4)(dense(x)))
    stream = StreamingModel(model)
    generator = np.random.default_rng(0)
    inputs = streamed.example(stream.specs, generator, 2, LENGTH)
    streamed.run(stream, inputs, [LENGTH])
    dense.quantize("int8")
    quantized = streamed.run(stream, inputs, [4, LENGTH - 4])
    check(quantized, streamed.whole(stream, model, inputs))
    dense.enable_lora(2)
    dense.lora_kernel_b.assign(np.ones((2, 8)))
    adapted = streamed.run(stream, inputs, [4, LENGTH - 4])
    check(adapted, streamed.whole(stream, model, inputs))


def test_chunks_that_change_answers_are_found():
    """A `step` that answers by how much it is given."""

    class Signature:
        structured_input_signature = ((), {"x": tf.TensorSpec((None, None))})
        structured_outputs = {"y": tf.TensorSpec((None, None))}

        def __call__(self, x, end, **state):
            rows, steps = tf.unstack(tf.shape(x))
            y, count = x + tf.cast(steps, "float32"), tf.fill([rows], steps)
            return {"y": y, "count": count, **state}

    signatures = {
        "serving_default": lambda x: {"y": x},
        "start": lambda batch_size: {"delay": 0, "state_a": tf.zeros(())},
        "step": Signature(),
    }
    with pytest.raises(RuntimeError, match="Chunks change the output 'y'"):
        _fresh_process.answers(signatures, {"x": np.ones((1, 3), "float32")})


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A tagger's export, which a fresh process has checked."""
    keras.utils.set_random_seed(4)
    model, swish = streamed.tagger(), Swish()
    swish.supports_masking = True
    declared = {"declared": swish(model.output["tags"])}
    model = keras.Model(model.input, {**model.output, **declared})
    ids = np.array([[3, 1, 4, 1, 5, 9, 0], [2, 7, 1, 8, 2, 8, 1]])
    directory = tmp_path_factory.mktemp("models") / "tagger"
    path = serving.export_model(
        model,
        directory,
        example_inputs=ids,
        streaming=True,
        per_step=[Swish],
        decisions=True,
    )
    return path, tf.saved_model.load(str(path)).signatures


@pytest.mark.long
def test_signatures_of_the_export(exported):
    _, signatures = exported
    assert sorted(signatures) == ["serve", "serving_default", "start", "step"]
    start, step = signatures["start"], signatures["step"]
    inputs = step.structured_input_signature[1].keys()
    states = {name for name in inputs if name.startswith("state_")}
    assert inputs - states == {"ids", "end"}
    assert start.structured_outputs.keys() - states == {"delay"}
    outputs = {*signatures["serving_default"].structured_outputs, "count"}
    # They depend on what was not read.
    outputs.remove("second_probabilities")
    assert step.structured_outputs.keys() == outputs | states
    assert int(start(batch_size=tf.constant(1))["delay"]) == 5


@pytest.mark.long
def test_streams_from_c(exported, tmp_path):
    """The states go to a client as text, and come back with the next chunk."""
    path, signatures = exported
    program = export_tools.compile_loader(tmp_path)
    ids = np.array([[3, 1, 4, 1, 5, 9, 2, 6]], "int32")

    def ask(signature, feeds):
        talk = export_tools.Conversation()
        talk.load(path, signature)
        talk.ask(feeds)
        (answer,) = talk.run(program)
        assert isinstance(answer, dict), answer
        return answer

    def step(chunk, state, end):
        answer = ask("step", {**chunk, **state, "end": np.array(end)})
        return answer, {name: answer.pop(name) for name in state}

    state = ask("start", {"batch_size": np.array(1, "int32")})
    assert state.pop("delay") == 5
    _, given = signatures["step"].structured_input_signature
    shown = signatures["step"].structured_outputs
    inputs = {"ids": ids}
    found = _fresh_process.in_chunks(step, state, inputs, [3, 5], given, shown)
    check(found, signatures["serving_default"](ids=tf.constant(ids)))


def test_export_says_what_cannot_be_streamed(monkeypatch, tmp_path):
    monkeypatch.setattr(
        export, "_serve_in_fresh_process", export_tools.answer_here
    )
    x = streamed.sequence()
    model = keras.Model(x, MeanPooling()(x))
    with pytest.raises(ValueError, match=UNKNOWN):
        serving.export_model(model, tmp_path, streaming=True)
    with pytest.raises(ValueError, match="`streaming` must be"):
        serving.export_model(model, tmp_path, streaming="yes")
    assert not list(tmp_path.iterdir())


IDS = np.array([[3, 1, 2, 4, 6, 0, 0], [0, 5, 0, 4, 1, 0, 8]], "int32")


def _words():
    ids = keras.Input((None,), dtype="int32", name="ids")
    return ids, layers.Embedding(9, 4, mask_zero=True)(ids)


def _field(max_size):
    return ReceptiveFieldRNN(layers.GRUCell(4), max_size, return_sequences=True)


def _inner(*parts):
    return keras.Sequential([keras.Input((None, 4)), *parts])


def _masks_from_within():
    """Symbolically their outputs have no mask; when they run, they have."""
    ids, words = _words()
    words = keras.Model(ids, words)(ids)
    twice = _inner(layers.Dense(4))
    y = layers.Add()([twice(_field(3)(words)), twice(words)])
    return ids, y


def _masked_steps():
    x = keras.Input((None, 4), name="x")
    return x, _inner(layers.Dense(4), _field(3))(layers.Masking()(x))


def _masks_of_two():
    """Two masked inputs that lie apart."""
    ids, words = _words()
    a, b = keras.Input((None, 4)), keras.Input((None, 4))
    both = keras.Model([a, b], layers.Add()([_field(2)(a), b]))
    return ids, both([_field(3)(words), words])


def _given_mask():
    """A mask as an argument, not that of the input."""
    ids, words = _words()
    mask = keras.ops.greater(ids, 2)
    return ids, _inner(_field(3))(_field(2)(words), mask=mask)


def _masked_windows():
    ids, words = _words()
    cell = RFCell(layers.GRUCell(4), 3)
    windows = ReceptiveFieldWindows(3)(words)
    return ids, layers.RNN(cell, return_sequences=True)(windows)


class MaskedSum(layers.Layer):
    """Adds what is not masked, and returns the first, too."""

    supports_masking = True

    def call(self, inputs, mask=None):
        masks = [keras.ops.cast(x[..., None], "float32") for x in mask]
        first, second = (x * real for x, real in zip(inputs, masks))
        return first + second, first

    def compute_mask(self, inputs, mask=None):
        return mask[0]  # Of the first output alone, as Keras allows.


@pytest.mark.parametrize("merge", [layers.Multiply, layers.Maximum, MaskedSum])
def test_masks_change_what_layers_return(merge):
    keras.utils.set_random_seed(2)
    given, words = _words()
    words = layers.Dense(4)(words)
    merged = keras.tree.flatten(merge()([_field(3)(words), words]))
    last = layers.LSTM(3, name="last")(merged[0])
    outputs = {f"y{i}": x for i, x in enumerate(merged)} | {"last": last}
    model, inputs = keras.Model(given, outputs), {"ids": IDS}
    check_stream(model, 2, 0, 4, 1, inputs=inputs, per_step=[MaskedSum])


def test_models_within_models_cast_what_they_are_given():
    x, own = (
        keras.Input((None, 3), dtype="int32", name="x"),
        streamed.sequence(),
    )
    model = keras.Model(x, {"y": keras.Model(own, layers.Identity()(own))(x)})
    _, found = check_stream(model, 2, 5)
    assert found["y"].dtype == "float32"


def test_no_graph_of_the_first_run_is_kept():
    def graphs():
        gc.collect()
        return sum(type(x).__name__ == "FuncGraph" for x in gc.get_objects())

    x = streamed.sequence()
    y = layers.Concatenate()([_field(3)(x), x])
    model, before = keras.Model(x, y), graphs()
    program = Program(model)
    assert program.delay == 2
    assert graphs() == before


@pytest.mark.filterwarnings("ignore:Layer .* does not support masking")
@pytest.mark.parametrize(
    "make",
    [
        _masks_from_within,
        _masked_steps,
        _masks_of_two,
        _given_mask,
        _masked_windows,
    ],
)
def test_masks_go_into_models_within_models(make):
    keras.utils.set_random_seed(2)
    given, y = make()
    model = keras.Model(given, layers.LSTM(3, name="y")(y))
    x = np.random.default_rng(4).normal(size=(2, 7, 4))
    x = IDS if given.name == "ids" else np.sign(IDS)[..., None] * x
    check_stream(model, 2, 0, 4, 1, inputs={given.name: x})


def test_sizes_are_hard():
    """Also of fields that read integers."""
    x = streamed.sequence(dtype="int32")
    layer = ReceptiveFieldRNN(
        layers.GRUCell(4), 3, return_field=True, return_sequences=True
    )
    _, found = check_stream(keras.Model(x, layer(x)), 2, 4)
    np.testing.assert_array_equal(found["size"], np.rint(found["size"]))


def test_outputs_without_time_before_a_step_leaves():
    """They are made of zeros and of this chunk's context, be it empty."""
    x, context = streamed.sequence(), keras.Input((4,), name="context")
    look = LookAhead(3)
    state = layers.GRU(4)(look(x))
    look.stop_bias.assign([-9.0, -9.0])  # Reads to the end.
    dense = layers.Dense(2, bias_initializer="ones", name="answer")
    answer = dense(layers.Concatenate()([state, context]))
    stream = StreamingModel(keras.Model([x, context], answer))
    state = stream.start(1)
    for number, length in enumerate([0, 1, 0]):
        context = np.full((1, 4), number, "float32")
        inputs = [np.ones((1, length, 3)), context]
        outputs, state = stream.step(inputs, state)
        expected = dense(np.concatenate([np.zeros((1, 4)), context], -1))
        check(outputs, {"answer": expected})


def test_layers_that_share_names():
    """Also a name that is that of another layer with a number behind it."""
    given = keras.Input((None, 6))
    inner = layers.GRU(3, return_sequences=True, name="q")(given)
    x = streamed.sequence()
    y = LookAhead(3, name="q_2", window=1, units=3, initial_stop=0.4)(x)
    y = layers.GRU(6, return_sequences=True, name="q")(y)
    model = keras.Model(x, keras.Model(given, inner, name="inner")(y))
    check_stream(model, 2, 1, 3)


def test_paths_that_meet_twice_wait_once():
    x = streamed.sequence()
    a, b = (LookAhead(size, initial_stop=0.4)(x) for size in (2, 3))
    pairs = [layers.Concatenate()(both) for both in ([a, b], [b, a])]
    stream, _ = check_stream(keras.Model(x, layers.Add()(pairs)), 2, 1, 3)
    assert len([x for x in stream.state_specs if "meeting" in x]) == 1


class EverySecond(layers.Layer):
    """Adds up every second step; declares its step."""

    def call(self, sequence):
        steps = keras.ops.arange(keras.ops.shape(sequence)[1])
        taken = keras.ops.where((steps % 2 == 0)[:, None], sequence, 0.0)
        return keras.ops.cumsum(taken, axis=1)

    def stream_state(self, batch_size):
        return {"total": tf.zeros((batch_size, streamed.FEATURES))}

    def stream_step(self, state, tick, sequence):
        takes = tick.present & (tick.passed % 2 == 0)
        added = keras.ops.where(takes[:, None], sequence[:, 0], 0.0)
        total = state["total"] + added
        return total[:, None], {"total": total}


class Twice(EverySecond):
    def call(self, sequence):
        return 2 * super().call(sequence)


def test_a_layer_that_declares_its_step():
    """Behind steps that wait; the step is not that of another `call`."""
    x = streamed.sequence()
    read = LookAhead(3, window=1, units=2, initial_stop=0.4)(x)[
        ..., : streamed.FEATURES
    ]
    check_stream(keras.Model(x, EverySecond()(read)), 2, 0, 1, 4)
    with pytest.raises(ValueError, match="have a `stream_step`"):
        StreamingModel(keras.Model(x, Twice()(x)))


class Odd(layers.Layer):
    """Leaves out every second step."""

    def call(self, sequence):
        return sequence[:, ::2]

    def stream_state(self, batch_size):
        return {}

    def stream_step(self, state, tick, sequence):
        leaves = tick.present & (tick.passed % 2 == 0)
        # Half of them, rounded up, without an overflow.
        length = tick.length - tick.length // 2
        is_known = tick.length < ENDLESS
        length = tf.where(is_known, length, ENDLESS)
        return Stepped(sequence, state, leaves, length=length)


@pytest.mark.parametrize("steps", [8, 9])
def test_a_layer_that_shortens(steps):
    """What reads ahead behind it learns where its sequence ends."""
    x = streamed.sequence()
    y = LookAhead(4, window=4, units=2, initial_stop=0.4)(Odd()(x))
    model = keras.Model(x, LookAhead(3, window=1, units=2, initial_stop=0.4)(y))
    for cuts in ([steps], [2, 0, 1, steps - 3], [1] * steps + [0]):
        check_stream(model, *cuts)


class Renamed(EverySecond):
    def stream_step(self, state, tick, sequence):
        y, state = super().stream_step(state, tick, sequence)
        return y, {"sum": state["total"]}


class Stateless(EverySecond):
    def stream_step(self, state, tick, sequence):
        return sequence


@pytest.mark.parametrize(
    "kind, reason",
    [
        (Renamed, "whose state is not like that of `stream_state`.*total.*sum"),
        (Stateless, "`stream_step` that returns no state"),
    ],
)
def test_steps_that_lose_the_state(kind, reason):
    x = streamed.sequence()
    with pytest.raises(ValueError, match=f"of class {kind.__name__}.*{reason}"):
        StreamingModel(keras.Model(x, kind()(x)))


class WideSum(layers.Layer):
    """Adds up in a dtype wider than its own; has an argument named `state`."""

    def __init__(self, wide):
        super().__init__()
        self.wide = wide

    def build(self, shape):
        self.scale = self.add_weight(
            (streamed.FEATURES,), initializer="random_normal", name="scale"
        )

    def call(self, x, state, **options):
        added = keras.ops.cast(x * self.scale, self.wide)
        total = keras.ops.cumsum(added, axis=1)
        return self.shown(total, state[:, None], **options)

    def shown(self, total, state, shift=0):
        return total + keras.ops.cast(state * self.scale, self.wide) + shift

    def stream_state(self, batch_size):
        shape = (batch_size, 1, streamed.FEATURES)
        return {"total": tf.zeros(shape, self.wide)}

    def stream_step(self, carried, tick, x, state, **options):
        added = keras.ops.cast(x * self.scale, self.wide)
        present = tick.present[:, None, None]
        total = carried["total"] + tf.where(present, added, 0)
        return self.shown(total, state[:, None], **options), {"total": total}


@pytest.mark.parametrize(
    "policy, wide", [("mixed_bfloat16", "float32"), ("float32", "float64")]
)
def test_states_keep_their_dtype(policy, wide):
    """Also in a layer whose weights and inputs are cast."""
    keras.config.set_dtype_policy(policy)
    x = streamed.sequence()
    context = keras.Input((streamed.FEATURES,), name="context")
    layer = WideSum(wide)
    y = layers.Identity(autocast=False, name="y")(layer(x, context, shift=2))
    model = keras.Model([x, context], y)
    stream = StreamingModel(model)
    generator = np.random.default_rng(0)
    inputs = {
        "sequence": generator.normal(9, size=(2, 90, streamed.FEATURES)),
        "context": generator.normal(9, size=(2, streamed.FEATURES)),
    }
    found = streamed.run(stream, inputs, [40, 1, 49])["y"]
    expected = model(inputs)
    assert found.dtype == expected.numpy().dtype == wide
    np.testing.assert_allclose(found, expected, **within(wide, operations=90))


class Clashing(WideSum):
    def stream_step(self, state, tick, x, **options):
        return x, state


class Nameless(WideSum):
    def call(self, *tensors):
        return super().call(*tensors)

    def stream_step(self, state, tick, *tensors):
        return tensors[0], state


@pytest.mark.parametrize(
    "kind, reason",
    [
        (Clashing, "`stream_step` without .* argument 'state'"),
        (Nameless, "arguments without a name"),
    ],
)
def test_steps_that_do_not_take_the_arguments_of_a_call(kind, reason):
    x, context = streamed.sequence(), keras.Input((streamed.FEATURES,))
    y = kind("float32")(x, context)
    with pytest.raises(ValueError, match=f"of class {kind.__name__}.*{reason}"):
        StreamingModel(keras.Model([x, context], y))


@pytest.mark.parametrize(
    "layer",
    [
        lambda: LookAhead(4),
        lambda: ReceptiveFieldRNN(
            keras.layers.GRUCell(3), 4, size_from="field", return_sequences=True
        ),
    ],
    ids=["LookAhead", "ReceptiveFieldRNN"],
)
def test_masked_steps_wait_for_nothing(layer):
    x = keras.Input((None, 2), name="x")
    mask = keras.Input((None,), dtype="bool", name="mask")
    layer = layer()
    model = keras.Model([x, mask], {"y": layer(x, mask=mask)})
    for variable in layer.trainable_variables:
        if variable.name == "stop_bias":
            variable.assign(variable + 50)  # All fields are of one step.
    stream = StreamingModel(model)
    given = {
        "x": np.ones((2, 6, 2), "float32"),
        "mask": np.array([[1, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 0]], bool),
    }
    outputs, _ = stream.step(given, stream.start(2))
    assert outputs["count"].numpy().tolist() == [6, 6]
