"""Gradients and importance in the package's own layers.

Gradients are checked by differences of losses in float64: of loops over cells,
written here, that add a number to the state after a step.
"""

import keras
import numpy as np
import pytest
from keras import layers

from keras_seqmech import FocusedHierarchicalEncoder
from keras_seqmech import KeepMask
from keras_seqmech import LearnedInitialState
from keras_seqmech import ReceptiveFieldRNN
from keras_seqmech import ReceptiveFieldWindows
from keras_seqmech import RFCell
from keras_seqmech import analysis
from tests import references

TIME, FEATURES, UNITS, CONTEXT, STEP = 5, 3, 2, 3, 1e-6
MASKS = np.array([[1, 1, 1, 1, 1], [1, 0, 1, 1, 0]]) > 0


@pytest.fixture(autouse=True)
def double():
    keras.config.set_dtype_policy("float64")


def data():
    generator = np.random.default_rng(0)
    return (
        generator.normal(size=(2, TIME, FEATURES)),
        generator.normal(size=(2, CONTEXT)),
        generator.normal(size=(2, 1)),
    )


def spread(model):
    generator = np.random.default_rng(1)
    for weight in model.trainable_weights:
        weight.assign(0.7 * generator.normal(size=weight.shape))
    return model


def differences(loss, units, masks=MASKS):
    """Norms of the loss's derivatives by a number added at each step."""
    norms = np.zeros((2, TIME))
    for row in range(2):
        for t in np.flatnonzero(masks[row]):
            found = []
            for unit in range(units):
                bumps = np.zeros((TIME, units))
                bumps[t, unit] = STEP
                ends = [loss(row, sign * bumps) for sign in (1, -1)]
                found.append((ends[0] - ends[1]) / (2 * STEP))
            norms[row, t] = np.linalg.norm(found)
    return norms


def assert_profile(model, inputs, targets, norms, layer=None):
    """The profile of each example alone is that of its real steps."""
    for row in range(2):
        one = [part[row : row + 1] for part in inputs]
        real = norms[row][MASKS[row]]
        profile = analysis.gradient_profile(
            model,
            one,
            targets[row : row + 1],
            layer=layer,
            mask=MASKS[row : row + 1],
            loss="mse",
            num_points=len(real),
        )
        np.testing.assert_allclose(profile, real, rtol=1e-5, atol=1e-9)
        assert real.max() > 1e-4


def run_cell(cell, windows, mask, states, bumps):
    """Steps of an `RFCell` of one example, bumps added to h after each."""
    output = np.zeros((1, UNITS))
    for t in range(TIME):
        if mask[t]:
            output, states = cell(windows[:, t], states)
            output = output + bumps[t]
            states = [output, *states[1:]]
    return output


FIELDS = {
    "layer": {"cell": layers.LSTMCell},
    "from the field": {"cell": layers.GRUCell, "size_from": "field"},
    "backwards": {"cell": layers.GRUCell, "go_backwards": True},
    "with its field": {"cell": layers.LSTMCell, "return_field": True},
    "in keras": {"cell": layers.LSTMCell, "wrap": "rnn"},
    "learned state": {"cell": layers.LSTMCell, "wrap": "learned"},
    "kept mask": {"cell": layers.LSTMCell, "wrap": "kept"},
}


def field_model(wrap=None, cell=layers.LSTMCell, **options):
    x = keras.Input((None, FEATURES))
    mask = keras.Input((None,), dtype="bool")
    if wrap == "rnn":
        rnn = layers.RNN(RFCell(cell(UNITS), 3, **options))
        hidden = rnn(ReceptiveFieldWindows(3)(x, mask=mask), mask=mask)
    else:
        rnn = ReceptiveFieldRNN(cell(UNITS), 3, **options)
        outer = rnn
        if wrap == "learned":
            outer = LearnedInitialState(rnn)
        elif wrap == "kept":
            outer = KeepMask(rnn)
        hidden = outer(x, mask=mask)
        if options.get("return_field"):
            hidden = hidden[0]
    return spread(keras.Model([x, mask], layers.Dense(1)(hidden)))


@pytest.mark.long
@pytest.mark.parametrize("name", FIELDS)
def test_fields_against_differences(name):
    model = field_model(**FIELDS[name])
    x, _, y = data()
    parts = list(model._flatten_layers())
    (cell,) = [part for part in parts if isinstance(part, RFCell)]
    (head,) = [part for part in parts if isinstance(part, layers.Dense)]
    learned = [p for p in parts if isinstance(p, LearnedInitialState)]
    turn = -1 if FIELDS[name].get("go_backwards") else 1

    def loss(row, bumps):
        sequence, mask = x[row : row + 1, ::turn], MASKS[row][::turn]
        windows = ReceptiveFieldWindows(3)(sequence, mask=mask[None])
        states = cell.get_initial_state(1)
        if learned:
            states = learned[0].get_initial_state(1)
        hidden = run_cell(cell, windows, mask, states, bumps[::turn])
        return float((head(hidden)[0, 0] - y[row, 0]) ** 2)

    assert_profile(model, [x, MASKS], y, differences(loss, UNITS))


def encoder_model(**options):
    x = keras.Input((None, FEATURES), name="x")
    question = keras.Input((CONTEXT,), name="question")
    mask = keras.Input((None,), dtype="bool", name="mask")
    encoder = FocusedHierarchicalEncoder(
        UNITS, lower_units=3, gate_units=4, name="encoder", **options
    )
    outputs = encoder(x, question, sequence_mask=mask)
    read = keras.tree.flatten(outputs)[0]
    if len(read.shape) == 3:
        read = keras.ops.sum(read, axis=1)
    model = keras.Model([x, question, mask], layers.Dense(1)(read))
    return spread(model), encoder


@pytest.mark.long
@pytest.mark.parametrize("part", ["lower", "upper"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"return_sequences": True, "return_gates": True},
        {"return_focused": True},
    ],
    ids=["last", "sequences", "focused"],
)
def test_encoders_against_differences(part, options):
    model, encoder = encoder_model(**options)
    x, question, y = data()
    question[1] = question[0]
    gates = open_gates(encoder, x, question)
    for row in range(2):
        assert 0 < gates[row][MASKS[row]].mean() < 1
    lower, upper = encoder.lower.get_weights(), encoder.upper.get_weights()
    kernel, bias = model.layers[-1].get_weights()

    def loss(row, bumps):
        nought = np.zeros((TIME, 1))
        of_lower, of_upper = (
            (bumps, nought) if part == "lower" else (nought, bumps)
        )
        low, up = ([np.zeros(n)] * 2 for n in (3, UNITS))
        sequence, focused, last = [], [], np.zeros(UNITS)
        for t in range(TIME):
            if MASKS[row, t]:
                _, low = references.lstm(lower, x[row, t], low)
                low = [low[0] + of_lower[t], low[1]]
                if gates[row, t]:
                    _, up = references.lstm(upper, low[0], up)
                up = [up[0] + of_upper[t], up[1]]
                last = up[0]
                focused += [last] if gates[row, t] else []
            sequence.append(last)
        read = last
        if "return_sequences" in options:
            read = sum(sequence)
        elif "return_focused" in options:
            read = sum(focused)
        return float((read @ kernel + bias - y[row])[0] ** 2)

    units = 3 if part == "lower" else UNITS
    assert_profile(
        model,
        [x, question, MASKS],
        y,
        differences(loss, units),
        f"encoder/{part}",
    )


def open_gates(encoder, x, question):
    """The open gates, where the bias is such that half of them are."""
    hidden = encoder.lower(x, mask=MASKS)
    _, decisions = encoder.gate(hidden, question, sequence_mask=MASKS)
    odds = decisions["probabilities"].numpy()[MASKS]
    bias = encoder.gate.output_bias
    bias.assign(bias - np.median(np.log(odds / (1 - odds))))
    gates, _ = encoder.gate(hidden, question, sequence_mask=MASKS)
    return gates.numpy() > 0.5


def test_an_encoder_has_two_recurrent_layers():
    model, _ = encoder_model()
    x, question, y = data()
    with pytest.raises(ValueError, match=r"\['encoder/lower', 'encoder/upper'"):
        analysis.gradient_profile(model, [x, question, MASKS], y, loss="mse")


@pytest.mark.parametrize("make", [field_model, lambda: encoder_model()[0]])
def test_the_vanishing_ratio_of_a_model_of_ones_own(make):
    model = make()
    x, question, y = data()
    inputs = [x, MASKS] if len(model.inputs) == 2 else [x, question, MASKS]
    layer = "encoder/upper" if len(inputs) == 3 else None
    callback = analysis.VanishingRatio(inputs, y, layer=layer)
    model.compile("sgd", "mse")
    model.fit(inputs, y, verbose=0, callbacks=[callback])
    assert np.isfinite(callback.history["vanishing_ratio"]).all()


@pytest.mark.parametrize("kind", ["field", "encoder", "learned"])
def test_word_importance_by_hand(kind):
    keras.config.set_dtype_policy("float32")
    tokens = keras.Input((None,), dtype="int32")
    mask = keras.ops.not_equal(tokens, 0)
    x = layers.Embedding(9, FEATURES)(tokens)
    if kind == "encoder":
        context = keras.ops.mean(x, axis=1)
        hidden = FocusedHierarchicalEncoder(4)(x, context, sequence_mask=mask)
    else:
        rnn = ReceptiveFieldRNN(layers.LSTMCell(4), 2)
        rnn = LearnedInitialState(rnn) if kind == "learned" else rnn
        hidden = rnn(x, mask=mask)
    head = layers.Dense(2, activation="softmax")(hidden)
    model = spread(keras.Model(tokens, head))
    texts = np.array([[3, 5, 7, 2]])
    (found,) = analysis.word_importance(model, texts, [1], k=2)
    changes = [
        abs(np.log(model(np.array([text]))[0, 1] / model(texts)[0, 1]))
        for text in ([1, 1, 7, 2], [3, 5, 1, 1])
    ]
    expected = (np.array(changes) - min(changes)) / max(changes)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)
