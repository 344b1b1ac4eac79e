"""Poolings over time."""

import keras
import numpy as np

import keras_seqmech
from keras_seqmech import DecisionPenalties
from keras_seqmech.core.decisions.learning import WEIGHTS
from tests.conformance.registry.entry import TIME
from tests.conformance.registry.entry import Argument
from tests.conformance.registry.entry import Entry
from tests.conformance.registry.entry import Facts
from tests.conformance.registry.entry import maker
from tests.conformance.registry.subsamples import WithProbabilities

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
    *(
        Entry(
            f"EarlyPooling{id}",
            maker(
                keras_seqmech.EarlyPooling,
                return_attention_scores=True,
                **options,
            ),
            SEQUENCE,
            ("kernel", "bias", *WEIGHTS),
            wrap=WithProbabilities,
            draws=False,
            core=core,
            golden=core,
        )
        for id, core, options in (
            ("", True, {}),
            (
                "-penalties",
                False,
                {"penalties": DecisionPenalties(0.5, 2, 0.3, "row", 0.1, 0.2)},
            ),
        )
    ),
]


def call_early(steps=TIME, value=0.5, limit=None):
    keras_seqmech.EarlyPooling()(
        np.ones((2, TIME, 3)), np.full((2, steps), value), limit=limit
    )


def call_without_stops():
    keras_seqmech.EarlyPooling()(np.ones((2, TIME, 3)), None)


def call_early_with_other_features():
    early = keras_seqmech.EarlyPooling()
    for features in (3, 4):
        early(np.ones((2, TIME, features)), np.full((2, TIME), 0.5))


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
    keras_seqmech.EarlyPooling: Facts(
        lambda: {"penalties": DecisionPenalties(0.5, 3, 0.75, "row", 0.1, 1.5)},
        (
            ("penalties", DecisionPenalties(target=0.5)),
            ("penalties", "late"),
        ),
        (
            ("stop_probabilities.shape", lambda: call_early(TIME - 1)),
            ("stop_probabilities", call_without_stops),
            ("sequence.shape", call_early_with_other_features),
            ("stop_probabilities", lambda: call_early(value=1.01)),
            ("stop_probabilities", lambda: call_early(value=float("nan"))),
            ("limit", lambda: call_early(limit=np.array([-1, 0]))),
            ("limit.dtype", lambda: call_early(limit=np.array([0.5, 1]))),
            ("limit.shape", lambda: call_early(limit=np.array(1))),
        ),
        decisions={
            "return_attention_scores": (
                "attention_scores",
                "size",
                "answered",
            )
        },
        statistics=(
            "mean_delay",
            "delay_percentile",
            "penalty",
            "mean_size",
            "size_entropy",
            "certain",
            "choice_entropy",
        ),
    ),
    keras_seqmech.AttentionPooling: Facts(decisions=SCORES),
    keras_seqmech.MaxAttentionPooling: Facts(decisions=SCORES),
    keras_seqmech.LastAttentionPooling: Facts(
        lambda: {"penalty": 0.5, "attention_dropout": 0.25},
        (("penalty", float("inf")), ("attention_dropout", 1.5)),
        decisions=SCORES,
    ),
}
