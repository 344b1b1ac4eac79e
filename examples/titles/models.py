"""Classifiers of titles: ids to the logit of being machine-made."""

from typing import NamedTuple

import keras
import numpy as np
from keras import ops

import keras_seqmech
from examples.titles import encoding

LAYERS = {
    "gru": keras.layers.GRU,
    "lstm": keras.layers.LSTM,
    "simple": keras.layers.SimpleRNN,
}
# Those that are learned, and what they start as.
LEARNED = {
    "learned": "zeros",
    "drawn": keras.initializers.RandomNormal(stddev=1.0),
}
READ_OUTS = {
    "last": keras_seqmech.LastPooling,
    "max": keras_seqmech.MaxPooling,
    "mean": keras_seqmech.MeanPooling,
    "concat": keras_seqmech.ConcatPooling,
    "attention": keras_seqmech.AttentionPooling,
    "max_attention": keras_seqmech.MaxAttentionPooling,
}


class Settings(NamedTuple):
    """What a classifier is.

    A step reads `"words"`, embedded, or `"characters"`, one-hot. The initial
    state is `"zeros"`; `"learned"`, which starts as zeros; or `"drawn"`,
    learned from normally distributed numbers on, as the source's.
    """

    inputs: str = "words"
    cell: str = "gru"  # One of `LAYERS`.
    layers: int = 1
    bidirectional: bool = False
    units: int = 64  # Of each layer and direction.
    initial_state: str = "zeros"
    read_out: str = "max"  # One of `READ_OUTS`.
    embedding_size: int = 256
    read_padding: bool = False  # As if real, as in the source.


def build_network(
    settings: Settings, length: int, matrix: np.ndarray | None = None
) -> keras.Model:
    """Builds a classifier of ids `(batch, length)`: logits `(batch, 1)`.

    Its layer `states` returns the states of the last recurrent layer at all
    steps, and `logit` is the last layer. `matrix` is what embeddings of words
    start from.
    """
    ids, mask, states = _states(settings, length, matrix)
    ends = {}
    if settings.read_out == "last":
        ends["bidirectional"] = settings.bidirectional
    read_out = READ_OUTS[settings.read_out](name="read_out", **ends)
    summary = read_out(states, mask=mask)
    return keras.Model(ids, _logit_layer()(summary), name="network")


def build_steps(
    settings: Settings, length: int, matrix: np.ndarray | None = None
) -> tuple[keras.Model, keras.Model]:
    """Builds a classifier that answers after every step.

    Returns one that answers at every step, `(batch, length, 1)`, 0 at padding;
    and one with the same weights that returns the last real step's logit,
    `(batch, 1)`, as `build_network` does with the read-out `last`. Settings
    must not read padding.
    """
    ids, mask, states = _states(settings, length, matrix, return_state=True)
    logits = _logit_layer()(states)
    last = keras_seqmech.LastPooling(name="read_out")(logits, mask=mask)
    # Without a mask of its own, by which Keras would weigh steps again.
    logits = ops.where(mask[:, :, None], logits, 0.0)
    return (
        keras.Model(ids, logits, name="steps"),
        keras.Model(ids, last, name="network"),
    )


def compile_network(model: keras.Model, learning_rate: float) -> None:
    """Compiles a classifier for labels 0 and 1."""
    # XLA takes about three times as long on CPU.
    model.compile(
        keras.optimizers.Adam(learning_rate, clipnorm=1.0),
        keras.losses.BinaryCrossentropy(from_logits=True),
        weighted_metrics=[
            keras.metrics.BinaryAccuracy("accuracy", threshold=0.0)
        ],
        jit_compile=False,
    )


def _states(settings, length, matrix, return_state=False):
    """Ids, their mask (None if padding is read), and all states."""
    ids = keras.Input((length,), dtype="int64", name="ids")
    mask = None if settings.read_padding else ids != encoding.PADDING
    if settings.inputs == "characters":
        x = ops.one_hot(ids, len(encoding.CHARACTERS) + 2)
    else:
        embedding = keras.layers.Embedding(*matrix.shape, name="embedding")
        x = embedding(ids)
        embedding.embeddings.assign(matrix)
    for number in range(1, settings.layers + 1):
        outputs = _recurrent_layer(settings, f"rnn_{number}", return_state)(
            x, mask=mask
        )
        x = outputs[0] if return_state else outputs
    return ids, mask, keras.layers.Identity(name="states")(x)


def _recurrent_layer(settings, name, return_state):
    layer = LAYERS[settings.cell](
        settings.units,
        return_sequences=True,
        return_state=return_state,
        name=name,
    )
    if settings.bidirectional:
        layer = keras.layers.Bidirectional(layer, name=f"{name}_both")
    if settings.initial_state != "zeros":
        layer = keras_seqmech.LearnedInitialState(
            layer,
            state_initializer=LEARNED[settings.initial_state],
            name=f"{name}_from_learned",
        )
    return layer


def _logit_layer():
    """The last layer: one number, above 0 for machine-made."""
    return keras.layers.Dense(1, dtype="float32", name="logit")
