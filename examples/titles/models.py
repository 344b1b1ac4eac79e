"""Classifiers of titles: ids to the logit of being machine-made."""

import keras
import numpy as np
from keras import ops

import keras_seqmech
from examples.titles import encoding
from examples.titles.classifiers import Settings

INPUTS = ("characters", "words")
CELLS = {
    "gru": keras.layers.GRUCell,
    "lstm": keras.layers.LSTMCell,
    "simple": keras.layers.SimpleRNNCell,
}
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
INITIAL_STATES = ("zeros", *LEARNED)
READ_OUTS = ("last", "max", "mean", "concat", "attention", "max_attention")


def build_network(
    settings: Settings, length: int, matrix: np.ndarray | None = None
) -> keras.Model:
    """Builds a classifier of ids `(batch, length)`: logits `(batch, 1)`.

    Args:
        settings: What it is.
        length: Steps of a title with its padding.
        matrix: Starting values of the embeddings `(ids, size)`, for words.

    Its layer `states` returns the states of the last recurrent layer at all
    steps, and `logit` is the last layer.
    """
    ids = keras.Input((length,), dtype="int64", name="ids")
    mask = real_steps(settings, ids)
    states = recurrent_states(settings, embed(settings, ids, matrix), mask)
    summary = read_out(settings)(states, mask=mask)
    if settings.dropout:
        summary = keras.layers.Dropout(settings.dropout)(summary)
    return keras.Model(ids, logit_layer()(summary), name="network")


def real_steps(
    settings: Settings, ids: keras.KerasTensor
) -> keras.KerasTensor | None:
    """The mask of a title's steps; None if padding is to be read."""
    return None if settings.read_padding else ids != encoding.PADDING


def embed(
    settings: Settings, ids: keras.KerasTensor, matrix: np.ndarray | None
) -> keras.KerasTensor:
    """One-hot characters or embedded words, `(batch, time, features)`."""
    if settings.inputs == "characters":
        return ops.one_hot(ids, len(encoding.CHARACTERS) + 2)
    embedding = keras.layers.Embedding(*matrix.shape, name="embedding")
    x = embedding(ids)
    embedding.embeddings.assign(matrix)
    return x


def recurrent_states(
    settings: Settings,
    x: keras.KerasTensor,
    mask: keras.KerasTensor | None,
    return_state: bool = False,
) -> keras.KerasTensor:
    """States of the last of the recurrent layers, at all steps."""
    for number in range(1, settings.layers + 1):
        rnn = recurrent_layer(settings, f"rnn_{number}", return_state)
        outputs = rnn(x, mask=mask)
        x = outputs[0] if return_state else outputs
    return keras.layers.Identity(name="states")(x)


def recurrent_layer(
    settings: Settings, name: str, return_state: bool
) -> keras.layers.Layer:
    """One recurrent layer."""
    returns = {"return_sequences": True, "return_state": return_state}
    if settings.field_size:
        layer = keras_seqmech.ReceptiveFieldRNN(
            CELLS[settings.cell](settings.units),
            max_size=settings.field_size,
            jit_compile=True,
            name=name,
            **returns,
        )
    else:
        layer = LAYERS[settings.cell](settings.units, name=name, **returns)
    if settings.bidirectional:
        layer = keras.layers.Bidirectional(layer, name=f"{name}_both")
    if settings.initial_state != "zeros":
        layer = keras_seqmech.LearnedInitialState(
            layer,
            state_initializer=LEARNED[settings.initial_state],
            name=f"{name}_from_learned",
        )
    return layer


def read_out(settings: Settings) -> keras.layers.Layer:
    """The layer that makes one vector of all states."""
    name = "read_out"
    both = settings.bidirectional
    if settings.read_out == "last":
        return keras_seqmech.LastPooling(bidirectional=both, name=name)
    if settings.read_out == "concat":
        return keras_seqmech.ConcatPooling(bidirectional=both, name=name)
    return {
        "max": keras_seqmech.MaxPooling,
        "mean": keras_seqmech.MeanPooling,
        "attention": keras_seqmech.AttentionPooling,
        "max_attention": keras_seqmech.MaxAttentionPooling,
    }[settings.read_out](name=name)


def logit_layer() -> keras.layers.Layer:
    """The last layer: one number, above 0 for machine-made."""
    return keras.layers.Dense(1, dtype="float32", name="logit")


def compile_network(model: keras.Model, learning_rate: float) -> None:
    """Compiles a classifier for labels 0 and 1."""
    # XLA takes about three times as long for plain layers on CPU; a receptive
    # field's loop is compiled on its own.
    model.compile(
        keras.optimizers.Adam(learning_rate, clipnorm=1.0),
        keras.losses.BinaryCrossentropy(from_logits=True),
        weighted_metrics=[
            keras.metrics.BinaryAccuracy("accuracy", threshold=0.0)
        ],
        jit_compile=False,
    )
