"""Poolings over time."""

import keras

import keras_seqmech
from tests.conformance.registry.entry import TIME
from tests.conformance.registry.entry import Argument
from tests.conformance.registry.entry import Entry
from tests.conformance.registry.entry import Facts
from tests.conformance.registry.entry import maker

FEATURES = 4  # even: half a direction
SEQUENCE = (Argument("sequence", (None, FEATURES)),)
SCORES = {"return_attention_scores": ("attention_scores",)}


def pooling(layer_class, id="", weights=(), silent=True, core=True, **options):
    return Entry(
        layer_class.__name__ + id,
        maker(layer_class, **options),
        SEQUENCE,
        weights,
        draws=False,
        silent=silent,
        core=core,
        golden=core,
    )


ENTRIES = [
    pooling(keras_seqmech.MeanPooling),
    pooling(keras_seqmech.MaxPooling),
    pooling(keras_seqmech.LastPooling),
    pooling(keras_seqmech.LastPooling, "-two", core=False, bidirectional=True),
    pooling(keras_seqmech.ConcatPooling),
    pooling(
        keras_seqmech.AttentionPooling,
        weights=("query",),
        return_attention_scores=True,
    ),
    pooling(
        keras_seqmech.MaxAttentionPooling,
        return_attention_scores=True,
    ),
    pooling(
        keras_seqmech.LastAttentionPooling,
        weights=("penalty", "attention_dropout"),
        return_attention_scores=True,
        penalty=0.1,
    ),
    pooling(
        keras_seqmech.LastAttentionPooling,
        "-dropout",
        weights=("penalty", "attention_dropout"),
        silent=False,
        core=False,
        attention_dropout=0.5,
    ),
]


def call_with_odd_features():
    keras_seqmech.LastPooling(bidirectional=True)(keras.Input((TIME, 3)))


BAD_PARTS = (
    ("parts", ("last", "min")),
    ("parts", ()),
    ("parts", "max"),
    ("parts", ("max", "max")),
    ("parts", 3),
    ("parts", [["max"]]),
)

FACTS = {
    keras_seqmech.MeanPooling: Facts(),
    keras_seqmech.MaxPooling: Facts(),
    keras_seqmech.LastPooling: Facts(
        bad_calls=(("sequence.shape", call_with_odd_features),),
    ),
    keras_seqmech.ConcatPooling: Facts(
        lambda: {"parts": ["mean", "last"]}, BAD_PARTS
    ),
    keras_seqmech.AttentionPooling: Facts(decisions=SCORES),
    keras_seqmech.MaxAttentionPooling: Facts(decisions=SCORES),
    keras_seqmech.LastAttentionPooling: Facts(
        lambda: {"penalty": 0.5, "attention_dropout": 0.25},
        (("penalty", float("inf")), ("attention_dropout", 1.5)),
        decisions=SCORES,
    ),
}
