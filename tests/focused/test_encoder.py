"""The encoder against numpy, Keras' LSTMs and every pattern of six steps."""

import functools
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_seqmech import DecisionPenalties
from keras_seqmech import FocusedHierarchicalEncoder
from keras_seqmech import PointerSoftmax
from keras_seqmech.core.decisions import reports
from keras_seqmech.focused import encoder as loops
from tests import references
from tests.fixed_noise import fix_gates
from tests.processes import printed_by

LENGTH, FEATURES, CONTEXT, LOWER, UNITS = 6, 3, 2, 5, 4
MODES = (
    "graph",
    pytest.param("eager", marks=pytest.mark.slow),
    pytest.param("xla", marks=pytest.mark.slow),
)


def make_encoder(openness=0.5, spread=3.0, **options):
    """An encoder with weights far from zero, gates included."""
    options = {"estimator": "reinforce", **options}
    encoder = FocusedHierarchicalEncoder(
        UNITS, LOWER, gate_units=7, initial_openness=openness, **options
    )
    encoder.build((None, None, FEATURES), (None, CONTEXT))
    generator = np.random.default_rng(1)
    for variable in encoder.trainable_variables:
        if variable is not encoder.gate.output_bias:
            values = generator.normal(size=variable.shape)
            variable.assign(spread / 3 * values)
    return encoder


def set_openness(encoder, opened):
    """All gates open, or all closed."""
    encoder.gate.output_kernel.assign(0 * encoder.gate.output_kernel)
    encoder.gate.output_bias.assign(50.0 if opened else -50.0)


def make_inputs(batch_size=5, length=LENGTH, dtype="float32"):
    generator = np.random.default_rng(1)
    x = generator.normal(size=(batch_size, length, FEATURES)).astype(dtype)
    q = generator.normal(size=(batch_size, CONTEXT)).astype(dtype)
    states = [
        generator.normal(size=(batch_size, size)).astype(dtype)
        for size in (LOWER, LOWER, UNITS, UNITS)
    ]
    return x, q, states


def compiled(function, mode):
    if mode == "eager":
        return function
    return tf.function(function, jit_compile=mode == "xla")


def assert_close(actual, expected, **tolerance):
    tolerance = {"rtol": 1e-5, "atol": 1e-6, **tolerance}
    actual, expected = keras.tree.flatten(actual), keras.tree.flatten(expected)
    for x, y in zip(actual, expected, strict=True):
        np.testing.assert_allclose(x, y, **tolerance)


MASK = np.array(
    [
        [1] * 6,
        [1, 1, 1, 0, 0, 0],
        [0, 0, 1, 1, 0, 1],
        [0] * 6,
        [1, 0, 1, 1, 0, 1],
    ],
    "bool",
)


# Against numpy and against Keras.


OPENS = {
    "threshold": lambda probabilities: probabilities[-1] > 0.5,
    "running_sum": lambda probabilities: references.running_sum_gates(
        probabilities
    )[-1],
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "drawn, inference",
    [(False, "threshold"), (True, "threshold"), (False, "running_sum")],
)
def test_is_the_numpy_reference(drawn, inference, mode, monkeypatch):
    encoder = make_encoder(
        inference=inference,
        return_sequences=True,
        return_state=True,
        return_gates=True,
        dtype="float64",
    )
    x, q, states = make_inputs(dtype="float64")
    noise = np.random.default_rng(2).logistic(size=x.shape[:2])
    fix_gates(monkeypatch, noise)

    def run():
        with reports.collect():
            return encoder(
                x, q, mask=MASK, initial_state=states, training=drawn
            )

    outputs, *finals, decisions = compiled(run, mode)()
    gate = {v.name: v.numpy() for v in encoder.gate.trainable_variables}
    lower, upper = encoder.lower.get_weights(), encoder.upper.get_weights()
    opened = []
    for b in range(len(x)):
        expected, expected_finals, gates, probabilities = (
            references.focused_encoder(
                gate,
                lower,
                upper,
                x[b],
                q[b],
                [s[b] for s in states],
                noise[b] if drawn else None,
                MASK[b],
                OPENS[inference],
            )
        )
        opened += gates[MASK[b]].tolist()
        # TensorFlow's leaky ReLU holds its slope in float32.
        exact = {"rtol": 1e-7, "atol": 1e-8}
        assert_close(outputs[b], expected, **exact)
        assert_close([s[b] for s in finals], expected_finals, **exact)
        assert_close(decisions["gates"][b], gates, rtol=0, atol=0)
        assert_close(decisions["probabilities"][b], probabilities, **exact)
    assert 0 < np.mean(opened) < 1


def stacked(encoder, x, mask, states):
    """Two `keras.layers.LSTM` with the encoder's weights."""
    layers = [
        keras.layers.LSTM(size, return_sequences=True, return_state=True)
        for size in (LOWER, UNITS)
    ]
    hidden, finals = x, []
    for i, (layer, own) in enumerate(
        zip(layers, (encoder.lower, encoder.upper))
    ):
        layer.build(hidden.shape)
        layer.set_weights(own.get_weights())
        hidden, *final = layer(
            hidden, mask=mask, initial_state=states[2 * i : 2 * i + 2]
        )
        finals += final
    variables = [v.value for layer in layers for v in layer.trainable_variables]
    return hidden, finals, variables


@pytest.mark.parametrize(
    "mode", [*MODES, pytest.param("own XLA", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("estimator", ["reinforce", "straight_through"])
def test_all_open_is_two_stacked_lstms(estimator, mode):
    """Values to 1e-6, some ulps: products are summed in another order."""
    encoder = make_encoder(
        estimator=estimator,
        jit_compile=mode == "own XLA",
        return_sequences=True,
        return_state=True,
    )
    set_openness(encoder, True)
    x, q, states = make_inputs()
    x, mask = tf.constant(x), tf.constant(MASK)
    states = [tf.constant(s) for s in states]
    with tf.GradientTape() as tape:
        tape.watch([x, *states])
        outputs, finals, variables = stacked(encoder, x, mask, states)
        loss = ops.sum(ops.square(outputs)) + ops.sum(finals[3])
    expected = tape.gradient(loss, [x, *states, *variables])

    def run(training):
        own = [
            v.value
            for layer in (encoder.lower, encoder.upper)
            for v in layer.trainable_variables
        ]
        with tf.GradientTape() as tape, reports.collect():
            tape.watch([x, *states])
            outputs, *finals = encoder(
                x,
                q,
                mask=mask,
                initial_state=states,
                training=training,
            )
            loss = ops.sum(ops.square(outputs)) + ops.sum(finals[3])
        return outputs, finals, tape.gradient(loss, [x, *states, *own])

    # Decisions at inference are as hard as those that are drawn.
    for training in (False, True) if estimator == "reinforce" else (True,):
        actual = compiled(functools.partial(run, training), mode)()
        assert_close(actual[:2], (outputs, finals), rtol=0, atol=1e-6)
        assert_close(actual[2], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("estimator", ["relaxed", "straight_through"])
def test_soft_gates_learn_what_each_state_changes(estimator):
    encoder = make_encoder(
        estimator=estimator,
        return_sequences=True,
        return_gates=True,
        dtype="float64",
    )
    x, q, states = make_inputs(dtype="float64")
    gate = [v.value for v in encoder.gate.trainable_variables]
    lower = keras.layers.LSTM(LOWER, return_sequences=True, dtype="float64")
    lower.build(x.shape)
    lower.set_weights(encoder.lower.get_weights())
    hidden = lower(x, initial_state=states[:2])

    def loss(outputs):
        return ops.sum(ops.sin(3 * outputs))

    with tf.GradientTape(persistent=True) as tape:
        tape.watch(gate)
        outputs, decisions = encoder(x, q, initial_state=states, training=True)
        kept, expected = states[2:], []
        for t in range(x.shape[1]):
            share = decisions["gates"][:, t, None]
            _, new = encoder.upper.cell(hidden[:, t], kept)
            kept = [share * a + (1 - share) * b for a, b in zip(new, kept)]
            expected.append(kept[0])
        losses = loss(outputs), loss(ops.stack(expected, axis=1))
    assert_close(outputs, ops.stack(expected, axis=1))
    found, wanted = (tape.gradient(x, gate) for x in losses)
    assert_close(found, wanted)
    assert all(np.any(x) for x in wanted)


# The skipping path against the plain one, every pattern.


def run_path(path, encoder, hidden, keep, states, training):
    with tf.GradientTape() as tape:
        sources = [hidden, *states]
        tape.watch(sources)
        sources = sources + [v.value for v in encoder.upper.trainable_variables]
        sequence, final = loops.run_upper(
            encoder.upper.cell,
            hidden,
            ops.cast(keep, hidden.dtype),
            states,
            loops.ScanOptions(training),
            is_soft=path == "every",
        )
        weights = tf.cast(tf.range(tf.size(sequence)) % 7, hidden.dtype)
        weights = tf.reshape(weights, tf.shape(sequence))
        loss = ops.sum(ops.sin(sequence) * weights)
        loss += ops.sum(final[0]) + ops.sum(ops.sin(final[1]))
    gradients = tape.gradient(loss, sources, unconnected_gradients="zero")
    return sequence, list(final), gradients


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "training", [pytest.param(False, marks=pytest.mark.slow), True]
)
def test_skipping_is_stepping_for_every_pattern(training, mode):
    """All gates of a length are the rows of one batch, so rows differ in K.

    A mask closes gates, so that the patterns are those of every mask too.
    """
    encoder = make_encoder(dtype="float64")
    generator = np.random.default_rng(4)
    spec = tf.TensorSpec((None, None), "bool")
    sequence_spec = tf.TensorSpec((None, None, LOWER), "float64")
    state_spec = tf.TensorSpec((None, UNITS), "float64")

    def run(path):
        def function(hidden, keep, first, second):
            return run_path(
                path, encoder, hidden, keep, (first, second), training
            )

        if mode == "eager":
            return function
        return tf.function(
            function,
            input_signature=[sequence_spec, spec, state_spec, state_spec],
            jit_compile=mode == "xla",
        )

    skip, every = run("open"), run("every")
    patterns = [
        list(itertools.product([False, True], repeat=length))
        for length in (1, 2, LENGTH)
    ]
    # No row does any step of the last.
    for keep in (*patterns, [[False] * LENGTH] * 2):
        rows, length = np.shape(keep)
        arguments = (
            tf.constant(generator.normal(size=(rows, length, LOWER))),
            tf.constant(keep),
            tf.constant(generator.normal(size=(rows, UNITS))),
            tf.constant(generator.normal(size=(rows, UNITS))),
        )
        assert_close(
            skip(*arguments), every(*arguments), rtol=1e-10, atol=1e-10
        )


# Gradients.


def test_step_path_gradients_are_those_of_finite_differences():
    """Closed gates, 0, and open ones, 1, have a gradient too."""
    encoder = make_encoder(dtype="float64")
    generator = np.random.default_rng(5)
    gates = np.array([[0, 1, 0.3, 0.8], [1, 0, 0, 0.5]])
    arguments = [
        tf.constant(generator.normal(size=(2, 4, LOWER))),
        tf.constant(gates),
        tf.constant(generator.normal(size=(2, UNITS))),
        tf.constant(generator.normal(size=(2, UNITS))),
    ]

    def loss(hidden, gates, first, second, training=False):
        sequence, states = loops.run_upper(
            encoder.upper.cell,
            hidden,
            gates,
            (first, second),
            loops.ScanOptions(training),
            is_soft=True,
        )
        return ops.sum(ops.sin(sequence)) + ops.sum(states[1])

    for training in (False, True):
        with tf.GradientTape() as tape:
            tape.watch(arguments)
            value = loss(*arguments, training=training)
        gradients = tape.gradient(value, arguments)
        assert (gradients[1].numpy() != 0).all()
        for i, gradient in enumerate(gradients):
            direction = generator.normal(size=gradient.shape)
            ends = []
            for step in (1e-6, -1e-6):
                moved = list(arguments)
                moved[i] = moved[i] + step * direction
                ends.append(float(loss(*moved)))
            np.testing.assert_allclose(
                np.sum(gradient * direction),
                (ends[0] - ends[1]) / 2e-6,
                rtol=1e-6,
            )


def test_reinforce_gate_learns_from_log_probabilities_alone():
    encoder = make_encoder(spread=1.0)
    x, q, _ = make_inputs()
    sources = [v.value for v in encoder.gate.trainable_variables]
    with tf.GradientTape(persistent=True) as tape:
        with reports.collect() as drawn:
            loss = ops.sum(ops.square(encoder(x, q, training=True)))
        total = ops.sum(drawn[0].log_probability)
    assert tape.gradient(loss, sources) == [None] * len(sources)
    for gradient in tape.gradient(total, sources):
        assert (gradient.numpy() != 0).any()


# Outputs.


@pytest.mark.parametrize(
    "estimator", ["reinforce", pytest.param("relaxed", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("mode", MODES)
def test_focused_states_are_those_at_open_gates(estimator, mode, monkeypatch):
    # XLA draws other numbers from the same seed.
    noise = np.random.default_rng(8).logistic(size=(5, LENGTH))
    noise = noise.astype("float32")
    fix_gates(monkeypatch, noise)
    options = {"estimator": estimator, "return_gates": True}
    focused = make_encoder(return_focused=True, **options)
    sequences = make_encoder(return_sequences=True, **options)
    x, q, _ = make_inputs()

    def run(encoder, training):
        with reports.collect():
            return encoder(x, q, mask=MASK, training=training)

    for training in (False, True):
        focus = functools.partial(run, focused, training)
        states, real, decisions = compiled(focus, mode)()
        every, _ = run(sequences, training)
        opened = decisions["gates"].numpy() > 0.5
        most = max(1, opened.sum(1).max())
        width = LENGTH if mode == "xla" else most
        assert states.shape == (5, width, UNITS)
        assert real.shape == (5, width) and real.dtype == "bool"
        for b in range(5):
            count = opened[b].sum()
            assert real[b].numpy().sum() == count
            assert real[b, :count].numpy().all()
            expected = every[b].numpy()[opened[b]]
            assert_close(states[b, :count], expected)
            assert (states[b, count:].numpy() == 0).all()
            indices = decisions["indices"][b].numpy()
            assert indices.dtype == "int32"
            assert (indices[:count] == np.flatnonzero(opened[b])).all()
            assert (indices[count:] == 0).all()


def test_pointing_at_focused_states_names_the_words_there():
    """As the text of `return_gates` says; not without `return_focused`."""
    encoder = make_encoder(return_focused=True, return_gates=True)
    x, q, _ = make_inputs()
    ids = np.arange(5 * LENGTH, dtype="int32").reshape(5, LENGTH)
    inputs = [
        keras.Input((None, FEATURES)),
        keras.Input((CONTEXT,)),
        keras.Input((None,), dtype="int32"),
    ]
    states, real, gates = encoder(*inputs[:2])
    words = ops.take_along_axis(inputs[2], gates["indices"], axis=1)
    p = PointerSoftmax(ids.size)(
        inputs[1], states, sequence_mask=real, token_ids=words
    )
    model = keras.Model(inputs, [words, real, gates["gates"], p])
    words, real, gates, p = model([x, q, ids])
    opened = gates.numpy() > 0.5
    assert words[real].numpy().tolist() == ids[opened].tolist()
    assert 0 < opened.mean() < 1
    np.testing.assert_allclose(ops.sum(p, axis=1), 1, rtol=1e-5)
    _, gates = make_encoder(return_gates=True)(x, q)
    assert "indices" not in gates


def test_masks_that_keras_passes_on():
    encoder = make_encoder(return_sequences=True)
    x, q, _ = make_inputs()
    masked = keras.layers.Masking()(np.where(MASK[..., None], x, 0))
    outputs = encoder(masked, q)
    assert_close(outputs, encoder(x, q, mask=MASK), rtol=0, atol=0)
    assert (outputs._keras_mask == MASK).numpy().all()
    last = make_encoder(return_focused=True, return_state=True)(masked, q)
    assert not any(hasattr(part, "_keras_mask") for part in last)


def test_the_last_state_is_that_of_the_sequence():
    x, q, states = make_inputs()
    arguments = {"mask": MASK, "initial_state": states}
    last = make_encoder()(x, q, **arguments)
    every = make_encoder(return_sequences=True)(x, q, **arguments)
    assert_close(last, every[:, -1], rtol=0, atol=0)
    assert (every[3].numpy() == 0).all()  # a row without a real step
    assert (every[2, :2].numpy() == 0).all()  # as Keras, before the first


def test_contexts_in_half_precision():
    encoder = make_encoder()
    x, q, _ = make_inputs()
    half = q.astype("float16")
    expected = encoder(x, half.astype("float32"))
    assert_close(encoder(x, half), expected, rtol=0, atol=0)


def test_regularizer_and_gate_losses_are_the_encoders():
    encoder = make_encoder(
        kernel_regularizer=keras.regularizers.L2(0.5),
        penalties=DecisionPenalties(entropy=0.1),
        return_gates=True,
    )
    x, q, _ = make_inputs()
    with reports.collect():
        _, decisions = encoder(x, q, training=True)
    kernels = [
        v
        for v in encoder.trainable_variables
        if v.name in ("kernel", "context_kernel", "output_kernel")
    ]
    assert len(kernels) == 5
    penalty = sum(float(ops.sum(0.5 * v**2)) for v in kernels)
    exploration, *others = (float(x) for x in encoder.losses)
    p = np.array(decisions["probabilities"], "float64")
    entropy = np.mean(-p * np.log(p) - (1 - p) * np.log(1 - p))
    np.testing.assert_allclose(exploration, 0.1 * (np.log(2) - entropy), 1e-4)
    np.testing.assert_allclose(sum(others), penalty, rtol=1e-5)


def test_bad_initial_state():
    x, q, states = make_inputs()
    with pytest.raises(ValueError, match="`initial_state` must hold"):
        make_encoder()(x, q, initial_state=states[:3])
    with pytest.raises(ValueError, match="`initial_state` must hold"):
        make_encoder()(x, q, initial_state=states[::-1])
    with pytest.raises(
        ValueError, match=r"sizes \[5, 5, 4, 4\], .* batch of 5"
    ):
        make_encoder()(x, q, initial_state=[s[:1] for s in states])
    encoder = make_encoder()
    encoder(x, q)
    for flat in (x[0], np.float32(3)):
        with pytest.raises(ValueError, match="Sequences must have the shape"):
            encoder(flat, q, initial_state=states)


def test_settings_are_found_under_the_names_of_other_layers():
    encoder = FocusedHierarchicalEncoder(
        2, estimator="reinforce", return_sequences=True, return_state=True
    )
    assert encoder.estimator == "reinforce"
    assert encoder.return_sequences and encoder.return_state
    assert encoder.temperature is None
    encoder(np.ones((1, 3, 2)), np.ones((1, 2)))
    assert encoder.temperature is encoder.gate.temperature
    assert encoder.penalty_weights is encoder.gate.penalty_weights


def test_kernels_of_one_shape_start_different():
    encoder = FocusedHierarchicalEncoder(
        3, kernel_initializer=keras.initializers.GlorotUniform()
    )
    encoder.build((None, None, 3), (None, 2))
    lower, upper = (x.cell.kernel for x in (encoder.lower, encoder.upper))
    assert np.any(lower.numpy() != upper.numpy())


def test_gates_of_inference_can_be_changed():
    encoder = FocusedHierarchicalEncoder(3, return_gates=True, seed=0)
    x, q, _ = make_inputs()
    encoder(x, q)
    encoder.inference = "running_sum"
    _, found = encoder(x, q)
    opened = np.round(np.cumsum(found["probabilities"], axis=1) + 1e-6)
    expected = np.diff(opened, axis=1, prepend=0)
    np.testing.assert_array_equal(found["gates"], expected)
    assert encoder.get_config()["inference"] == "running_sum"
    with pytest.raises(ValueError, match="`inference` .*inference='hard'"):
        encoder.inference = "hard"


CLUSTERED = """
import tensorflow as tf
from tests.focused.test_encoder import make_encoder, make_inputs

x, context, _ = make_inputs()
for packed in (True, False):
    encoder = make_encoder()
    encoder.packed = packed
    expected = encoder(x, context)
    found = tf.function(encoder)(tf.constant(x), tf.constant(context))
    tf.debugging.assert_near(found, expected, 1e-4, 1e-5)
"""


@pytest.mark.long
def test_auto_clustering_gives_the_same():
    """Where XLA compiles parts of all graphs, sizes depend on values still."""
    flags = "--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit"
    printed_by("-c", CLUSTERED, TF_XLA_FLAGS=flags)
