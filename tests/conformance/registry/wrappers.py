"""Layers around a recurrent one: learned initial states, kept masks."""

import keras
from keras import ops

import keras_seqmech
from tests.conformance.registry import fields
from tests.conformance.registry.entry import TIME
from tests.conformance.registry.entry import Entry
from tests.conformance.registry.entry import Facts
from tests.conformance.registry.entry import maker

UNITS = 4
STATES = ("initial_state_0", "initial_state_1", "initial_state_2")
# Far enough from zero to be seen.
SPREAD = {"state_initializer": keras.initializers.RandomNormal(stddev=0.7)}


def learned(id, rnn, count, weights=fields.KERAS_CELL, **facts):
    """Entry of a wrapped layer; `rnn` takes the overrides that are its own."""

    def make(name=None, trainable=True, **overrides):
        return keras_seqmech.LearnedInitialState(
            rnn(**overrides), name=name, trainable=trainable, **SPREAD
        )

    return Entry(
        f"LearnedInitialState-{id}",
        make,
        fields.SEQUENCE,
        (*STATES[:count], *weights),
        **{"draws": False, **facts},
    )


def kept(id, layer, weights=fields.KERAS_CELL, **facts):
    return Entry(
        f"KeepMask-{id}",
        maker(keras_seqmech.KeepMask, layer),
        fields.SEQUENCE,
        weights,
        draws=False,
        **facts,
    )


def lstm():
    return keras.layers.LSTM(
        UNITS, return_sequences=True, return_state=True, name="inner"
    )


def two_ways():
    rnn = keras.layers.SimpleRNN(UNITS, return_sequences=True, name="inner")
    return keras.layers.Bidirectional(rnn, name="two_ways")


def stack():
    cells = [fields.lstm(), fields.custom()]
    return keras.layers.RNN(
        keras.layers.StackedRNNCells(cells, name="stacked"),
        return_sequences=True,
        return_state=True,
        name="inner",
    )


def field(**overrides):
    return keras_seqmech.ReceptiveFieldRNN(
        fields.gru(),
        fields.SIZE,
        return_sequences=True,
        return_field=True,
        name="inner",
        **overrides,
    )


ENTRIES = [
    learned(
        "lstm",
        lstm,
        2,
        resume=fields.resume,
        nonzero=("output_1", "output_2"),
        **fields.BOTH,
    ),
    learned(
        "bidirectional",
        two_ways,
        2,
        (*fields.KERAS_CELL, *fields.KERAS_CELL),
        **fields.BOTH,
    ),
    learned(
        "stack",
        stack,
        3,
        (*fields.KERAS_CELL, "kernel", "rate"),
        resume=fields.resume,
        nonzero=("output_1", "output_2", "output_3"),
    ),
    learned(
        "field",
        field,
        1,
        fields.field_weights(fields.KERAS_CELL),
        draws=True,
    ),
    kept(
        "lstm",
        lstm,
        resume=fields.resume,
        nonzero=("output_1", "output_2"),
        golden=True,
    ),
    kept(
        "bidirectional",
        two_ways,
        (*fields.KERAS_CELL, *fields.KERAS_CELL),
        **fields.BOTH,
    ),
]


def call_with_states():
    layer = keras.layers.TimeDistributed(keras.layers.Dense(2))
    states = [ops.ones((2, 2))]
    return keras_seqmech.KeepMask(layer)(
        ops.ones((2, TIME, 3)), initial_state=states
    )


FACTS = {
    keras_seqmech.LearnedInitialState: Facts(
        lambda: {"rnn": keras.layers.LSTM(UNITS, name="inner")},
        (
            ("rnn", 3),
            ("rnn", keras.layers.Dense(3)),
            ("rnn", keras.layers.LSTMCell(3)),
            ("rnn", keras.layers.LSTM(3, stateful=True)),
            ("rnn", keras.layers.ConvLSTM1D(3, 2)),
            (
                "rnn",
                keras.layers.Bidirectional(keras.layers.GRU(3, stateful=True)),
            ),
        ),
    ),
    keras_seqmech.KeepMask: Facts(
        lambda: {"layer": keras.layers.LSTM(UNITS, name="inner")},
        (
            ("layer", 3),
            ("layer", keras.layers.Dense(3)),
            ("layer", keras.layers.LSTMCell(3)),
        ),
        (("initial_state", call_with_states),),
    ),
}
