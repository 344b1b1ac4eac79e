"""Pointer softmax."""

import keras
import numpy as np
from keras import ops

import keras_seqmech
from tests.conformance.registry.entry import TIME
from tests.conformance.registry.entry import Argument
from tests.conformance.registry.entry import Entry
from tests.conformance.registry.entry import Facts
from tests.conformance.registry.entry import maker

QUERY, FEATURES, STEPS = 5, 3, 2
WORDS, EXTRA = 4, 2
SEQUENCE = Argument("sequence", (None, FEATURES), mask="sequence_mask")
# One axis more is that of the steps.
QUERIES = Argument("query", (QUERY,), above=(1, 1))
# Floats here, as all of the registry's arguments; one is no word's.
TOKEN_IDS = Argument(
    "token_ids",
    (None,),
    mask="sequence_mask",
    draw=lambda generator, shape: generator.integers(-1, WORDS + EXTRA, shape),
)
WEIGHTS = (
    "query_kernel",
    "sequence_kernel",
    "attention_bias",
    "attention_kernel",
    "switch_kernel",
    "switch_bias",
    "vocabulary_kernel",
    "vocabulary_bias",
)


def with_integers(inputs, masks):
    if "token_ids" not in inputs:
        return inputs
    return {**inputs, "token_ids": ops.cast(inputs["token_ids"], "int32")}


def name_words(outputs):
    words, decisions = outputs if isinstance(outputs, tuple) else (outputs, {})
    return [{"words": words, **decisions}]


def name_positions(outputs):
    """Positions have a time axis, words have none."""
    (named,) = name_words(outputs)
    both = named["words"]
    words, positions = both[..., :WORDS], both[..., WORDS:]
    return [{**named, "words": words, "positions": positions}]


def pointer(id, *arguments, core=False, name=name_words, **options):
    return Entry(
        f"PointerSoftmax-{id}",
        maker(keras_seqmech.PointerSoftmax, vocabulary_size=WORDS, **options),
        arguments,
        WEIGHTS,
        prepare=with_integers,
        name=name,
        draws=False,
        # Without a position to point to, all is for the vocabulary.
        states=("words", "switch"),
        core=core,
        golden=core,
    )


ENTRIES = [
    pointer(
        "words",
        QUERIES,
        SEQUENCE,
        TOKEN_IDS,
        core=True,
        extra_words=EXTRA,
        return_attention_scores=True,
    ),
    pointer("positions", QUERIES, SEQUENCE, core=True, name=name_positions),
    pointer(
        "steps",
        Argument("query", (STEPS, QUERY)),
        SEQUENCE,
        TOKEN_IDS,
        units=6,
        extra_words=EXTRA,
    ),
]


def call(shape=(2, TIME), dtype="int32", extra_words=0, mask=None):
    layer = keras_seqmech.PointerSoftmax(WORDS, extra_words=extra_words)
    return layer(
        keras.Input(batch_shape=(2, QUERY)),
        keras.Input(batch_shape=(2, TIME, FEATURES)),
        token_ids=np.zeros(shape, dtype),
        mask=mask,
    )


def call_without_ids():
    layer = keras_seqmech.PointerSoftmax(WORDS, extra_words=1)
    layer(np.ones((2, QUERY)), np.ones((2, TIME, FEATURES)))


FACTS = {
    keras_seqmech.PointerSoftmax: Facts(
        lambda: {
            "vocabulary_size": 6,
            "units": 3,
            "extra_words": 2,
            "kernel_initializer": keras.initializers.HeNormal(),
            "kernel_regularizer": keras.regularizers.L2(0.25),
            "return_attention_scores": True,
        },
        (
            ("vocabulary_size", 0),
            ("vocabulary_size", 2.5),
            ("vocabulary_size", None),
            ("units", 0),
            ("units", "many"),
            ("extra_words", -1),
            ("extra_words", False),
            ("extra_words", 1.0),
            ("return_attention_scores", None),
        ),
        (
            # Of the way without ids, all other shapes are tried.
            ("token_ids.shape", lambda: call((2, TIME + 1))),
            ("token_ids.shape", lambda: call((2,))),
            ("token_ids.dtype", lambda: call(dtype="float32")),
            ("token_ids", call_without_ids),
            ("mask", lambda: call(mask=np.ones((2, TIME), "bool"))),
        ),
        decisions={
            "return_attention_scores": (
                "attention_scores",
                "switch",
                "words",
            )
        },
    )
}
