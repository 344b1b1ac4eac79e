"""The focused hierarchical encoder, its gate, and its read-out."""

import keras
from keras import ops

import keras_seqmech
from keras_seqmech import DecisionPenalties
from keras_seqmech.core.decisions.penalties import WEIGHTS
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
    Argument("sequence", (None, FEATURES), mask="sequence_mask"),
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


def decisions_alone(outputs):
    """All a gate returns are decisions, the first output among them."""
    if not isinstance(outputs, tuple):
        return ({"gates": outputs},)
    gates, decisions = outputs
    assert gates.dtype == decisions["gates"].dtype
    return (decisions,)


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
        name=decisions_alone,
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
    mask="sequence_mask",
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


def gate_arguments():
    return {
        "units": GATE_UNITS,
        "estimator": "straight_through",
        "temperature": 0.5,
        "penalties": DecisionPenalties(0.375, 0.5, 0.75, "row", 0.125, 0.875),
        "initial_openness": 0.25,
        "negative_slope": 0.125,
        "kernel_initializer": keras.initializers.HeNormal(),
        "kernel_regularizer": keras.regularizers.L2(0.25),
        "inference": "running_sum",
        "seed": 11,
        "return_gates": True,
        "track_statistics": True,
    }


def encoder_arguments():
    arguments = gate_arguments()
    arguments.pop("negative_slope")
    return {
        **arguments,
        "units": UNITS,
        "lower_units": 6,
        "gate_units": GATE_UNITS,
        "recurrent_initializer": keras.initializers.GlorotNormal(),
        "unit_forget_bias": False,
        "jit_compile": True,
        "packed": False,
        "return_sequences": True,
        "return_state": True,
    }


def call(layer, **options):
    return layer(
        keras.Input(batch_shape=(2, TIME, 3)),
        keras.Input(batch_shape=(2, 5)),
        **options,
    )


def bad_calls(layer_class, *arguments):
    """The one argument that must not be there is Keras' own mask."""
    mask = ops.ones((2, TIME), "bool")
    return (("mask", lambda: call(layer_class(*arguments), mask=mask)),)


BAD_GATES = (
    ("units", 0),
    ("units", 2.5),
    ("estimator", "exact"),
    ("temperature", 0),
    ("penalties", DecisionPenalties(target=1.1)),
    ("penalties", 0.5),
    ("initial_openness", 0),
    ("initial_openness", 1),
    ("inference", "expectation"),
    ("return_gates", 1),
    ("track_statistics", 1),
)


DECISIONS = ("gates", "probabilities")
STATISTICS = ("openness", "gate_entropy")
FACTS = {
    keras_seqmech.ContextAttention: Facts(
        lambda: {
            "states": "open",
            "kernel_initializer": keras.initializers.HeNormal(),
            "kernel_regularizer": keras.regularizers.L2(0.25),
            "return_attention_scores": True,
        },
        (("states", "closed"), ("return_attention_scores", 1)),
        (
            *bad_calls(keras_seqmech.ContextAttention),
            ("gates", lambda: call(keras_seqmech.ContextAttention("open"))),
        ),
        decisions={"return_attention_scores": ("attention_scores",)},
    ),
    keras_seqmech.BoundaryGate: Facts(
        gate_arguments,
        (*BAD_GATES, ("negative_slope", -1)),
        bad_calls(keras_seqmech.BoundaryGate, UNITS),
        decisions={"return_gates": DECISIONS},
        statistics=STATISTICS,
    ),
    keras_seqmech.FocusedHierarchicalEncoder: Facts(
        encoder_arguments,
        (
            *BAD_GATES,
            ("lower_units", 0),
            ("gate_units", -3),
            ("unit_forget_bias", 1),
            ("return_focused", 1),
            # Where `return_sequences` is given.
            ("return_focused", True),
            ("jit_compile", "auto"),
            ("packed", None),
            ("return_sequences", 0),
            ("return_state", None),
        ),
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
