"""Truncated backpropagation: a classifier that answers after every step.

`TruncatedBackpropagationModel` trains on one chunk of steps after the other, so
every chunk needs targets: the classifier answers at each step of a title, with
the title's label as the target of all of its real steps. Each has the same
weight in a title, and each title as much as any other. The last real step's
answer is the title's, so what is trained is the read-out `last`.
"""

import keras
import numpy as np
from keras import ops

import keras_seqmech
from examples.titles import encoding
from examples.titles import models
from keras_seqmech import TruncatedBackpropagationModel


def build_network(
    settings: models.Settings, length: int, matrix: np.ndarray | None = None
) -> tuple[keras.Model, keras.Model]:
    """Builds a classifier of ids `(batch, length)`.

    Returns:
        The classifier that answers at every step, `(batch, length, 1)`, 0 at
        padding; and one with the same weights that returns the last real step's
        logit, `(batch, 1)`, as `models.build_network` does.
    """
    if settings.read_out != "last" or settings.bidirectional:
        raise ValueError(
            "Truncated backpropagation needs the read-out `last` and one "
            f"direction. Received: settings={settings!r}"
        )
    ids = keras.Input((length,), dtype="int64", name="ids")
    mask = models.real_steps(settings, ids)
    x = models.embed(settings, ids, matrix)
    states = models.recurrent_states(settings, x, mask, return_state=True)
    if settings.dropout:
        states = keras.layers.Dropout(settings.dropout)(states)
    logits = models.logit_layer()(states)
    last = keras_seqmech.LastPooling(name="read_out")(logits, mask=mask)
    if mask is not None:
        # Without a mask of its own, by which Keras would weigh steps again.
        logits = ops.where(mask[:, :, None], logits, 0.0)
    return (
        keras.Model(ids, logits, name="steps"),
        keras.Model(ids, last, name="network"),
    )


def trainable(steps: keras.Model, chunk_length: int) -> keras.Model:
    """Trains the classifier of all steps by chunks."""
    return TruncatedBackpropagationModel(steps, chunk_length=chunk_length)


def targets(
    ids: np.ndarray, labels: np.ndarray, read_padding: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Labels and weights of all steps.

    Returns:
        Labels `(batch, length, 1)`, and weights `(batch, length)` that are the
        same at all real steps of a title, 0 at padding, and have the mean 1
        over the steps of a title.

    >>> y, weights = targets(np.array([[5, 3, 0, 0]]), np.array([1]))
    >>> weights.tolist(), y[0, :, 0].tolist()
    ([[2.0, 2.0, 0.0, 0.0]], [1.0, 1.0, 1.0, 1.0])
    """
    real = (ids != encoding.PADDING) | read_padding
    real = real.astype("float32")
    counts = np.maximum(real.sum(axis=1, keepdims=True), 1)
    steps = np.repeat(labels[:, None], ids.shape[1], axis=1)
    return steps[:, :, None].astype("float32"), real * ids.shape[1] / counts
