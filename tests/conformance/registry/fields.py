"""Adaptive receptive fields."""

import keras
from keras import ops

import keras_seqmech
from keras_seqmech import DecisionPenalties
from keras_seqmech.core.decisions.learning import WEIGHTS
from tests.conformance.registry.entry import FEATURES
from tests.conformance.registry.entry import TIME
from tests.conformance.registry.entry import Argument
from tests.conformance.registry.entry import Entry
from tests.conformance.registry.entry import Facts
from tests.conformance.registry.entry import OverWindows
from tests.conformance.registry.entry import maker

UNITS = 4
SIZE = 3  # of fields


@keras.saving.register_keras_serializable(package="tests")
class DecayCell(keras.layers.Layer):
    """A cell that the package does not know."""

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = self.state_size = units

    def build(self, input_shape):
        self.kernel = self.add_weight(
            name="kernel", shape=(input_shape[-1], self.units)
        )
        self.rate = self.add_weight(name="rate", initializer="ones")

    def call(self, inputs, states):
        decayed = ops.sigmoid(self.rate) * states[0]
        state = ops.tanh(decayed + ops.matmul(inputs, self.kernel))
        return state, [state]

    def get_config(self):
        return {**super().get_config(), "units": self.units}


SEQUENCE = (Argument("sequence", (None, FEATURES)),)
READER = ("size_kernel", "size_recurrent_kernel", "field_recurrent_kernel")
STOPPING_READER = (
    "stop_kernel",
    "stop_recurrent_kernel",
    "stop_bias",
    "field_recurrent_kernel",
)
GATE = ("field_kernel", "field_bias", "forget_kernel", "forget_bias")
KERAS_CELL = ("kernel", "recurrent_kernel", "bias")


def lstm(**options):
    return keras.layers.LSTMCell(UNITS, name="inner", **options)


def gru(**options):
    return keras.layers.GRUCell(UNITS, name="inner", **options)


def simple(**options):
    return keras.layers.SimpleRNNCell(UNITS, name="inner", **options)


def custom():
    return DecayCell(UNITS, name="inner")


def stack():
    return [lstm(), gru()]


def resume(layer, inputs, mask, cut, training):
    """Passes states on, of a layer that sees nothing ahead."""
    first, *states = layer(
        inputs[:, :cut], mask=mask[:, :cut], training=training
    )
    states = [state for state in states if not isinstance(state, dict)]
    second, *_ = layer(
        inputs[:, cut:],
        mask=mask[:, cut:],
        initial_state=states,
        training=training,
    )
    return ops.concatenate([first, second], axis=1)


def resume_cell(layer, inputs, mask, cut, training):
    windows = layer.windows(inputs, mask=mask)
    return resume(layer.rnn, windows, mask, cut, training)


def field_weights(inner, reader=READER):
    return (*reader, *GATE, "temperature", *inner, *WEIGHTS)


def field_layer(id, cell, inner=KERAS_CELL, reader=READER, facts=(), **options):
    """What is known of the entry is in `facts`, all else is the layer's."""
    options = {"max_size": SIZE, **options}
    known = {"draws": options["max_size"] > 1}
    return Entry(
        f"ReceptiveFieldRNN-{id}",
        maker(keras_seqmech.ReceptiveFieldRNN, cell, **options),
        SEQUENCE,
        field_weights(inner, reader),
        **known,
        **dict(facts),
    )


def field_cell(id, cell, inner=KERAS_CELL, reader=READER, facts=(), **options):
    return Entry(
        f"RFCell-{id}",
        maker(keras_seqmech.RFCell, cell, max_size=SIZE, **options),
        SEQUENCE,
        field_weights(inner, reader),
        wrap=OverWindows,
        resume=resume_cell,
        **dict(facts),
    )


LOOKING = Argument("sequence", (None, FEATURES))
CONTEXT = Argument("context", (None, 2))
SUMMARY = ("summary_kernel", "summary_recurrent_kernel", "summary_bias")
STOPPING = ("bias", "recurrent_kernel", "stop_kernel", "stop_bias")


def look_ahead(id, arguments, weights, facts=(), **options):
    options = {
        "max_size": SIZE,
        "initial_stop": 0.4,
        "return_field": True,
        **options,
    }
    return Entry(
        f"LookAhead-{id}",
        maker(keras_seqmech.LookAhead, **options),
        arguments,
        (*weights, "temperature", *WEIGHTS),
        **dict(facts),
    )


ALL = {"return_sequences": True, "return_state": True, "return_field": True}
STATES = {"return_sequences": True, "return_state": True}
BOTH = {"core": True, "golden": True}
ENTRIES = [
    look_ahead(
        "straight_through",
        (LOOKING,),
        (*SUMMARY, "kernel", *STOPPING),
        {"core": True},
    ),
    look_ahead(
        "context",
        (LOOKING, CONTEXT),
        (*SUMMARY, "kernel", "context_kernel", *STOPPING),
        {"golden": True},
        units=5,
        estimator="relaxed",
    ),
    look_ahead(
        "input",
        (LOOKING, CONTEXT),
        (*SUMMARY, "kernel", "context_kernel", "bias"),
        size_from="input",
    ),
    look_ahead(
        "one", (LOOKING,), (), {"draws": False}, max_size=1, return_field=False
    ),
    Entry(
        "ReceptiveFieldWindows",
        maker(keras_seqmech.ReceptiveFieldWindows, max_size=SIZE),
        (Argument("sequence", (None, FEATURES)),),
        weights=(),
        draws=False,
        **BOTH,
    ),
    field_cell("lstm-relaxed-mean", lstm, facts=BOTH),
    field_cell(
        "gru-straight_through-last",
        gru,
        facts={"golden": True},
        estimator="straight_through",
        summary="last",
    ),
    field_layer("lstm-relaxed-mean", lstm, facts=BOTH, **ALL),
    field_layer(
        "gru-straight_through-last",
        gru,
        facts=BOTH,
        estimator="straight_through",
        summary="last",
        **STATES,
    ),
    field_layer(
        "simple-reinforce",
        simple,
        facts=BOTH,
        estimator="reinforce",
        return_field=True,
    ),
    field_layer(
        "stack-relaxed-last",
        stack,
        (*KERAS_CELL, *KERAS_CELL),
        facts={"golden": True},
        summary="last",
        go_backwards=True,
        return_sequences=True,
        return_field=True,
    ),
    field_layer(
        "custom-straight_through",
        custom,
        ("kernel", "rate"),
        estimator="straight_through",
        zero_output_for_mask=True,
        **STATES,
    ),
    field_layer(
        "lstm-field-relaxed-output",
        lstm,
        reader=STOPPING_READER,
        size_from="field",
        gated="output",
        **ALL,
    ),
    field_layer(
        "lstm-dropout",
        lambda: lstm(dropout=0.2, recurrent_dropout=0.3),
        facts={"silent": False},
    ),
    field_layer(
        "gru-one",
        lambda: gru(reset_after=False),
        reader=(),
        facts={"resume": resume},
        max_size=1,
        **ALL,
    ),
]


DECIDING = {
    "temperature": 0.5,
    "activation": "relu",
    "penalties": DecisionPenalties(0.25, 2.5, 0.75, "row", 0.125, 0.375),
}


def field_arguments() -> dict:
    return {
        **DECIDING,
        "cell": lstm(),
        "max_size": 5,
        "field_units": 6,
        "summary": "last",
        "estimator": "straight_through",
        "gated": "output",
        "size_from": "field",
        "inference": "sample",
    }


BAD_SIZES = (
    ("max_size", 0),
    ("temperature", 0),
    ("penalties", {"reading": 1.0}),
    ("penalties", 0.1),
    ("penalties", DecisionPenalties(target=0.5)),
    ("penalties", DecisionPenalties(target=99.0)),
    ("inference", "threshold"),
)
BAD_FIELDS = (
    *BAD_SIZES,
    ("cell", 3),
    ("cell", keras.layers.Dense(3)),
    ("cell", keras.layers.LSTM(3)),
    ("cell", []),
    ("field_units", 0),
    ("activation", keras.layers.PReLU()),
)


def call_stateful_layer():
    layer = keras_seqmech.ReceptiveFieldRNN(simple(), SIZE, stateful=True)
    return layer(keras.Input((4, 3)))


def call_cell_on_other_windows():
    layer = keras.layers.RNN(keras_seqmech.RFCell(lstm(), SIZE - 1))
    windows = keras_seqmech.ReceptiveFieldWindows(SIZE)
    return layer(windows(ops.ones((2, 4, 3))))


def call_look_ahead(context):
    keras_seqmech.LookAhead(SIZE)(
        keras.Input(batch_shape=(2, TIME, 3)),
        context=keras.Input(batch_shape=context),
    )


DECISIONS = {"return_field": ("probabilities", "size")}
STATISTICS = (
    "penalty",
    "mean_delay",
    "delay_percentile",
    "mean_size",
    "size_entropy",
    "certain",
    "choice_entropy",
)
FACTS = {
    keras_seqmech.LookAhead: Facts(
        lambda: {
            **DECIDING,
            "max_size": 5,
            "size_from": "input",
            "window": 2,
            "units": 6,
            "estimator": "relaxed",
            "initial_stop": 0.25,
            "inference": "sample",
        },
        (*BAD_SIZES, ("units", 0), ("window", 0), ("initial_stop", 1.0)),
        (
            # No entry of one way to use each layer has a context.
            ("context.shape", lambda: call_look_ahead((2, 3))),
            ("context.shape", lambda: call_look_ahead((2, 4, 3))),
        ),
        decisions=DECISIONS,
        statistics=STATISTICS,
    ),
    keras_seqmech.ReceptiveFieldWindows: Facts(
        lambda: {"max_size": 5}, (("max_size", 0),)
    ),
    keras_seqmech.RFCell: Facts(
        field_arguments,
        BAD_FIELDS,
        (("input_shape", call_cell_on_other_windows),),
    ),
    keras_seqmech.ReceptiveFieldRNN: Facts(
        field_arguments,
        BAD_FIELDS,
        (("sequence.shape", call_stateful_layer),),
        decisions=DECISIONS,
        statistics=STATISTICS,
    ),
}
