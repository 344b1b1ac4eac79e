"""Trains a classifier of titles."""

from typing import NamedTuple

import keras
import numpy as np

from examples.common import datasets
from examples.common import word_vectors
from examples.titles import encoding
from examples.titles import models

BATCH = 512


class Fit(NamedTuple):
    """How a classifier is trained."""

    epochs: int
    batch_size: int
    seed: int  # Of weights and order.
    learning_rate: float = 2e-3  # Of Adam.
    chunk_length: int | None = None  # None: whole titles.


class Trained(NamedTuple):
    """A trained classifier."""

    encoder: keras.layers.Layer  # Titles to ids.
    network: keras.Model  # Ids to logits.
    history: dict[str, list[float]]
    epoch: int  # That of the weights, from 0.
    settings: models.Settings
    length: int  # Steps of a title, padding too.

    def probabilities(self, texts: list[str | bytes]) -> np.ndarray:
        """Probability of being machine-made, of each title."""
        ids = encoding.encode(self.encoder, texts)
        logits = self.network.predict(ids, batch_size=BATCH, verbose=0)
        return np.asarray(keras.ops.sigmoid(logits[:, 0]))


def train(
    data: datasets.TextData, settings: models.Settings, fit: Fit, length: int
) -> Trained:
    """Trains a classifier; it keeps the weights of its best epoch.

    The best epoch is the one with the highest accuracy on validation titles; in
    truncated backpropagation, on their steps.
    """
    keras.utils.clear_session()
    keras.utils.set_random_seed(fit.seed)
    words = matrix = None
    if settings.inputs == "words":
        words = encoding.vocabulary(data.train.texts)
        matrix = word_vectors.embedding_matrix(
            words, None, settings.embedding_size, fit.seed
        )
    encoder = encoding.make_encoder(length, words)
    if fit.chunk_length:
        trainee, network = models.build_chunks(
            settings, length, fit.chunk_length
        )
    else:
        trainee = network = models.build_network(settings, length, matrix)
    models.compile_network(trainee, fit.learning_rate)
    train_arrays, validation = (
        _arrays(part, encoder, fit) for part in (data.train, data.validation)
    )
    best = {"mode": "max", "restore_best_weights": True}
    restore = keras.callbacks.EarlyStopping(
        "val_accuracy", patience=fit.epochs, **best
    )
    history = trainee.fit(
        **train_arrays,
        validation_data=tuple(validation.values()),
        batch_size=fit.batch_size,
        epochs=fit.epochs,
        callbacks=[restore],
        verbose=2,
    ).history
    epoch = int(np.argmax(history["val_accuracy"]))
    return Trained(encoder, network, history, epoch, settings, length)


def _arrays(part, encoder, fit):
    """Arguments of `fit`."""
    ids = encoding.encode(encoder, part.texts)
    if not fit.chunk_length:
        return {"x": ids, "y": part.labels}
    y, weights = step_targets(ids, part.labels)
    return {"x": ids, "y": y, "sample_weight": weights}


def step_targets(
    ids: np.ndarray, labels: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Labels and weights of all steps, as every chunk needs targets.

    The target of a step is its title's label, `(batch, length, 1)`. Weights
    `(batch, length)` are the same at all real steps of a title, 0 at padding,
    and have the mean 1 over the steps of a title.

    >>> y, weights = step_targets(np.array([[5, 3, 0, 0]]), np.array([1]))
    >>> weights.tolist(), y[0, :, 0].tolist()
    ([[2.0, 2.0, 0.0, 0.0]], [1.0, 1.0, 1.0, 1.0])
    """
    real = (ids != encoding.PADDING).astype("float32")
    counts = np.maximum(real.sum(axis=1, keepdims=True), 1)
    steps = np.repeat(labels[:, None], ids.shape[1], axis=1)
    return steps[:, :, None].astype("float32"), real * ids.shape[1] / counts


def serving_model(trained: Trained) -> keras.Model:
    """Strings in, probability and logit of being machine-made out."""
    titles = keras.Input((), dtype="string", name="title")
    ids = trained.encoder(titles)
    logit = keras.ops.squeeze(trained.network(ids), axis=-1)
    outputs = {"probability": keras.ops.sigmoid(logit), "logit": logit}
    return keras.Model({"title": titles}, outputs, name="titles")
