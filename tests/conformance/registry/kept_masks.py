"""Layers that keep masks."""

import keras
from keras import ops

import keras_seqmech
from tests.conformance.registry import fields
from tests.conformance.registry import initial_states
from tests.conformance.registry.entry import TIME
from tests.conformance.registry.entry import Entry
from tests.conformance.registry.entry import Facts

UNITS = 4


def kept(id, layer, weights=fields.KERAS_CELL, **options):
    def make(**overrides):
        return keras_seqmech.KeepMask(layer(), **overrides)

    return Entry(
        f"KeepMask-{id}",
        make,
        fields.SEQUENCES,
        weights,
        draws=False,
        **options,
    )


ENTRIES = [
    kept(
        "lstm",
        initial_states.lstm,
        resume=initial_states.resume,
        states=("output_1", "output_2"),
        golden=True,
    ),
    kept(
        "bidirectional",
        initial_states.two_ways,
        (*fields.KERAS_CELL, *fields.KERAS_CELL),
        core=True,
        golden=True,
    ),
]


def call_with_states():
    layer = keras.layers.TimeDistributed(keras.layers.Dense(2))
    states = [ops.ones((2, 2))]
    return keras_seqmech.KeepMask(layer)(
        ops.ones((2, TIME, 3)), initial_state=states
    )


FACTS = {
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
