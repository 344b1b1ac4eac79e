"""Pointer softmax."""

import keras
import numpy as np
from keras import ops

import keras_seqmech
from tests.conformance.registry.entry import TIME
from tests.conformance.registry.entry import Argument
from tests.conformance.registry.entry import Entry
from tests.conformance.registry.entry import Facts

QUERY, FEATURES, STEPS = 5, 3, 2
WORDS, EXTRA = 4, 2
SEQUENCE = Argument("sequence", (None, FEATURES), mask="sequence_mask")
QUERIES = Argument("query", (QUERY,))
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


class Reading:
    """A pointer softmax that is called with what has a time axis first."""

    def __init__(self, layer):
        self.layer = layer

    def __getattr__(self, name):
        return getattr(self.layer, name)

    def __call__(self, sequence, query, token_ids=None, sequence_mask=None):
        if token_ids is not None:
            token_ids = ops.cast(token_ids, "int32")
        outputs = self.layer(
            query, sequence, sequence_mask=sequence_mask, token_ids=token_ids
        )
        decisions = {}
        if self.layer.return_attention_scores:
            outputs, decisions = outputs
        if token_ids is not None:
            named = {"words": outputs}
        else:  # Positions have a time axis, words have none.
            count = self.layer.vocabulary_size
            named = {
                "words": outputs[..., :count],
                "positions": outputs[..., count:],
            }
        return [{**named, **decisions}]


def pointer(id, arguments, core=False, **options):
    def make(**overrides):
        return keras_seqmech.PointerSoftmax(WORDS, **{**options, **overrides})

    return Entry(
        f"PointerSoftmax-{id}",
        make,
        (SEQUENCE, *arguments),
        WEIGHTS,
        wrap=Reading,
        draws=False,
        # Without a position to point to, all is for the vocabulary.
        states=("words", "switch"),
        core=core,
        golden=core,
    )


ENTRIES = [
    pointer(
        "words",
        (QUERIES, TOKEN_IDS),
        core=True,
        extra_words=EXTRA,
        return_attention_scores=True,
    ),
    pointer("positions", (QUERIES,), core=True),
    pointer(
        "steps",
        (Argument("query", (STEPS, QUERY)), TOKEN_IDS),
        units=6,
        extra_words=EXTRA,
    ),
]


def call(
    query=(2, QUERY),
    sequence=(2, TIME, FEATURES),
    mask=None,
    token_ids=None,
    dtype="int32",
    wrong=None,
    **options,
):
    layer = keras_seqmech.PointerSoftmax(WORDS, **options)
    if mask is not None:
        mask = np.ones(mask, "bool")
    if token_ids is not None:
        token_ids = np.zeros(token_ids, dtype)
    return layer(
        keras.Input(batch_shape=query),
        keras.Input(batch_shape=sequence),
        sequence_mask=mask,
        token_ids=token_ids,
        mask=wrong,
    )


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
            ("query.shape", lambda: call((2,))),
            ("query.shape", lambda: call((2, 3, 4, QUERY))),
            ("query.shape", lambda: call((2, None))),
            ("query.shape", lambda: call((3, QUERY))),
            ("sequence.shape", lambda: call(sequence=(2, FEATURES))),
            ("sequence.shape", lambda: call(sequence=(2, 0, FEATURES))),
            ("sequence.shape", lambda: call(sequence=(2, TIME, None))),
            ("sequence_mask.shape", lambda: call(mask=(2, TIME - 1))),
            ("sequence_mask.shape", lambda: call(mask=(2, TIME, 1))),
            ("token_ids.shape", lambda: call(token_ids=(2, TIME + 1))),
            ("token_ids.shape", lambda: call(token_ids=(2,))),
            (
                "token_ids.dtype",
                lambda: call(token_ids=(2, TIME), dtype="float32"),
            ),
            ("token_ids", lambda: call(extra_words=1)),
            ("mask", lambda: call(wrong=np.ones((2, TIME), "bool"))),
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
