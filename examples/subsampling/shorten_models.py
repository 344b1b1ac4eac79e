"""Classifiers of two LSTMs, with a shorter sequence between them, or not."""

import argparse
from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from examples.common import datasets
from examples.common import text_encoding
from examples.subsampling.integrate_and_fire import IntegrateAndFire
from keras_seqmech import EmissionProbabilities
from keras_seqmech import ExpectedSubsample
from keras_seqmech import ExploreThenCommit
from keras_seqmech import PolicyGradientModel
from keras_seqmech.tasks import pixel_question

DATA = ("digits", "mnist", "imdb")
PLAIN = ("none", "stride")
# The estimators of the subsample.
DRAWN = ("straight_through", "reinforce")
LEARNED = ("expectation", *DRAWN)
# The reference to compare with.
FIRED = "integrate"
# The most frequent ones.
WORDS = 10_000


class Data(NamedTuple):
    """Sequences and labels, `(x, y)` of each part.

    Sequences are floats `(N, T, 1)`, or ints `(N, T)` of words, of which there
    are `words`, with zeros after the last one.
    """

    train: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]
    classes: int
    words: int = 0

    @property
    def length(self) -> int:
        return self.train[0].shape[1]


def load(args: argparse.Namespace) -> Data:
    """Images pixel by pixel, or the first words of texts."""
    if args.data == "imdb":
        train, test = text_encoding.frequent_words(
            datasets.load("imdb", args.data_dir),
            (args.train_size, args.test_size),
            args.length,
            WORDS,
        )
        return Data(train, test, 2, WORDS)
    if args.data == "mnist":
        parts = pixel_question.load_mnist(args.data_dir)
    else:
        parts = pixel_question.load_digits()
    sizes = args.train_size, args.test_size
    train, test = (
        (x[:size].reshape(len(x[:size]), -1, 1), y[:size])
        for (x, y), size in zip(parts, sizes)
    )
    return Data(train, test, pixel_question.CLASSES)


def build(
    method: str,
    data: Data,
    args: argparse.Namespace,
    inference: str = "expectation",
) -> keras.Model:
    """A compiled classifier.

    What is kept of T steps is T over `args.stride`: for "stride" the last of
    so many, for the estimators of `LEARNED` what they decide, led there by the
    probabilities they start from and the target of the batch, for `FIRED` as
    many weighted means of neighbouring steps.

    Args:
        method: One of `PLAIN` or `LEARNED`, or `FIRED`.
        data: What it is for.
        args: Of the command line.
        inference: Of the subsample.
    """
    layers = keras.layers
    x = keras.Input(data.train[0].shape[1:], dtype=data.train[0].dtype)
    steps, mask = x, None
    if data.words:
        mask = ops.not_equal(x, 0)
        steps = layers.Embedding(data.words, args.units, name="words")(x)
    states = layers.LSTM(args.units, return_sequences=True, name="lower")(
        steps, mask=mask
    )
    if method == "stride":
        every = slice(args.stride - 1, None, args.stride)
        states = states[:, every]
        mask = None if mask is None else mask[:, every]
    elif method in LEARNED:
        share = 1 / args.stride
        emission = EmissionProbabilities(share, name="emission")(
            states, mask=mask
        )
        states, decisions = ExpectedSubsample(
            data.length // args.stride,
            inference=inference,
            estimator=method,
            return_emission=True,
            track_statistics=True,
            target=share,
            target_weight=args.target_weight,
            seed=0,
            name="kept",
        )(states, emission, sequence_mask=mask)
        mask = decisions["output_mask"] > 0.5
    elif method == FIRED:
        states, mask = IntegrateAndFire(
            data.length // args.stride,
            share=1 / args.stride,
            quantity_weight=args.target_weight,
            name="kept",
        )(states, mask=mask)
    state = layers.LSTM(args.units, name="upper")(states, mask=mask)
    logits = layers.Dense(data.classes, name="logits")(state)
    model = keras.Model(x, logits)
    if method == "reinforce":
        model = PolicyGradientModel(model)
    model.compile(
        keras.optimizers.Adam(args.learning_rate),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


def schedules(
    method: str, args: argparse.Namespace
) -> list[keras.callbacks.Callback]:
    """Callbacks that schedule what decisions cost: explore, then commit."""
    if method not in LEARNED:
        return []
    given = {"entropy": args.entropy, "indecision": args.indecision}
    given = {
        name: weight for name, weight in given.items() if weight is not None
    }
    return [ExploreThenCommit(**given)]


def measure(
    method: str, model: keras.Model, data: Data, args: argparse.Namespace
) -> dict[str, float]:
    """Shares of test sequences that a trained model has right.

    Args:
        method: That the model was built with.
        model: The model.
        data: What it is for.
        args: Of the command line.

    Returns:
        `accuracy` in expectation, of all steps, or of what is fired;
        `hard_accuracy` with the steps whose probability is above one half, and
        `kept`, the number of these or of firings, where there is a choice.
    """
    found = {}
    for mode in ("expectation", "threshold"):
        if mode == "threshold" and method not in LEARNED:
            continue
        other = build(method, data, args, mode)
        other.set_weights(model.get_weights())
        values = other.evaluate(
            *data.test, args.batch_size, verbose=0, return_dict=True
        )
        prefix = "hard_" if mode == "threshold" else ""
        found[f"{prefix}accuracy"] = values["accuracy"]
        if mode == "threshold" or method == FIRED:
            found["kept"] = values["kept_length"]
    return found
