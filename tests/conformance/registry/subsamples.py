"""Expected subsampling."""

import keras
import numpy as np
from keras import ops

import keras_seqmech
from tests.conformance.registry.entry import FEATURES
from tests.conformance.registry.entry import TIME
from tests.conformance.registry.entry import Argument
from tests.conformance.registry.entry import Entry
from tests.conformance.registry.entry import Facts

# Another number than that of steps: outputs have no time axis.
LENGTH = 5


class Shortening:
    """An expected subsample and the layer that says what to emit."""

    def __init__(self, layer):
        self.layer = layer
        wide = "float64" if layer.compute_dtype == "float64" else "float32"
        self.emission = keras.layers.Dense(
            1, "sigmoid", dtype=wide, name="emission"
        )

    def __getattr__(self, name):
        """Weights and variables, of all kinds, of both."""
        both = [getattr(x, name) for x in (self.emission, self.layer)]
        return both[0] + both[1]

    def call(self, sequence, mask=None, training=False):
        steps = sequence
        if mask is not None:
            steps = ops.where(ops.expand_dims(mask, -1), sequence, 0)
        emission = ops.squeeze(self.emission(steps), axis=-1)
        outputs = self.layer(sequence, emission, mask=mask, training=training)
        # The gradient of the square of 1e30 would be beyond all numbers.
        if not self.layer.return_emission:
            return ops.tanh(outputs)
        outputs, decisions = outputs
        matrix = decisions.pop("emission")
        presence = decisions.pop("output_mask")
        # Time in its place; and `output_...` are names of outputs here.
        return ops.tanh(outputs), {
            **decisions,
            "emission": ops.transpose(matrix, (0, 2, 1)),
            "presence": presence,
        }

    __call__ = call


def subsample(id, draws=True, **options):
    options = {"max_length": LENGTH, "return_emission": True, **options}

    def make(sample_at_inference=False, **overrides):
        if sample_at_inference:
            overrides["inference"] = "sample"
        layer_class = keras_seqmech.ExpectedSubsample
        return layer_class(**{**options, **overrides})

    return Entry(
        f"ExpectedSubsample-{id}",
        make,
        (Argument("sequence", (None, FEATURES), mask="mask"),),
        ("kernel", "bias"),
        wrap=Shortening,
        draws=draws,
        # Surely of length 0.
        states=("length_distribution",),
        core=True,
        golden=True,
    )


ENTRIES = [
    subsample(
        "straight_through",
        estimator="straight_through",
        return_emission=False,
    ),
    subsample(
        "reinforce",
        estimator="reinforce",
        inference="threshold",
        length_target=0.4,
        length_weight=0.5,
    ),
    subsample("expectation", draws=False, length_target=0.4, length_weight=0.5),
]


def call(
    sequence=(2, TIME, FEATURES),
    emission=(2, TIME),
    mask=None,
    value=0.5,
    **options,
):
    if mask is not None:
        mask = np.ones(mask, "bool")
    return keras_seqmech.ExpectedSubsample(**options)(
        np.ones(sequence), np.full(emission, value), mask=mask
    )


def call_without_sizes():
    keras_seqmech.ExpectedSubsample()(
        keras.Input((TIME, None)), keras.Input((TIME,))
    )


FACTS = {
    keras_seqmech.ExpectedSubsample: Facts(
        lambda: {
            "max_length": 4,
            "inference": "threshold",
            "estimator": "reinforce",
            "return_emission": True,
            "track_statistics": True,
            "length_target": 0.25,
            "length_weight": 0.5,
            "seed": 11,
        },
        (
            ("max_length", 0),
            ("max_length", -3),
            ("max_length", 2.0),
            ("max_length", True),
            ("inference", "argmax"),
            ("inference", None),
            ("estimator", "sample"),
            ("return_emission", 1),
            ("track_statistics", None),
            ("length_target", 0),
            ("length_target", 1),
            ("length_target", float("nan")),
            ("length_target", None),
            ("length_weight", -0.1),
            ("length_weight", float("inf")),
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
            ("mask.shape", lambda: call(mask=(2, TIME + 1))),
            ("emission_probabilities", lambda: call(value=1.01)),
            ("emission_probabilities", lambda: call(value=-0.01)),
            ("emission_probabilities", lambda: call(value=float("nan"))),
        ),
        decisions={
            "return_emission": (
                "emission",
                "length_distribution",
                "presence",
            )
        },
        statistics=("length",),
    )
}
