"""Classifiers of the pooling studies, and how they are trained."""

from collections.abc import Callable
from collections.abc import Sequence
from functools import partial

import keras
import numpy as np
import tensorflow as tf
from keras import ops

import keras_seqmech
from examples.common import datasets

CLASSES = len(datasets.CLASSES["imdb"])
# What makes one vector of the states of each BiLSTM.
POOLINGS: dict[str, Callable[..., keras.layers.Layer]] = {
    "bilstm": partial(keras_seqmech.LastPooling, bidirectional=True),
    "meanpool": keras_seqmech.MeanPooling,
    "maxpool": keras_seqmech.MaxPooling,
    "att": keras_seqmech.AttentionPooling,
    "maxatt": keras_seqmech.MaxAttentionPooling,
}


def _keras_maximum(name: str) -> Callable[..., keras.KerasTensor]:
    pooling = keras.layers.GlobalMaxPooling1D(name=name)
    # The slice has no mask, for which there would be a warning.
    return lambda states, mask: pooling(states[:, :])


def _keras_attention(name: str) -> Callable[..., keras.KerasTensor]:
    last = keras_seqmech.LastPooling(bidirectional=True)
    attention = keras.layers.AdditiveAttention(name=name)

    def pool(states, mask):
        query = last(states, mask=mask)[:, None]
        return attention([query, states], mask=[None, mask])[:, 0]

    return pool


# What a Keras user writes in their place: a maximum that takes no mask, a mean,
# and additive attention whose query are the final states of both directions.
KERAS_POOLINGS = {
    "keras_max": _keras_maximum,
    "keras_mean": keras.layers.GlobalAveragePooling1D,
    "keras_att": _keras_attention,
}


def bilstm_classifier(
    name: str,
    matrix: np.ndarray,
    units: int,
    forget_bias: float = 1.0,
    masked: bool = True,
) -> keras.Model:
    """One of `POOLINGS` or `KERAS_POOLINGS`: word ids to probabilities.

    `matrix` is what embeddings start from, `forget_bias` the forget gates'
    bias. Padding is left out if `masked`.
    """
    pooling = {**POOLINGS, **KERAS_POOLINGS}[name](name="pooling")
    rnn = _bidirectional(units)
    model = connect(rnn, pooling, matrix, masked, name)
    _start_forgetting(rnn, forget_bias)
    return model


def vector_classifier(
    name: str, width: int, units: int, forget_bias: float = 1.0
) -> keras.Model:
    """One of `POOLINGS` over given vectors, which are not trained.

    Its inputs are `vectors`, `(batch, time, width)`, and `mask`, `(batch,
    time)`, which says where they are real.
    """
    vectors = keras.Input((None, width), name="vectors")
    mask = keras.Input((None,), dtype="bool", name="mask")
    pooling, rnn = POOLINGS[name](name="pooling"), _bidirectional(units)
    outputs = _read_out(rnn, pooling, vectors, mask)
    _start_forgetting(rnn, forget_bias)
    inputs = {"vectors": vectors, "mask": mask}
    return keras.Model(inputs, outputs, name=name)


def connect(
    rnn: keras.layers.Layer,
    pooling: keras.layers.Layer,
    matrix: np.ndarray,
    masked: bool = True,
    name: str | None = None,
) -> keras.Model:
    """Embedding, RNN, pooling and softmax, one after the other.

    A layer `mask` says which words are real: all, unless `masked`.
    """
    tokens = keras.Input((None,), dtype="int32", name="tokens")
    real = ops.not_equal(tokens, 0 if masked else -1)
    mask = keras.layers.Identity(name="mask")(real)
    embedding = keras.layers.Embedding(*matrix.shape, name="embedding")
    x = embedding(tokens)
    embedding.embeddings.assign(matrix)
    return keras.Model(tokens, _read_out(rnn, pooling, x, mask), name=name)


def _read_out(rnn, pooling, x, mask):
    sentence = pooling(rnn(x, mask=mask), mask=mask)
    softmax = keras.layers.Dense(
        CLASSES, activation="softmax", dtype="float32", name="classifier"
    )
    return softmax(sentence)


def _bidirectional(units):
    lstm = keras.layers.LSTM(units, return_sequences=True)
    return keras.layers.Bidirectional(lstm, name="rnn")


def _start_forgetting(rnn, bias):
    """Sets the bias of the forget gates of a built BiLSTM, others to 0."""
    gates = ("input", "forget", "cell", "output")
    values = [bias if gate == "forget" else 0.0 for gate in gates]
    for lstm in (rnn.forward_layer, rnn.backward_layer):
        lstm.cell.bias.assign(np.repeat(values, lstm.units))


def compile_classifier(model: keras.Model, learning_rate: float) -> None:
    """Compiles a model as all of the studies are trained."""
    # XLA takes about three times as long for LSTMs on CPU.
    model.compile(
        keras.optimizers.Adam(learning_rate),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
        jit_compile=False,
    )


def fit(
    model: keras.Model,
    training: tf.data.Dataset,
    validation: tf.data.Dataset,
    epochs: int,
    callbacks: Sequence[keras.callbacks.Callback] = (),
) -> dict[str, list[float]]:
    """Trains a compiled model and leaves it with the weights of its best epoch.

    That of the highest accuracy on `validation`. Returns the history.
    """
    best = keras.callbacks.EarlyStopping(
        "val_accuracy", mode="max", patience=epochs, restore_best_weights=True
    )
    return model.fit(
        training,
        validation_data=validation,
        epochs=epochs,
        callbacks=[*callbacks, best],
        shuffle=False,
        verbose=2,
    ).history


def accuracy(model: keras.Model, batches: tf.data.Dataset) -> float:
    """Share of sequences whose most probable class is right."""
    right = count = 0
    for inputs, labels in batches.as_numpy_iterator():
        found = np.argmax(model.predict_on_batch(inputs), axis=-1)
        right += (found == labels).sum()
        count += len(labels)
    return float(right / count)
