"""The focused hierarchical encoder, its gate, and its read-out."""

import keras

import keras_seqmech
from keras_seqmech import DecisionPenalties
from keras_seqmech.core.decisions.learning import WEIGHTS
from tests.conformance.registry.entry import FEATURES
from tests.conformance.registry.entry import TIME
from tests.conformance.registry.entry import Argument
from tests.conformance.registry.entry import Entry
from tests.conformance.registry.entry import Facts
from tests.conformance.registry.entry import maker

UNITS = 4
GATE_UNITS = 5
CONTEXT = 2
ARGUMENTS = (
    Argument("sequence", (None, FEATURES)),
    Argument("context", (CONTEXT,)),
)
GATE = (
    "context_kernel",
    "kernel",
    "bias",
    "output_kernel",
    "output_bias",
    "temperature",
)
# The sparsity of the source.
SPARSE = DecisionPenalties(0.0, 0.25, 2.0, "row_above", entropy=0.1)
LSTM = ("kernel", "recurrent_kernel", "bias")


BOTH = {"core": True, "golden": True}
SUMS = {"inference": "running_sum", "golden": False}


def gate(id, golden=True, **options):
    return Entry(
        f"BoundaryGate-{id}",
        maker(
            keras_seqmech.BoundaryGate,
            units=GATE_UNITS,
            initial_openness=0.5,
            return_gates=True,
            **options,
        ),
        ARGUMENTS,
        (*GATE, *WEIGHTS),
        wide=("output_0",),
        core=True,
        golden=golden,
    )


def encoder(id, core=True, golden=True, **options):
    return Entry(
        f"FocusedHierarchicalEncoder-{id}",
        maker(
            keras_seqmech.FocusedHierarchicalEncoder,
            units=UNITS,
            lower_units=6,
            gate_units=GATE_UNITS,
            initial_openness=0.5,
            return_gates=True,
            **options,
        ),
        ARGUMENTS,
        (*GATE, *WEIGHTS, *LSTM, *LSTM),
        core=core,
        golden=golden,
    )


def attention(states, arguments):
    return Entry(
        f"ContextAttention-{states}",
        maker(
            keras_seqmech.ContextAttention,
            states=states,
            return_attention_scores=True,
        ),
        arguments,
        ("context_kernel",),
        draws=False,
        **BOTH,
    )


# Closed, soft and open ones.
GATES = Argument(
    "gates",
    (None,),
    draw=lambda generator, shape: generator.choice([0, 0.25, 1], shape),
)
ENTRIES = [
    attention("every", ARGUMENTS),
    attention("open", (*ARGUMENTS, GATES)),
    gate("relaxed", estimator="relaxed"),
    gate("reinforce", estimator="reinforce", penalties=SPARSE),
    gate("running_sum", **SUMS),
    encoder("relaxed", estimator="relaxed", return_sequences=True),
    encoder("running_sum", return_sequences=True, **SUMS),
    encoder(
        "straight_through",
        core=False,
        estimator="straight_through",
        return_state=True,
        penalties=DecisionPenalties(entropy=0.1),
    ),
    encoder(
        "reinforce",
        estimator="reinforce",
        return_sequences=True,
        return_state=True,
        penalties=SPARSE,
    ),
]


def decision_arguments():
    return {
        "units": UNITS,
        "estimator": "straight_through",
        "temperature": 0.5,
        "penalties": DecisionPenalties(0.375, 0.5, 0.75, "row", 0.125, 0.875),
        "initial_openness": 0.25,
        "inference": "running_sum",
    }


def call(layer, **options):
    return layer(
        keras.Input(batch_shape=(2, TIME, 3)),
        keras.Input(batch_shape=(2, 5)),
        **options,
    )


def bad_calls(layer_class, *arguments):
    """Of a mask of floats, which might be weights."""
    mask = keras.ops.ones((2, TIME))
    return (("mask", lambda: call(layer_class(*arguments), mask=mask)),)


BAD_GATES = (
    ("units", 0),
    ("temperature", 0),
    ("penalties", DecisionPenalties(target=1.1)),
    ("penalties", 0.5),
    ("initial_openness", 0),
    ("initial_openness", 1),
    ("inference", "expectation"),
)
DECISIONS = ("gates", "probabilities")
STATISTICS = ("openness", "gate_entropy")
FACTS = {
    keras_seqmech.ContextAttention: Facts(
        lambda: {"states": "open"},
        (),
        (
            *bad_calls(keras_seqmech.ContextAttention),
            ("gates", lambda: call(keras_seqmech.ContextAttention("open"))),
        ),
        decisions={"return_attention_scores": ("attention_scores",)},
    ),
    keras_seqmech.BoundaryGate: Facts(
        decision_arguments,
        BAD_GATES,
        bad_calls(keras_seqmech.BoundaryGate, UNITS),
        decisions={"return_gates": DECISIONS},
        statistics=STATISTICS,
    ),
    keras_seqmech.FocusedHierarchicalEncoder: Facts(
        lambda: {
            **decision_arguments(),
            "lower_units": 6,
            "gate_units": GATE_UNITS,
            "return_focused": False,
        },
        # The last where `return_sequences` is given.
        (*BAD_GATES, ("lower_units", 0), ("return_focused", True)),
        bad_calls(keras_seqmech.FocusedHierarchicalEncoder, UNITS),
        decisions={"return_gates": DECISIONS},
        statistics=STATISTICS,
        exclusive={
            "return_focused": {
                "return_focused": True,
                "return_sequences": False,
            }
        },
    ),
}
