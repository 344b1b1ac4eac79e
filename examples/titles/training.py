"""Trains a classifier of titles."""

from collections.abc import Sequence
from typing import NamedTuple

import keras
import numpy as np

from examples.common import datasets
from examples.common import word_vectors
from examples.titles import encoding
from examples.titles import models
from examples.titles import truncated
from keras_seqmech import ExploreThenCommit

BATCH = 512


class Fit(NamedTuple):
    """How a classifier is trained.

    Attributes:
        epochs: Over the training titles.
        batch_size: Titles of a step.
        learning_rate: Of Adam.
        seed: Of the weights and the order of titles.
        vectors: A file of word vectors to start from.
        chunk_length: Steps of a chunk in truncated backpropagation; None for
            whole titles.
    """

    epochs: int
    batch_size: int = 64
    learning_rate: float = 2e-3
    seed: int = 0
    vectors: str | None = None
    chunk_length: int | None = None


class Trained(NamedTuple):
    """A trained classifier.

    Attributes:
        encoder: Titles to ids.
        network: Ids to logits.
        history: Of training.
        epoch: The one whose weights it has, from 0.
        settings: What it is.
        length: Steps of a title with its padding.
    """

    encoder: keras.Model
    network: keras.Model
    history: dict[str, list[float]]
    epoch: int
    settings: models.Settings
    length: int

    def probabilities(self, texts: Sequence[str | bytes]) -> np.ndarray:
        """Probability of being machine-made, of each title."""
        ids = encoding.encode(self.encoder, texts)
        logits = self.network.predict(ids, batch_size=BATCH, verbose=0)
        return np.asarray(keras.ops.sigmoid(logits[:, 0]))


def train(
    data: datasets.TextData,
    settings: models.Settings,
    fit: Fit,
    length: int,
    callbacks: Sequence[keras.callbacks.Callback] = (),
) -> Trained:
    """Trains a classifier; it keeps the weights of its best epoch.

    The best epoch is the one with the highest accuracy on validation titles; in
    truncated backpropagation, on their steps. With receptive fields it is the
    last: before, their sizes still explore.
    """
    keras.utils.clear_session()
    keras.utils.set_random_seed(fit.seed)
    encoder, matrix = inputs_of(data, settings, fit, length)
    if fit.chunk_length:
        steps, network = truncated.build_network(settings, length, matrix)
        trainee = truncated.trainable(steps, fit.chunk_length)
    else:
        trainee = network = models.build_network(settings, length, matrix)
    models.compile_network(trainee, fit.learning_rate)
    train_arrays, validation = (
        _arrays(part, encoder, settings, fit)
        for part in (data.train, data.validation)
    )
    restore = keras.callbacks.EarlyStopping(
        "val_accuracy",
        mode="max",
        patience=fit.epochs,
        restore_best_weights=True,
    )
    choose = ExploreThenCommit() if settings.field_size else restore
    history = trainee.fit(
        **train_arrays,
        validation_data=tuple(validation.values()),
        batch_size=fit.batch_size,
        epochs=fit.epochs,
        callbacks=[choose, *callbacks],
        verbose=0,
    ).history
    last = len(history["loss"]) - 1
    best = int(np.argmax(history["val_accuracy"]))
    epoch = last if settings.field_size else best
    return Trained(encoder, network, history, epoch, settings, length)


def _arrays(part, encoder, settings, fit):
    """Arguments of `fit`."""
    ids = encoding.encode(encoder, part.texts)
    if not fit.chunk_length:
        return {"x": ids, "y": part.labels}
    y, weights = truncated.targets(ids, part.labels, settings.read_padding)
    return {"x": ids, "y": y, "sample_weight": weights}


def inputs_of(
    data: datasets.TextData, settings: models.Settings, fit: Fit, length: int
) -> tuple[keras.Model, np.ndarray | None]:
    """What turns titles into ids, and starting values of the embeddings."""
    if settings.inputs == "characters":
        return encoding.make_encoder(settings.inputs, length), None
    words = encoding.vocabulary(data.train.texts)
    matrix = word_vectors.embedding_matrix(
        words, fit.vectors, settings.embedding_size, fit.seed
    )
    return encoding.make_encoder(settings.inputs, length, words), matrix


def serving_model(trained: Trained) -> keras.Model:
    """Strings in, probability and logit of being machine-made out."""
    titles = keras.Input((), dtype="string", name="title")
    ids = trained.encoder(titles)
    logit = keras.ops.squeeze(trained.network(ids), axis=-1)
    outputs = {"probability": keras.ops.sigmoid(logit), "logit": logit}
    return keras.Model({"title": titles}, outputs, name="titles")
