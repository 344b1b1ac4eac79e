"""Learned initial states."""

import keras
from keras import ops

import keras_seqmech
from tests.conformance.registry import fields
from tests.conformance.registry.entry import Entry
from tests.conformance.registry.entry import Facts

UNITS = 4
STATES = ("initial_state_0", "initial_state_1", "initial_state_2")
# Far enough from zero to be seen.
SPREAD = {"state_initializer": keras.initializers.RandomNormal(stddev=0.7)}


def resume(layer, inputs, mask, cut, training):
    first, *states = layer(
        inputs[:, :cut], mask=mask[:, :cut], training=training
    )
    second, *_ = layer(
        inputs[:, cut:],
        mask=mask[:, cut:],
        initial_state=states,
        training=training,
    )
    return ops.concatenate([first, second], axis=1)


def learned(id, rnn, count, weights=fields.KERAS_CELL, **options):
    """Entry of a wrapped layer; `rnn` takes all overrides but the name."""

    def make(name=None, **overrides):
        return keras_seqmech.LearnedInitialState(
            rnn(**overrides), name=name, **SPREAD
        )

    return Entry(
        f"LearnedInitialState-{id}",
        make,
        fields.SEQUENCES,
        (*STATES[:count], *weights),
        **{"draws": False, **options},
    )


def lstm():
    return keras.layers.LSTM(
        UNITS, return_sequences=True, return_state=True, name="inner"
    )


def gru():
    return keras.layers.GRU(UNITS, go_backwards=True, name="inner")


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
        resume=resume,
        states=("output_1", "output_2"),
        core=True,
        golden=True,
    ),
    learned("gru", gru, 1),
    learned(
        "bidirectional",
        two_ways,
        2,
        (*fields.KERAS_CELL, *fields.KERAS_CELL),
        core=True,
        golden=True,
    ),
    learned(
        "stack",
        stack,
        3,
        (*fields.KERAS_CELL, "kernel", "rate"),
        resume=resume,
        states=("output_1", "output_2", "output_3"),
    ),
    learned(
        "field",
        field,
        1,
        (
            *fields.READER,
            *fields.GATE,
            "temperature",
            *fields.KERAS_CELL,
            *fields.WEIGHTS,
        ),
        draws=True,
    ),
]


FACTS = {
    keras_seqmech.LearnedInitialState: Facts(
        lambda: {
            "rnn": keras.layers.LSTM(UNITS, name="inner"),
            "state_initializer": keras.initializers.HeNormal(),
            "state_regularizer": keras.regularizers.L2(0.25),
        },
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
}
