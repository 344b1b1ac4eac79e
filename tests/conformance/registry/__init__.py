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
from tests.conformance.registry.entry import SCALARS
from tests.conformance.registry.entry import TIME
from tests.conformance.registry.entry import Facts
from tests.conformance.registry.entry import NoiseSwitch
from tests.conformance.registry.entry import arguments_of
from tests.conformance.registry.entry import bad_arguments_of

PARTS = (fields, poolings, pointers, focused_encoders, wrappers, subsamples)
ENTRIES = [entry for part in PARTS for entry in part.ENTRIES]
FACTS = {key: facts for part in PARTS for key, facts in part.FACTS.items()}
# Layers that are given no sequence.
OTHERS = {
    keras_seqmech.ReadingWeight: Facts(
        lambda: {"least": 0.25, "most": 2.0},
        (("least", 0), ("most", 0.25), ("most", float("inf"))),
    )
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


def over(entries):
    """One entry of each layer; the others for `make test-all` alone."""
    return pytest.mark.parametrize(
        "entry",
        [
            pytest.param(
                entry,
                id=entry.id,
                marks=[] if entry in LAYERS else pytest.mark.slow,
            )
            for entry in entries
        ],
    )


__all__ = [
    "CORE",
    "ENTRIES",
    "FACTS",
    "LAYERS",
    "OTHERS",
    "SCALARS",
    "TIME",
    "NoiseSwitch",
    "arguments_of",
    "bad_arguments_of",
    "over",
]
