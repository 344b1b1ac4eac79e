"""Data and models for skipping steps: the adding problem, and long reviews."""

import argparse
from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from examples.common import datasets
from examples.common import text_encoding
from examples.focused.models import gates_of
from keras_seqmech import FocusedHierarchicalEncoder
from keras_seqmech import PolicyGradientModel
from keras_seqmech.tasks import adding

DATA = ("adding", "imdb")
MODELS = ("lstm", "focused")
ESTIMATORS = ("relaxed", "straight_through", "reinforce")
# The most frequent ones.
WORDS = 10_000


class Data(NamedTuple):
    """Sequences and answers, `(x, y)` of each part; answers are `(N, 1)`.

    Sequences are floats `(N, T, 2)`, or ints `(N, T)` of words, of which there
    are `words`, with zeros after the last one.
    """

    train: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]
    words: int = 0


def load(args: argparse.Namespace) -> Data:
    """Numbers to add, or the first words of reviews."""
    if args.data == "adding":
        return Data(
            adding.examples(args.train_size, args.length, seed=0),
            adding.examples(args.test_size, args.length, seed=1),
        )
    sizes = (args.train_size, args.test_size)
    train, test = (
        (ids, labels[:, np.newaxis].astype("float32"))
        for ids, labels in text_encoding.frequent_words(
            datasets.load("imdb", args.data_dir), sizes, args.length, WORDS
        )
    )
    return Data(train, test, WORDS)


def build(
    name: str, estimator: str, data: Data, args: argparse.Namespace
) -> keras.Model:
    """A compiled model of one number: the sum, or the logit of "positive".

    The learning rate falls to 0.

    Args:
        name: One of `MODELS`.
        estimator: Of the gates of "focused".
        data: What it is for.
        args: Of the command line.
    """
    layers = keras.layers
    sequences, _ = data.train
    x = keras.Input((None, *sequences.shape[2:]), dtype=sequences.dtype)
    steps, mask = x, None
    if data.words:
        mask = ops.not_equal(x, 0)
        steps = layers.Embedding(data.words, args.units, name="words")(x)
        steps = layers.Dropout(args.dropout)(steps)
    if name == "lstm":
        state = layers.LSTM(args.units, name="lstm")(steps, mask=mask)
    else:
        state, *_ = FocusedHierarchicalEncoder(
            args.units,
            lower_units=args.lower_units,
            estimator=estimator,
            return_gates=True,
            track_statistics=True,
            name="encoder",
        )(steps, learned_context(steps, args.lower_units), sequence_mask=mask)
    if data.words:
        state = layers.Dropout(args.dropout)(state)
    model = keras.Model(x, layers.Dense(1, name="answer")(state))
    if name == "focused" and estimator == "reinforce":
        model = PolicyGradientModel(model)
    steps_per_epoch = -(-len(sequences) // args.batch_size)
    rate = keras.optimizers.schedules.CosineDecay(
        args.learning_rate, steps_per_epoch * args.epochs
    )
    model.compile(
        keras.optimizers.Adam(rate, global_clipnorm=args.clip_norm),
        keras.losses.BinaryCrossentropy(from_logits=True)
        if data.words
        else keras.losses.MeanSquaredError(),
    )
    return model


def learned_context(steps: keras.KerasTensor, units: int) -> keras.KerasTensor:
    """A learned vector `(batch, units)` that is the same for all sequences."""
    constant = ops.zeros_like(steps[:, 0, 0], dtype="int32")
    return keras.layers.Embedding(1, units, name="context")(constant)


def with_gates(network: keras.Model) -> keras.Model:
    """A model of the answers, and of the gates `(batch, time)`."""
    return keras.Model(network.input, (network.output, gates_of(network)))
