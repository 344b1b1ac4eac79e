"""All public layers, and how to run each: what drives the conformance tests.

A new layer needs two things here: an `Entry` in `ENTRIES` for each way it is
used, and its `Facts` in `FACTS`. Tests over the registry then check every
contract for it.
"""

import pytest

import keras_seqmech
from tests.conformance.registry import fields
from tests.conformance.registry import focused_encoders
from tests.conformance.registry import pointers
from tests.conformance.registry import poolings
from tests.conformance.registry import subsamples
from tests.conformance.registry import wrappers
from tests.conformance.registry.entry import TIME
from tests.conformance.registry.entry import Facts

PARTS = (fields, poolings, pointers, focused_encoders, wrappers, subsamples)
ENTRIES = [entry for part in PARTS for entry in part.ENTRIES]
FACTS = {key: facts for part in PARTS for key, facts in part.FACTS.items()}
# Layers that are given no sequence.
OTHERS = {
    keras_seqmech.ReadingWeight: Facts(
        lambda: {"least": 0.25, "most": 2.0},
        (("least", 0), ("most", 0.25), ("most", float("inf"))),
    ),
    keras_seqmech.ReadingLimit: Facts(
        lambda: {"most": 3}, (("most", 0), ("most", 1.5), ("most", 2**20 + 1))
    ),
}
CORE = [entry for entry in ENTRIES if entry.core]
# One way to use each layer: one that draws, and one whose states can be passed
# on, where there is any.
LAYERS = list(
    {
        entry.layer_class: entry
        for entry in sorted(
            CORE, key=lambda entry: (entry.draws, entry.resume is not None)
        )
    }.values()
)


# One layer of each kind. Others of its kind do as it does: a cell in Keras'
# loop as the layer's own, a look ahead as a field, a gate as the encoder that
# has one, a pooling without weights, or of attention, as another.
KINDS = {
    keras_seqmech.ConcatPooling,
    keras_seqmech.LastAttentionPooling,
    keras_seqmech.PointerSoftmax,
    keras_seqmech.LearnedInitialState,
    keras_seqmech.ExpectedSubsample,
    keras_seqmech.EmissionProbabilities,
    keras_seqmech.ReceptiveFieldRNN,
    keras_seqmech.FocusedHierarchicalEncoder,
}


def marks_of(entry) -> list:
    """None: one of a kind, `long` for other layers, `slow` for other ways."""
    if entry not in LAYERS:
        return [pytest.mark.slow]
    return [] if entry.layer_class in KINDS else [pytest.mark.long]


def over(entries):
    """Runs a test over entries, marked by `marks_of`."""
    return pytest.mark.parametrize(
        "entry",
        [
            pytest.param(entry, id=entry.id, marks=marks_of(entry))
            for entry in entries
        ],
    )


__all__ = [
    "CORE",
    "ENTRIES",
    "FACTS",
    "LAYERS",
    "OTHERS",
    "TIME",
    "marks_of",
    "over",
]
