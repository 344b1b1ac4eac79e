"""Pointer softmax."""

import keras
import numpy as np

import keras_seqmech
from tests.conformance.registry.entry import TIME
from tests.conformance.registry.entry import Argument
from tests.conformance.registry.entry import Around
from tests.conformance.registry.entry import Entry
from tests.conformance.registry.entry import Facts
from tests.conformance.registry.entry import maker

QUERY, FEATURES, STEPS = 5, 3, 2
WORDS, EXTRA = 4, 2
SEQUENCE = Argument("sequence", (None, FEATURES))
QUERIES = Argument("query", (QUERY,))
# One is no word's.
TOKEN_IDS = Argument(
    "token_ids",
    (None,),
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


class SplitOutput(Around):
    """Probabilities of words, and those of positions, which have time."""

    def call(self, query, sequence, sequence_mask=None):
        (layer,) = self.parts
        outputs = layer(query, sequence, sequence_mask=sequence_mask)
        both, *more = outputs if isinstance(outputs, tuple) else [outputs]
        return both[..., :WORDS], both[..., WORDS:], *more


def split_output(layer):
    return SplitOutput(layer)


def pointer(id, *arguments, core=False, wrap=lambda layer: layer, **options):
    return Entry(
        f"PointerSoftmax-{id}",
        maker(keras_seqmech.PointerSoftmax, vocabulary_size=WORDS, **options),
        arguments,
        WEIGHTS,
        wrap=wrap,
        draws=False,
        wide=("output_0", "output_1"),
        # Without a position to point to, all is for the vocabulary.
        nonzero=("output_0", "switch"),
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
    pointer("positions", QUERIES, SEQUENCE, core=True, wrap=split_output),
]


def call(shape=(2, TIME), dtype="int32", extra_words=0):
    layer = keras_seqmech.PointerSoftmax(WORDS, extra_words=extra_words)
    return layer(
        keras.Input(batch_shape=(2, QUERY)),
        keras.Input(batch_shape=(2, TIME, FEATURES)),
        token_ids=np.zeros(shape, dtype),
    )


def call_without_ids():
    layer = keras_seqmech.PointerSoftmax(WORDS, extra_words=1)
    layer(np.ones((2, QUERY)), np.ones((2, TIME, FEATURES)))


FACTS = {
    keras_seqmech.PointerSoftmax: Facts(
        lambda: {"vocabulary_size": 6, "units": 3, "extra_words": 2},
        (
            ("vocabulary_size", 0),
            ("vocabulary_size", None),
            ("units", 0),
        ),
        (
            # Of the way without ids, all other shapes are tried.
            ("token_ids.shape", lambda: call((2, TIME + 1))),
            ("token_ids.shape", lambda: call((2,))),
            ("token_ids.dtype", lambda: call(dtype="float32")),
            ("token_ids", call_without_ids),
        ),
        decisions={"return_attention_scores": ("attention_scores", "switch")},
    )
}
