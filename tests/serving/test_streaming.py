"""Sequences that come in chunks: every cut gives the numbers of one pass."""

import threading

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from keras_seqmech import ExpectedSubsample
from keras_seqmech import FocusedHierarchicalEncoder
from keras_seqmech import LearnedInitialState
from keras_seqmech import MaxPooling
from keras_seqmech import PolicyGradientModel
from keras_seqmech import ReceptiveFieldRNN
from keras_seqmech import serving
from keras_seqmech.serving import StreamingModel
from keras_seqmech.serving import _fresh_process
from keras_seqmech.serving import export
from tests.serving import export_tools
from tests.serving import streamed
from tests.tolerances import within

LENGTH = 11


@pytest.fixture(scope="module", params=list(streamed.MODELS))
def case(request):
    """A model, and the same to be given chunks."""
    keras.utils.set_random_seed(3)
    make, delay = streamed.MODELS[request.param]
    model = make()
    stream = StreamingModel(model)
    assert stream.delay == delay
    return model, stream


def test_any_cut_gives_the_numbers_of_one_pass(case):
    model, stream = case
    generator = np.random.default_rng(5)
    inputs = streamed.example(stream.specs, generator, 3, LENGTH)
    at_once = streamed.run(stream, inputs, [LENGTH])
    expected = streamed.whole(stream, model, inputs)
    for name, x in at_once.items():
        near = within("float32", operations=1000)
        np.testing.assert_allclose(x, expected[name], **near, err_msg=name)
    for _ in range(5):
        cuts = streamed.random_cuts(generator, LENGTH)
        found = streamed.run(stream, inputs, cuts)
        for name, x in at_once.items():
            np.testing.assert_array_equal(found[name], x, err_msg=f"{cuts}")


def test_outputs_come_as_soon_as_they_are_certain(case):
    _, stream = case
    generator = np.random.default_rng(6)
    inputs = streamed.example(stream.specs, generator, 2, LENGTH)
    state, count = stream.start(2), 0
    for i in range(LENGTH):
        part = streamed.chunk(stream.specs, inputs, i, i + 1)
        outputs, state = stream.step(part, state)
        for name, x in outputs.items():
            if streamed.is_sequence(stream.outputs[name].shape):
                assert x.shape[1] == (i >= stream.delay)
                count += x.shape[1]
    outputs, _ = stream.step(
        streamed.chunk(stream.specs, inputs, LENGTH, LENGTH), state, end=True
    )
    for name, x in outputs.items():
        if streamed.is_sequence(stream.outputs[name].shape):
            assert x.shape[1] == min(stream.delay, LENGTH)
            count += x.shape[1]
    shapes = [x.shape for x in stream.outputs.values()]
    assert count == LENGTH * sum(map(streamed.is_sequence, shapes))


def test_sequences_shorter_than_the_delay():
    model = streamed.last_state()
    stream = StreamingModel(model)
    inputs = {"sequence": np.ones((1, 2, streamed.FEATURES), "float32")}
    found = streamed.run(stream, inputs, [1, 1])
    (name,) = found
    np.testing.assert_allclose(
        found[name],
        model(inputs["sequence"]),
        **within("float32", operations=1000),
    )


@pytest.mark.long
@pytest.mark.parametrize("policy", ["mixed_float16", "float64"])
def test_dtypes(policy):
    keras.config.set_dtype_policy(policy)
    try:
        for make, _ in streamed.MODELS.values():
            model = make()
            stream = StreamingModel(model)
            generator = np.random.default_rng(7)
            inputs = streamed.example(stream.specs, generator, 2, LENGTH)
            at_once = streamed.run(stream, inputs, [LENGTH])
            cut = streamed.run(stream, inputs, [3, 0, 1, LENGTH - 4])
            expected = streamed.whole(stream, model, inputs)
            dtype = "float16" if policy == "mixed_float16" else policy
            for name, x in at_once.items():
                assert x.dtype == expected[name].dtype.as_numpy_dtype
                np.testing.assert_array_equal(cut[name], x)
                if name in ("size", "gates"):
                    continue  # Rounding may change a near tie.
                np.testing.assert_allclose(
                    x, expected[name], **within(dtype, operations=1000)
                )
    finally:
        keras.config.set_dtype_policy("float32")


class Shared(layers.Layer):
    """Holds a recurrent layer."""

    def __init__(self):
        super().__init__()
        self.rnn = layers.GRU(3, return_sequences=True)

    def call(self, x):
        return self.rnn(x)


class RunningSum(layers.Layer):
    """Carries something that no one knows of."""

    def call(self, x):
        return keras.ops.cumsum(x, axis=1)


class TwiceLSTM(layers.LSTM):
    """Does more than its cell says."""

    def call(self, sequences, initial_state=None, mask=None, training=False):
        return 2 * super().call(sequences, initial_state, mask, training)


class First(layers.Layer):
    """Cuts sequences, to more steps than a check tries."""

    def call(self, x):
        return x[:, :512]


class Subsampled(layers.Layer):
    """Expected subsampling with a probability made of each step."""

    def __init__(self):
        super().__init__()
        self.subsample = ExpectedSubsample()

    def call(self, x):
        return self.subsample(x, keras.ops.sigmoid(x[..., 0]))


@pytest.mark.parametrize(
    "layer, reason",
    [
        (lambda: layers.Conv1D(3, 2, padding="causal"), "each step alone"),
        (lambda: layers.Conv1D(3, 2, padding="same"), "each step alone"),
        (
            lambda: layers.Conv1D(
                3000, 3, padding="causal", activation="softmax"
            ),
            "each step alone",
        ),
        (lambda: layers.MaxPooling1D(2, 1, "same"), "each step alone"),
        (RunningSum, "each step alone"),
        (First, "a step for each step"),
        (lambda: layers.MaxPooling1D(2), "a step for each step"),
        (lambda: TwiceLSTM(3), "`call` of its own"),
        (lambda: layers.GRU(3, go_backwards=True), "from the end"),
        (
            lambda: ReceptiveFieldRNN(
                layers.GRUCell(3), 2, sample_at_inference=True
            ),
            "draws at inference",
        ),
        (Subsampled, "each step alone"),
        (lambda: layers.Bidirectional(layers.GRU(3)), "holds a recurrent"),
        (Shared, "holds a recurrent"),
        (MaxPooling, "a step for each step"),
        (
            lambda: LearnedInitialState(
                layers.GRU(3, go_backwards=True, return_sequences=True)
            ),
            "from the end",
        ),
    ],
)
def test_layers_that_need_the_whole_sequence(layer, reason):
    x = streamed.sequence()
    model = keras.Model(x, layer()(x))
    with pytest.raises(ValueError, match=f"(?s)one step after.*{reason}"):
        StreamingModel(model)


def test_models_that_cannot_be_streamed():
    x, context = streamed.sequence(), keras.Input((2,))
    encode = FocusedHierarchicalEncoder(3, return_focused=True)
    with pytest.raises(ValueError, match="returns focused states"):
        StreamingModel(keras.Model([x, context], encode(x, context)))
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
    with pytest.raises(ValueError, match="given a lookahead"):
        field = ReceptiveFieldRNN(layers.GRUCell(3), 2)
        StreamingModel(keras.Model([x, x], field(x, lookahead=x)))
    with pytest.raises(ValueError, match="different names of states"):
        y = layers.GRU(3, return_sequences=True, name="latest_y")(x)
        outputs = {"y": y, "y_0": layers.GRU(3)(y)}
        StreamingModel(keras.Model(x, outputs))
    for name in ("end", "state_of_things"):
        with pytest.raises(ValueError, match=f"Received: name='{name}'"):
            named = layers.GRU(3, return_sequences=True, name=name)(x)
            StreamingModel(keras.Model(x, {name: named}))


def test_requests_that_do_not_fit():
    stream = StreamingModel(streamed.masked())
    x, mask = np.ones((2, 4, 3), "float32"), np.ones((2, 4), "bool")
    state = stream.start(2)
    with pytest.raises(ValueError, match="`batch_size` must be a positive int"):
        stream.start(0)
    with pytest.raises(ValueError, match="`inputs` must hold `sequence`"):
        stream.step([x[..., :2], mask], state)
    with pytest.raises(ValueError, match=r"`inputs` .* keys \['sequence'"):
        stream.step({"sequence": x}, state)
    with pytest.raises(ValueError, match="`state` must be a state of"):
        stream.step([x, mask], {**state, "other": 1})
    with pytest.raises(ValueError, match="`state` must hold `state_field_0`"):
        stream.step([x, mask], {**state, "state_field_0": np.ones((2, 4))})
    with pytest.raises(ValueError, match="`end` must be"):
        stream.step([x, mask], state, end="no")
    refused = tf.errors.InvalidArgumentError
    with pytest.raises(refused, match="the same number of steps"):
        stream.step([x, mask[:, :3]], state)
    with pytest.raises(refused, match="of one batch size"):
        stream.step([x[:1], mask[:1]], state)
    _, ended = stream.step([x, mask], state, end=True)
    with pytest.raises(refused, match="The sequences have ended"):
        stream.step([x, mask], ended)


def test_chunks_that_change_answers_are_found():
    """A `step` that answers by how much it is given."""

    class Signature:
        structured_input_signature = ((), {"x": tf.TensorSpec((None, None))})
        output_shapes = {"y": tf.TensorShape((None, None))}

        def __call__(self, x, end, **state):
            return {"y": x + tf.cast(tf.shape(x)[1], "float32"), **state}

    signatures = {
        "serving_default": lambda x: {"y": x},
        "start": lambda batch_size: {"delay": 0, "state_a": tf.zeros(())},
        "step": Signature(),
    }
    with pytest.raises(RuntimeError, match="Chunks change the output 'y'"):
        _fresh_process.answers(signatures, {"x": np.ones((1, 3), "float32")})


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A tagger, and its export, which a fresh process has checked."""
    keras.utils.set_random_seed(4)
    model = streamed.tagger()
    ids = np.array([[3, 1, 4, 1, 5, 9, 0], [2, 7, 1, 8, 2, 8, 1]])
    directory = tmp_path_factory.mktemp("models") / "tagger"
    path = serving.export_model(
        model, directory, example_inputs=ids, streaming=True
    )
    return model, path


@pytest.mark.long
def test_signatures_of_the_export(exported):
    _, path = exported
    found = serving.inspect(path).signatures
    assert sorted(found) == ["serve", "serving_default", "start", "step"]
    states = {k for k in found["step"].inputs if k.startswith("state_")}
    assert found["step"].inputs.keys() - states == {"ids", "end"}
    assert found["start"].outputs.keys() - states == {"delay"}
    outputs = found["serving_default"].outputs.keys()
    assert found["step"].outputs.keys() == outputs | states
    start = tf.saved_model.load(str(path)).signatures["start"]
    assert int(start(batch_size=tf.constant(1))["delay"]) == 5


@pytest.mark.long
def test_threads_stream_their_own_sequences(exported):
    model, path = exported
    signatures = tf.saved_model.load(str(path)).signatures
    generator = np.random.default_rng(8)
    inputs = generator.integers(1, 10, (8, 1, 30)).astype("int32")
    found, barrier = {}, threading.Barrier(8)

    def client(i):
        cuts = streamed.random_cuts(np.random.default_rng(i), 30)
        barrier.wait()
        feed = {"ids": tf.constant(inputs[i])}
        found[i] = _fresh_process.stream(signatures, feed, cuts)

    threads = [threading.Thread(target=client, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    near = within("float32", operations=1000)
    for i in range(8):
        for name, x in model(inputs[i]).items():
            np.testing.assert_allclose(found[i][name], x, **near)


@pytest.mark.long
def test_streams_from_c(exported, tmp_path):
    """The states go to a client as text, and come back with the next chunk."""
    model, path = exported
    program = export_tools.compile_loader(tmp_path)
    ids = np.array([[3, 1, 4, 1, 5, 9, 2, 6]], "int32")

    def ask(signature, feeds):
        talk = export_tools.Conversation()
        talk.load(path, signature)
        talk.ask(feeds)
        (answer,) = talk.run(program)
        assert isinstance(answer, dict), answer
        return answer

    state = ask("start", {"batch_size": np.array(1, "int32")})
    assert state.pop("delay") == 5
    parts = []
    for start, stop in ((0, 3), (3, 4), (4, 8)):
        end = np.array(stop == 8)
        chunk = {"ids": ids[:, start:stop], "end": end}
        answer = ask("step", {**chunk, **state})
        state = {name: answer.pop(name) for name in state}
        parts.append(answer)
    expected = model(ids)
    found = streamed.joined(
        parts, {k: x.shape for k, x in model.output.items()}
    )
    near = within("float32", operations=1000)
    for name, x in expected.items():
        np.testing.assert_allclose(found[name], x, **near, err_msg=name)


def test_export_says_what_cannot_be_streamed(monkeypatch, tmp_path):
    monkeypatch.setattr(
        export, "_serve_in_fresh_process", export_tools.answer_here
    )
    x = streamed.sequence()
    model = keras.Model(x, MaxPooling()(x))
    with pytest.raises(ValueError, match="a step for each step"):
        serving.export_model(model, tmp_path, streaming=True)
    with pytest.raises(ValueError, match="`streaming` must be"):
        serving.export_model(model, tmp_path, streaming="yes")
    assert not list(tmp_path.iterdir())


def test_masks_go_into_models_within_models():
    """Symbolically their outputs have no mask; when they run, they have."""
    ids = keras.Input((None,), dtype="int32", name="ids")
    inner = keras.Model(ids, layers.Embedding(9, 4, mask_zero=True)(ids))
    twice = keras.Sequential([keras.Input((None, 4)), layers.Dense(4)])
    twice.supports_masking = True
    ids = keras.Input((None,), dtype="int32", name="ids")
    words = inner(ids)
    read = ReceptiveFieldRNN(layers.GRUCell(4), 3, return_sequences=True)(words)
    y = layers.Add()([twice(read), twice(words)])
    model = keras.Model(ids, layers.LSTM(3, name="y")(y))
    stream = StreamingModel(model)
    inputs = {"ids": np.array([[3, 1, 2, 0, 0], [0, 5, 0, 4, 1]], "int32")}
    found = streamed.run(stream, inputs, [2, 3])
    np.testing.assert_allclose(
        found["y"], model(inputs["ids"]), **within("float32", operations=1000)
    )


def test_nothing_is_left_of_the_check():
    x = streamed.sequence()
    y = layers.BatchNormalization()(x)
    y = layers.GaussianNoise(0.1, seed=1)(y)
    model = keras.Model(x, layers.GRU(3)(y))
    before = model.get_weights()
    StreamingModel(model)
    for a, b in zip(before, model.get_weights()):
        np.testing.assert_array_equal(a, b)


def test_sizes_are_hard():
    x = streamed.sequence()
    layer = ReceptiveFieldRNN(
        layers.GRUCell(4), 3, return_field=True, return_sequences=True
    )
    stream = StreamingModel(keras.Model(x, layer(x)))
    inputs = {"sequence": np.random.default_rng(0).normal(size=(2, 6, 3))}
    size = streamed.run(stream, inputs, [2, 4])["size"]
    np.testing.assert_array_equal(size, np.rint(size))
