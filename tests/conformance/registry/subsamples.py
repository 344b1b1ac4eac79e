"""Expected subsampling."""

import keras
import numpy as np
from keras import ops

import keras_seqmech
from keras_seqmech import DecisionPenalties
from keras_seqmech.core.decisions.learning import WEIGHTS
from tests.conformance.registry.entry import FEATURES
from tests.conformance.registry.entry import TIME
from tests.conformance.registry.entry import Argument
from tests.conformance.registry.entry import Around
from tests.conformance.registry.entry import Entry
from tests.conformance.registry.entry import Facts
from tests.conformance.registry.entry import maker

# Another number than that of steps: outputs have no time axis.
LENGTH = 5


class WithProbabilities(Around):
    """A layer that is given probabilities by step, and one that makes them."""

    def __init__(self, layer):
        wide = "float64" if layer.compute_dtype == "float64" else "float32"
        self.layer = layer
        self.emission = keras.layers.Dense(
            1, "sigmoid", dtype=wide, name="emission"
        )
        super().__init__(self.emission, layer)

    def call(self, sequence, mask=None, training=False):
        steps = sequence
        if mask is not None:
            steps = ops.where(ops.expand_dims(mask, -1), sequence, 0)
        emission = ops.squeeze(self.emission(steps), axis=-1)
        outputs = self.layer(sequence, emission, mask=mask, training=training)
        # The gradient of the square of 1e30 would be beyond all numbers.
        if not isinstance(outputs, tuple):
            return ops.tanh(outputs)
        outputs, decisions = outputs
        return ops.tanh(outputs), decisions


EXPECTATION = {"estimator": "expectation", "inference": "expectation"}
ROWS = DecisionPenalties(target=0.4, target_weight=0.5, target_of="row")


def subsample(id, draws=True, core=True, golden=True, **options):
    options = {"max_length": LENGTH, "return_emission": True, **options}

    return Entry(
        f"ExpectedSubsample-{id}",
        maker(keras_seqmech.ExpectedSubsample, **options),
        (Argument("sequence", (None, FEATURES)),),
        ("kernel", "bias", *WEIGHTS),
        wrap=WithProbabilities,
        draws=draws,
        # Surely of length 0.
        nonzero=("length_distribution",),
        core=core,
        golden=golden,
    )


ENTRIES = [
    subsample(
        "straight_through",
        return_emission=False,
    ),
    subsample(
        "reinforce",
        estimator="reinforce",
        inference="threshold",
        penalties=ROWS,
    ),
    subsample("expectation", draws=False, penalties=ROWS, **EXPECTATION),
    subsample(
        "running_sum",
        draws=False,
        golden=False,
        estimator="expectation",
        inference="running_sum",
    ),
    Entry(
        "EmissionProbabilities",
        maker(keras_seqmech.EmissionProbabilities, share=0.3),
        (Argument("sequence", (None, FEATURES)),),
        ("kernel", "bias"),
        wide=("output_0",),
        draws=False,
        core=True,
        golden=True,
    ),
]


def call(
    sequence=(2, TIME, FEATURES),
    emission=(2, TIME),
    **masks,
):
    return keras_seqmech.ExpectedSubsample()(
        np.ones(sequence), np.full(emission, 0.5), **masks
    )


def ones(*shape, dtype="bool"):
    return np.ones(shape, dtype)


def call_without_sizes():
    keras_seqmech.ExpectedSubsample()(
        keras.Input((TIME, None)), keras.Input((TIME,))
    )


FACTS = {
    keras_seqmech.ExpectedSubsample: Facts(
        lambda: {
            "max_length": 4,
            "inference": "running_sum",
            "estimator": "reinforce",
            "penalties": DecisionPenalties(0.5, 0.25, 0.75, "row", 0.1, 1.5),
        },
        (
            ("max_length", 0),
            ("inference", None),
            ("estimator", "sample"),
            ("penalties", DecisionPenalties(target=1.5)),
            ("penalties", "late"),
        ),
        (
            ("sequence.shape", lambda: call((2, TIME))),
            ("sequence.shape", lambda: call((2, 0, 3), (2, 0))),
            ("sequence.shape", call_without_sizes),
            (
                "emission_probabilities.shape",
                lambda: call(emission=(2, TIME - 1)),
            ),
            (
                "emission_probabilities.shape",
                lambda: call(emission=(2, TIME, 1)),
            ),
            (
                "emission_probabilities.shape",
                lambda: call(emission=(1, TIME)),
            ),
            (
                "mask.shape",
                lambda: call(mask=ones(2, TIME + 1)),
            ),
            (
                "mask",
                lambda: call(mask=ones(2, TIME, dtype="float32")),
            ),
            (
                "emission_probabilities",
                lambda: keras_seqmech.ExpectedSubsample()(
                    np.ones((2, TIME, FEATURES)), None
                ),
            ),
        ),
        decisions={
            "return_emission": (
                "emission",
                "length_distribution",
                "output_mask",
            )
        },
        statistics=(
            "penalty",
            "length",
            "logit_deviation",
            "kept",
            "emission_entropy",
            "certain",
            "choice_entropy",
        ),
    ),
    keras_seqmech.EmissionProbabilities: Facts(
        lambda: {"share": 0.25, "scale": 2.0},
        (
            ("share", 0),
            ("share", 1.0),
            ("share", None),
            ("scale", 0.0),
            ("scale", float("inf")),
        ),
    ),
}
