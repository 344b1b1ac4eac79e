"""Classifiers of the pooling studies, and how they are trained."""

from collections.abc import Sequence
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf
from keras import ops

import keras_seqmech
from examples.pooling import noisy_texts

# `bilstm_lowf` starts without a forget bias.
BILSTMS = ("bilstm", "bilstm_lowf", "meanpool", "maxpool", "att", "maxatt")


def bilstm_classifier(
    name: str,
    matrix: np.ndarray,
    classes: int,
    units: int,
    forget_bias: float = 1.0,
) -> keras.Model:
    """Builds one of `BILSTMS`: word ids `(batch, time)` to probabilities.

    Args:
        name: Of the model.
        matrix: Starting values of embeddings.
        classes: Number of classes.
        units: Of each direction.
        forget_bias: Starting value of the forget gates' bias, 1 in Keras; not
            of `bilstm_lowf`, where it is 0.
    """
    layer = pooling_layer(name)
    rnn = bidirectional(units)
    graph = connect(rnn, layer, matrix, classes)
    start_forgetting(rnn, 0.0 if name == "bilstm_lowf" else forget_bias)
    return keras.Model(graph.tokens, graph.outputs, name=name)


def vector_classifier(
    name: str,
    width: int,
    classes: int,
    units: int,
    forget_bias: float = 1.0,
) -> keras.Model:
    """Builds one of `BILSTMS` over given vectors, which are not trained.

    Its inputs are `vectors`, `(batch, time, width)`, and `mask`, `(batch,
    time)`, which says where they are real.

    Args:
        name: Of the model.
        width: Of a vector.
        classes: Number of classes.
        units: Of each direction.
        forget_bias: As in `bilstm_classifier`.
    """
    vectors = keras.Input((None, width), name="vectors")
    mask = keras.Input((None,), dtype="bool", name="mask")
    layer = pooling_layer(name)
    rnn = bidirectional(units)
    _, outputs = read_out(rnn, layer, vectors, mask, classes)
    start_forgetting(rnn, 0.0 if name == "bilstm_lowf" else forget_bias)
    inputs = {"vectors": vectors, "mask": mask}
    return keras.Model(inputs, outputs, name=name)


def pooling_layer(name: str) -> keras.layers.Layer:
    """The layer that makes one vector of the states of one of `BILSTMS`."""
    pooling = {
        "meanpool": keras_seqmech.MeanPooling,
        "maxpool": keras_seqmech.MaxPooling,
        "att": keras_seqmech.AttentionPooling,
        "maxatt": keras_seqmech.MaxAttentionPooling,
    }
    if name in pooling:
        return pooling[name](name="pooling")
    return keras_seqmech.LastPooling(bidirectional=True, name="pooling")


def bidirectional(units: int) -> keras.layers.Bidirectional:
    """A BiLSTM that returns all states."""
    return keras.layers.Bidirectional(
        keras.layers.LSTM(units, return_sequences=True), name="rnn"
    )


def start_forgetting(rnn: keras.layers.Bidirectional, bias: float) -> None:
    """Sets the bias of the forget gates of a built BiLSTM, others to 0."""
    gates = ("input", "forget", "cell", "output")
    values = [bias if gate == "forget" else 0.0 for gate in gates]
    for lstm in (rnn.forward_layer, rnn.backward_layer):
        lstm.cell.bias.assign(np.repeat(values, lstm.units))


class Graph(NamedTuple):
    """Symbolic tensors: ids, where they are real, embedding, probabilities."""

    tokens: keras.KerasTensor
    mask: keras.KerasTensor
    sentence: keras.KerasTensor
    outputs: keras.KerasTensor


def connect(
    rnn: keras.layers.Layer,
    pooling: keras.layers.Layer,
    matrix: np.ndarray,
    classes: int,
) -> Graph:
    """Embedding, RNN, pooling and softmax, one after the other."""
    tokens = keras.Input((None,), dtype="int32", name="tokens")
    mask = ops.not_equal(tokens, 0)
    embedding = keras.layers.Embedding(*matrix.shape, name="embedding")
    x = embedding(tokens)
    embedding.embeddings.assign(matrix)
    sentence, outputs = read_out(rnn, pooling, x, mask, classes)
    return Graph(tokens, mask, sentence, outputs)


def read_out(
    rnn: keras.layers.Layer,
    pooling: keras.layers.Layer,
    x: keras.KerasTensor,
    mask: keras.KerasTensor,
    classes: int,
) -> tuple[keras.KerasTensor, keras.KerasTensor]:
    """RNN, pooling and softmax over vectors: sentence and probabilities."""
    sentence = pooling(rnn(x, mask=mask), mask=mask)
    outputs = keras.layers.Dense(
        classes, activation="softmax", dtype="float32", name="classifier"
    )(sentence)
    return sentence, outputs


def compile_classifier(
    model: keras.Model,
    learning_rate: float,
    loss: str | None = "sparse_categorical_crossentropy",
) -> None:
    """Compiles a model as all of the studies are trained."""
    # XLA takes about three times as long for LSTMs on CPU.
    model.compile(
        keras.optimizers.Adam(learning_rate),
        loss=loss,
        metrics=["accuracy"],
        jit_compile=False,
    )


def fit(
    model: keras.Model,
    data: noisy_texts.StudyData,
    seed: int,
    epochs: int,
    batch_size: int,
    patience: int | None = None,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    monitor: str = "val_accuracy",
) -> dict[str, list[float]]:
    """Trains a compiled model and leaves it with the weights of its best epoch.

    Args:
        model: A compiled classifier.
        data: What it is trained on and validated by.
        seed: Of the order of texts.
        epochs: The most there are.
        batch_size: In training and validation.
        patience: Epochs without a better one after which training ends;
            never before the last if None.
        callbacks: More callbacks.
        monitor: The value that picks the best epoch.

    Returns:
        The history.
    """
    order = np.random.default_rng([seed, 2])
    return fit_batches(
        model,
        noisy_texts.batches(data.train, batch_size, order),
        noisy_texts.batches(data.validation, batch_size),
        epochs,
        patience,
        callbacks,
        monitor,
    )


def fit_batches(
    model: keras.Model,
    training: tf.data.Dataset,
    validation: tf.data.Dataset,
    epochs: int,
    patience: int | None = None,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    monitor: str = "val_accuracy",
) -> dict[str, list[float]]:
    """As `fit`, of batches that are in order already."""
    best = keras.callbacks.EarlyStopping(
        monitor,
        mode="max",
        patience=epochs if patience is None else patience,
        restore_best_weights=True,
    )
    return model.fit(
        training,
        validation_data=validation,
        epochs=epochs,
        callbacks=[*callbacks, best],
        shuffle=False,  # Batches are shuffled already.
        verbose=0,
    ).history


def accuracy(model: keras.Model, texts: noisy_texts.Texts) -> float:
    """Share of texts whose most probable class is right."""
    return share_right(model, noisy_texts.batches(texts, 64))


def share_right(model: keras.Model, batches: tf.data.Dataset) -> float:
    """As `accuracy`, of batches `(inputs, labels)`."""
    right = count = 0
    for inputs, labels in batches.as_numpy_iterator():
        found = np.argmax(model.predict_on_batch(inputs), axis=-1)
        right += (found == labels).sum()
        count += len(labels)
    return float(right / count)
