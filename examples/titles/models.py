"""Classifiers of titles: ids to the logit of being machine-made."""

from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf
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

    `matrix` is what embeddings of words start from.
    """
    ids, mask, states = _states(settings, length, matrix)
    ends = {}
    if settings.read_out == "last":
        ends["bidirectional"] = settings.bidirectional
    read_out = READ_OUTS[settings.read_out](name="read_out", **ends)
    summary = read_out(states, mask=mask)
    return keras.Model(ids, _logit_layer()(summary), name="network")


class Chunks(keras.Model):
    """Trains a classifier on one chunk of time after the other.

    A chunk starts from the state at the end of the one before, but no gradient
    goes back to it. Every chunk makes an optimizer step. `chunk` is a model
    from ids `(batch, steps)` and a state to logits and the state at the end.
    """

    def __init__(self, chunk: keras.Model, chunk_length: int):
        super().__init__()
        self.chunk = chunk
        self.chunk_length = chunk_length

    def call(self, ids: tf.Tensor, training: bool = False) -> tf.Tensor:
        logits, _ = self.chunk([ids, self._start(ids)], training=training)
        return logits

    def train_step(self, data: tuple) -> dict:
        state = self._start(data[0])
        for start in range(0, data[0].shape[1], self.chunk_length):
            ids, y, weights = (
                x[:, start : start + self.chunk_length] for x in data
            )
            with tf.GradientTape() as tape:
                logits, state = self.chunk([ids, state], training=True)
                loss = self.compute_loss(ids, y, logits, weights)
            variables = self.trainable_variables
            self.optimizer.apply(tape.gradient(loss, variables), variables)
            self.compute_metrics(ids, y, logits, weights)
        return {**self.get_metrics_result(), "loss": loss}

    def _start(self, ids: tf.Tensor) -> tf.Tensor:
        _, state = self.chunk.input
        return tf.zeros((tf.shape(ids)[0], state.shape[1]))


def build_chunks(
    settings: Settings, length: int, chunk_length: int
) -> tuple[Chunks, keras.Model]:
    """A classifier of characters, of one GRU, that answers after every step.

    Returns the model to train, whose answers, `(batch, length, 1)`, are 0 at
    padding; and one with the same weights that returns the last real step's
    logit, as `build_network` does with the read-out `last`.
    """
    gru = keras.layers.GRU(
        settings.units, return_sequences=True, return_state=True, name="rnn_1"
    )
    logit = _logit_layer()
    ids = keras.Input((None,), dtype="int64", name="ids")
    state = keras.Input((settings.units,), name="state")
    mask, x = _read(settings, ids)
    states, end = gru(x, mask=mask, initial_state=state)
    # Without a mask of its own, by which Keras would weigh steps again.
    logits = ops.where(mask[:, :, None], logit(states), 0.0)
    chunk = keras.Model([ids, state], [logits, end])

    ids = keras.Input((length,), dtype="int64", name="ids")
    mask, x = _read(settings, ids)
    states, _ = gru(x, mask=mask)
    last = keras_seqmech.LastPooling(name="read_out")(states, mask=mask)
    network = keras.Model(ids, logit(last), name="network")
    return Chunks(chunk, chunk_length), network


def compile_network(model: keras.Model, learning_rate: float) -> None:
    """Compiles a classifier for labels 0 and 1."""
    accuracy = keras.metrics.BinaryAccuracy("accuracy", threshold=0.0)
    # XLA takes about three times as long on CPU.
    model.compile(
        keras.optimizers.Adam(learning_rate, clipnorm=1.0),
        keras.losses.BinaryCrossentropy(from_logits=True),
        weighted_metrics=[accuracy],
        jit_compile=False,
    )


def _states(settings, length, matrix):
    """Ids, their mask (None if padding is read), and all states."""
    ids = keras.Input((length,), dtype="int64", name="ids")
    mask, x = _read(settings, ids, matrix)
    for number in range(1, settings.layers + 1):
        x = _recurrent_layer(settings, f"rnn_{number}")(x, mask=mask)
    return ids, mask, keras.layers.Identity(name="states")(x)


def _read(settings, ids, matrix=None):
    """The mask of ids, and the vectors that they stand for."""
    mask = None if settings.read_padding else ids != encoding.PADDING
    if settings.inputs == "characters":
        return mask, ops.one_hot(ids, len(encoding.CHARACTERS) + 2)
    embedding = keras.layers.Embedding(*matrix.shape, name="embedding")
    x = embedding(ids)
    embedding.embeddings.assign(matrix)
    return mask, x


def _recurrent_layer(settings, name):
    layer = LAYERS[settings.cell](
        settings.units, return_sequences=True, name=name
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
