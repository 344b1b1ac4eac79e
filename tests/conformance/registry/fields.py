"""Adaptive receptive fields."""

import keras
from keras import ops

import keras_seqmech
from keras_seqmech import DecisionPenalties
from keras_seqmech.core.decisions.penalties import WEIGHTS
from tests.conformance.registry.entry import FEATURES
from tests.conformance.registry.entry import TIME
from tests.conformance.registry.entry import Argument
from tests.conformance.registry.entry import Entry
from tests.conformance.registry.entry import Facts
from tests.conformance.registry.entry import in_rnn

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


SEQUENCES = (Argument("sequences", (None, FEATURES), mask="mask"),)
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


def resume_layer(layer, inputs, mask, cut, training):
    """Passes states on; the first call sees just as far ahead as it may."""
    end = cut + SIZE - 1
    first, *states = layer(
        inputs[:, :cut],
        mask=mask[:, :cut],
        lookahead=inputs[:, cut:end],
        lookahead_mask=mask[:, cut:end],
        training=training,
    )
    if isinstance(states[-1], dict):
        states = states[:-1]
    second = layer(
        inputs[:, cut:],
        mask=mask[:, cut:],
        initial_state=states,
        training=training,
    )
    return ops.concatenate([first, second[0]], axis=1)


def resume_cell(layer, inputs, mask, cut, training):
    windows = make_windows(inputs, {"mask": mask})
    first, *states = layer(
        windows[:, :cut], mask=mask[:, :cut], training=training
    )
    second, *_ = layer(
        windows[:, cut:],
        mask=mask[:, cut:],
        initial_state=states,
        training=training,
    )
    return ops.concatenate([first, second], axis=1)


def make_windows(inputs, masks):
    layer = keras_seqmech.ReceptiveFieldWindows(SIZE)
    return layer(inputs, mask=masks.get("mask"))


def field_layer(id, cell, inner=KERAS_CELL, reader=READER, **options):
    sequences = options.get("return_sequences")
    entry_options = {
        name: options.pop(name)
        for name in ("silent", "core", "golden")
        if name in options
    }
    max_size = options.pop("max_size", SIZE)

    def make(**overrides):
        return keras_seqmech.ReceptiveFieldRNN(
            cell(), max_size, **{**options, **overrides}
        )

    return Entry(
        f"ReceptiveFieldRNN-{id}",
        make,
        SEQUENCES,
        (*reader, *GATE, "temperature", *inner, *WEIGHTS),
        resume=resume_layer
        if sequences and options.get("return_state")
        else None,
        length=TIME if options.get("unroll") else None,
        draws=max_size > 1,
        backwards=options.get("go_backwards", False),
        **entry_options,
    )


def field_cell(
    id,
    cell,
    inner=KERAS_CELL,
    reader=READER,
    core=False,
    golden=False,
    **options,
):
    def make(**overrides):
        return keras_seqmech.RFCell(cell(), SIZE, **{**options, **overrides})

    return Entry(
        f"RFCell-{id}",
        make,
        SEQUENCES,
        (*reader, *GATE, "temperature", *inner, *WEIGHTS),
        wrap=in_rnn,
        prepare=make_windows,
        resume=resume_cell,
        core=core,
        golden=golden,
    )


LOOKING = (Argument("sequence", (None, FEATURES), mask="mask"),)
SUMMARY = ("summary_kernel", "summary_recurrent_kernel", "summary_bias")
STOPPING = ("kernel", "bias", "recurrent_kernel", "stop_kernel", "stop_bias")


def look_ahead(id, weights=STOPPING, with_context=False, **options):
    entry_options = {
        name: options.pop(name)
        for name in ("core", "golden")
        if name in options
    }
    max_size = options.pop("max_size", SIZE)
    arguments = LOOKING
    if with_context:
        arguments += (Argument("context", (None, 2), mask="mask"),)
        weights = (weights[0], "context_kernel", *weights[1:])
    if weights:
        weights = (*SUMMARY, *weights)

    def make(**overrides):
        return keras_seqmech.LookAhead(
            **{"max_size": max_size, **options, **overrides}
        )

    return Entry(
        f"LookAhead-{id}",
        make,
        arguments,
        (*weights, "temperature", *WEIGHTS),
        draws=max_size > 1,
        **entry_options,
    )


ENTRIES = [
    look_ahead("straight_through", return_field=True, core=True),
    look_ahead(
        "context",
        units=5,
        estimator="relaxed",
        with_context=True,
        return_field=True,
        golden=True,
    ),
    look_ahead(
        "input",
        ("kernel", "bias"),
        size_from="input",
        with_context=True,
        return_field=True,
    ),
    look_ahead("reinforce", estimator="reinforce", return_field=True),
    look_ahead("one", (), max_size=1),
    Entry(
        "ReceptiveFieldWindows",
        lambda **overrides: keras_seqmech.ReceptiveFieldWindows(
            **{"max_size": SIZE, **overrides}
        ),
        (Argument("inputs", (None, FEATURES), mask="mask"),),
        weights=(),
        draws=False,
        core=True,
        golden=True,
    ),
    field_cell("lstm-relaxed-mean", lstm, core=True, golden=True),
    field_cell(
        "gru-straight_through-last",
        gru,
        estimator="straight_through",
        summary="last",
        golden=True,
    ),
    field_cell(
        "custom-reinforce", custom, ("kernel", "rate"), estimator="reinforce"
    ),
    field_cell(
        "lstm-field-straight_through",
        lstm,
        reader=STOPPING_READER,
        estimator="straight_through",
        size_from="field",
        gated="output",
    ),
    field_layer(
        "lstm-relaxed-mean",
        lstm,
        return_sequences=True,
        return_state=True,
        return_field=True,
        core=True,
        golden=True,
    ),
    field_layer(
        "gru-straight_through-last",
        gru,
        estimator="straight_through",
        summary="last",
        return_sequences=True,
        return_state=True,
        core=True,
        golden=True,
    ),
    field_layer(
        "simple-reinforce",
        simple,
        estimator="reinforce",
        return_field=True,
        core=True,
        golden=True,
    ),
    field_layer(
        "stack-relaxed-last",
        stack,
        (*KERAS_CELL, *KERAS_CELL),
        summary="last",
        go_backwards=True,
        return_sequences=True,
        return_field=True,
        golden=True,
    ),
    field_layer(
        "custom-straight_through",
        custom,
        ("kernel", "rate"),
        estimator="straight_through",
        return_sequences=True,
        return_state=True,
        zero_output_for_mask=True,
    ),
    field_layer(
        "lstm-field-relaxed-all",
        lstm,
        reader=STOPPING_READER,
        size_from="field",
        gated="all",
        return_sequences=True,
        return_state=True,
        return_field=True,
    ),
    field_layer(
        "gru-field-reinforce",
        gru,
        reader=STOPPING_READER,
        estimator="reinforce",
        size_from="field",
        return_field=True,
    ),
    field_layer(
        "lstm-dropout-unroll",
        lambda: lstm(dropout=0.2, recurrent_dropout=0.3),
        unroll=True,
        silent=False,
    ),
    field_layer(
        "lstm-relaxed-padded",
        lstm,
        packed=False,
        return_sequences=True,
        return_state=True,
        return_field=True,
    ),
    field_layer(
        "gru-one",
        lambda: gru(reset_after=False),
        reader=(),
        max_size=1,
        return_sequences=True,
        return_state=True,
        return_field=True,
    ),
]


def field_arguments() -> dict:
    return {
        "cell": lstm(),
        "max_size": 5,
        "field_units": 6,
        "summary": "last",
        "estimator": "straight_through",
        "temperature": 0.5,
        "activation": "relu",
        "gated": "all",
        "size_from": "field",
        "penalties": DecisionPenalties(0.25, 2.5, 0.75, "row", 0.125, 0.375),
        "unit_forget_bias": False,
        "forget_strength": 0.25,
        "kernel_initializer": keras.initializers.HeNormal(),
        "recurrent_initializer": keras.initializers.GlorotNormal(),
        "kernel_regularizer": keras.regularizers.L2(0.25),
        "sample_at_inference": True,
        "seed": 11,
    }


SWITCHES = (
    "return_field",
    "track_statistics",
    "jit_compile",
    "packed",
    "return_sequences",
    "return_state",
    "go_backwards",
    "stateful",
    "unroll",
    "zero_output_for_mask",
)


def field_layer_arguments() -> dict:
    switches = {**dict.fromkeys(SWITCHES, True), "packed": False}
    return {**field_arguments(), **switches}


BAD_SIZES = (("max_size", 0), ("max_size", 2.5), ("max_size", True))
BAD_FIELDS = (
    ("cell", 3),
    ("cell", keras.layers.Dense(3)),
    ("cell", keras.layers.LSTM(3)),
    ("cell", []),
    *BAD_SIZES,
    ("field_units", 0),
    ("summary", "max"),
    ("estimator", "exact"),
    ("gated", "carry"),
    ("size_from", "state"),
    ("penalties", {"reading": 1.0}),
    ("penalties", 0.1),
    ("penalties", DecisionPenalties(target=0.5)),
    ("penalties", DecisionPenalties(target=99.0)),
    ("unit_forget_bias", 1),
    ("forget_strength", 1.5),
    ("forget_strength", True),
    ("sample_at_inference", None),
    ("temperature", 0),
    ("temperature", float("nan")),
)


def call_field_layer(shape=(2, TIME, 3), **arguments):
    constructor = {"cell": simple(), "max_size": SIZE}
    for name in ("unroll", "stateful"):
        if name in arguments:
            constructor[name] = arguments.pop(name)
    layer = keras_seqmech.ReceptiveFieldRNN(**constructor)
    return layer(keras.Input(batch_shape=shape), **arguments)


def look_ahead_arguments() -> dict:
    names = (
        "temperature",
        "activation",
        "penalties",
        "kernel_initializer",
        "recurrent_initializer",
        "kernel_regularizer",
        "sample_at_inference",
        "seed",
    )
    return {
        **{name: field_arguments()[name] for name in names},
        "max_size": 5,
        "size_from": "input",
        "window": 2,
        "units": 6,
        "estimator": "relaxed",
        "return_field": True,
        "track_statistics": True,
    }


def call_look_ahead(shape=(2, TIME, 3), mask=None, context=None):
    layer = keras_seqmech.LookAhead(SIZE)
    if mask is not None:
        mask = ops.ones(mask, "bool")
    if context is not None:
        context = keras.Input(batch_shape=context)
    return layer(keras.Input(batch_shape=shape), context=context, mask=mask)


FACTS = {
    keras_seqmech.LookAhead: Facts(
        look_ahead_arguments,
        (
            *BAD_SIZES,
            ("units", 0),
            ("window", 0),
            ("size_from", "state"),
            *(bad for bad in BAD_FIELDS if bad[0] in look_ahead_arguments()),
            ("return_field", "yes"),
            ("track_statistics", "yes"),
        ),
        (
            ("sequence.shape", lambda: call_look_ahead((2, 3))),
            ("mask.shape", lambda: call_look_ahead(mask=(2, TIME - 1))),
            ("context.shape", lambda: call_look_ahead(context=(2, 3))),
            ("context.shape", lambda: call_look_ahead(context=(2, 4, 3))),
        ),
        decisions={"return_field": ("probabilities", "size")},
        statistics=(
            "mean_delay",
            "delay_percentile",
            "mean_size",
            "size_entropy",
            "certain",
            "choice_entropy",
        ),
    ),
    keras_seqmech.ReceptiveFieldWindows: Facts(
        lambda: {"max_size": 5},
        BAD_SIZES,
    ),
    keras_seqmech.RFCell: Facts(
        field_arguments,
        BAD_FIELDS,
        (
            (
                "input_shape",
                lambda: in_rnn(keras_seqmech.RFCell(lstm(), 2))(
                    make_windows(ops.ones((2, 4, 3)), {})
                ),
            ),
        ),
    ),
    keras_seqmech.ReceptiveFieldRNN: Facts(
        field_layer_arguments,
        (*BAD_FIELDS, *((name, "yes") for name in SWITCHES)),
        (
            (
                "lookahead.shape",
                lambda: call_field_layer(lookahead=ops.ones((2, 3))),
            ),
            (
                "lookahead",
                lambda: call_field_layer(lookahead_mask=ops.ones((2, 3))),
            ),
            (
                "sequences.shape",
                lambda: call_field_layer((None, 4, 3), stateful=True),
            ),
            (
                "sequences.shape",
                lambda: call_field_layer((2, None, 3), unroll=True),
            ),
        ),
        decisions={"return_field": ("probabilities", "size")},
        statistics=(
            "mean_delay",
            "delay_percentile",
            "mean_size",
            "size_entropy",
            "certain",
            "choice_entropy",
        ),
    ),
}
