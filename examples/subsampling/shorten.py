"""Fewer steps for an LSTM: which ones, and what does it save?

    python -m examples.subsampling.shorten
    python -m examples.subsampling.shorten --data imdb --data-dir DIR --stride 8
    python -m examples.subsampling.shorten --data markers --lower dense \
        --length 400 --stride 50 --train-size 4000 --batch-size 64

Classifies sequences with an LSTM above a lower layer: another LSTM, or with
`--lower dense` a dense layer of each step. What the upper LSTM reads is all
outputs of the lower layer ("none"; "maximum": the maximum of the upper LSTM's
states is classified in place of the last one; "lower": the maximum of the lower
layer's outputs, and there is no upper LSTM), each `--stride`-th ("stride"),
means of so many ("mean"), a strided convolution ("convolution"), or as many
that an `ExpectedSubsample` keeps, learned by one of its estimators, or weighted
means of neighbouring steps by continuous integrate-and-fire ("integrate").

Data are 8x8 digits pixel by pixel, or MNIST; "markers", sequences of symbols of
which eight are marked at random, and the answer is the third of these; the
first `--length` words of IMDb texts, or these amid noise on both sides, as in
`examples.pooling.noisy_texts` ("noisy").
"""

import argparse
from typing import Any
from typing import NamedTuple

import keras
import numpy as np
from keras import ops

import keras_seqmech as seqmech
from examples.common import datasets
from examples.common import interleaved
from examples.common import program
from examples.common import text_encoding
from examples.common.networks import network_of
from examples.pooling import noisy_texts
from examples.subsampling.integrate_and_fire import IntegrateAndFire
from examples.tasks import pixel_question

# The estimators of the subsample.
LEARNED = ("expectation", "straight_through")
DATA = ("digits", "mnist", "markers", "imdb", "noisy")
METHODS = (
    *("none", "maximum", "lower", "stride", "mean", "convolution"),
    *(*LEARNED, "integrate"),
)
# The most frequent ones.
WORDS = 10_000
# Of sequences of symbols: how many are marked, and which of them is wanted.
SYMBOLS, MARKED, WANTED = 4, 8, 2
# Repeated measurements of a time.
REPEATS = 101


class Data(NamedTuple):
    """Sequences and labels, `(x, y)` of each part.

    Sequences are floats `(N, T, 1)`, or ints `(N, T)` of words, of which there
    are `words`, with zeros after the last one.
    """

    train: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]
    classes: int
    words: int = 0


def load(args: argparse.Namespace) -> Data:
    """Images pixel by pixel, marked symbols, or the first words of texts."""
    sizes = args.train_size, args.test_size
    if args.data == "markers":
        parts = (markers(x, args.length, seed) for seed, x in enumerate(sizes))
        return Data(*parts, SYMBOLS)
    if args.data == "imdb":
        texts = datasets.load("imdb", args.data_dir)
        train, test = text_encoding.frequent_words(
            texts, sizes, args.length, WORDS
        )
        return Data(train, test, 2, WORDS)
    if args.data == "noisy":
        corpus = noisy_texts.load(args.data_dir, test_size=args.test_size)
        texts = noisy_texts.prepare(
            corpus, "mid", args.train_size, 0, args.length
        )
        parts = (padded(x, args.length) for x in (texts.train, texts.test))
        return Data(*parts, 2, WORDS)
    if args.data == "mnist":
        parts = pixel_question.load_mnist(args.data_dir)
    else:
        parts = pixel_question.load_digits()
    train, test = (
        (x[:size].reshape(len(x[:size]), -1, 1), y[:size])
        for (x, y), size in zip(parts, sizes)
    )
    return Data(train, test, pixel_question.CLASSES)


def padded(
    texts: noisy_texts.Texts, length: int
) -> tuple[np.ndarray, np.ndarray]:
    """Texts as ids below `WORDS`, padded or cut to a length, and labels."""
    ids = keras.utils.pad_sequences(
        texts.ids, length, padding="post", truncating="post"
    )
    return text_encoding.keep_frequent(ids, WORDS), texts.labels


def markers(
    count: int, length: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Sequences of random symbols, and of the marked ones the third.

    >>> x, y = markers(2, 20, seed=0)
    >>> x.shape, x[..., -1].sum(axis=1).tolist(), y.shape
    ((2, 20, 5), [8.0, 8.0], (2,))
    """
    generator = np.random.default_rng(seed)
    symbols = generator.integers(SYMBOLS, size=(count, length))
    first = np.tile(np.arange(length) < MARKED, (count, 1))
    marked = generator.permuted(first, axis=1)
    steps = [np.eye(SYMBOLS)[symbols], marked[..., np.newaxis]]
    wanted = symbols[marked].reshape(count, MARKED)[:, WANTED]
    return np.concatenate(steps, axis=-1).astype("float32"), wanted


def build(method: str, data: Data, args: argparse.Namespace) -> keras.Model:
    """A compiled classifier that keeps T over `args.stride` of T steps."""
    layers, share = keras.layers, 1 / args.stride
    length = data.train[0].shape[1] // args.stride
    x = keras.Input(data.train[0].shape[1:], dtype=data.train[0].dtype)
    steps, mask = x, None
    if data.words:
        mask = ops.not_equal(x, 0)
        steps = layers.Embedding(data.words, args.units, name="words")(x)
    if args.lower == "lstm":
        lower = layers.LSTM(args.units, return_sequences=True, name="lower")
        states = lower(steps, mask=mask)
    else:
        states = layers.Dense(args.units, "relu", name="lower")(steps)
    if method == "stride":
        every = slice(args.stride - 1, None, args.stride)
        states = states[:, every]
        mask = None if mask is None else mask[:, every]
    elif method in ("mean", "convolution"):
        shorter = layers.AveragePooling1D(args.stride)
        if method == "convolution":
            shorter = layers.Conv1D(
                args.units, args.stride, args.stride, activation="relu"
            )
        # The slice has no mask, for which there would be a warning.
        states = shorter(states[:, : length * args.stride])
        # Of what is padded in part nothing is read.
        mask = None if mask is None else mask[:, args.stride - 1 :: args.stride]
    elif method in LEARNED:
        emit = seqmech.EmissionProbabilities(share, name="emission")
        emission = emit(states, mask=mask)
        target = seqmech.DecisionPenalties(target=share, target_weight=1.0)
        states, decisions = seqmech.ExpectedSubsample(
            length,
            estimator=method,
            inference="expectation",
            return_emission=True,
            track_statistics=True,
            penalties=target,
            seed=0,
            name="kept",
        )(states, emission, mask=mask)
        mask = decisions["output_mask"] > 0.5
    elif method == "integrate":
        states, mask = IntegrateAndFire(
            length, share, quantity_weight=1.0, name="kept"
        )(states, mask=mask)
    if method == "lower":
        if mask is not None:
            # Below all outputs of either lower layer.
            states = ops.where(mask[..., None], states, -1.0)
        state = layers.GlobalMaxPooling1D(name="maximum")(states)
    else:
        is_pooled = method == "maximum"
        upper = layers.LSTM(
            args.units, return_sequences=is_pooled, name="upper"
        )
        state = upper(states, mask=mask)
        if is_pooled:
            # The slice has no mask, for which there would be a warning.
            state = layers.GlobalMaxPooling1D(name="maximum")(state[:, :])
    logits = layers.Dense(data.classes, name="logits")(state)
    model = keras.Model(x, logits)
    model.compile(
        keras.optimizers.Adam(3e-3),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


def decide(model: keras.Model) -> None:
    """Lets inference keep the steps whose probability is above one half."""
    network_of(model).get_layer("kept").inference = "threshold"
    model.make_test_function(force=True)
    model.make_predict_function(force=True)


def measure(
    method: str, model: keras.Model, data: Data, args: argparse.Namespace
) -> dict[str, float]:
    """Shares of test sequences that are right, in expectation and as served.

    `kept` is the number of steps, or of firings, where there is a choice. The
    model then goes on to `decide`.
    """
    how = {"batch_size": args.batch_size, "verbose": 0, "return_dict": True}
    values = model.evaluate(*data.test, **how)
    found = {"accuracy": values["accuracy"]}
    if method in LEARNED:
        decide(model)
        values = model.evaluate(*data.test, **how)
        found["hard_accuracy"] = values["accuracy"]
    if method in (*LEARNED, "integrate"):
        found["kept"] = values["kept_length"]
    return found


def train_and_test(run: program.Run) -> dict[str, Any]:
    """Trains and tests one model."""
    method, data, args = run.key["method"], run.data, run.args
    model = build(method, data, args)
    callbacks = [seqmech.ExploreThenCommit()] if method in LEARNED else []
    curve = run.fit(model, data.train, callbacks)
    found = measure(method, model, data, args)
    kept = found.pop("kept", None)
    return {
        **{name: f"{100 * share:.2f}" for name, share in found.items()},
        "kept": "" if kept is None else f"{kept:.1f}",
        **measure_times(model, data, args),
        "parameters": model.count_params(),
        "seconds": round(sum(point["seconds"] for point in curve), 1),
    }


def measure_times(
    model: keras.Model, data: Data, args: argparse.Namespace
) -> dict[str, str]:
    """Milliseconds of a batch, and the share of those of all steps."""
    batch = data.test[0][: args.batch_size]
    whole = {"none": build("none", data, args)}
    return interleaved.inference_over(network_of(model), whole, batch, REPEATS)


def options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--data", choices=DATA, default="digits")
    add("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    add("--lower", choices=("lstm", "dense"), default="lstm")


PROGRAM = program.Program(
    doc=__doc__,
    output="runs/shorten.csv",
    options=options,
    needs_data=lambda args: args.data in ("mnist", "imdb", "noisy"),
    key=("data", "method", "seed", "settings"),
    cases=lambda args: program.grid(data=[args.data], method=args.methods),
    numbers={
        "stride": 4,  # Steps for one that stays.
        "units": 32,
        "length": 200,  # Words, or symbols.
        "train_size": 5000,  # At most.
        "test_size": 2000,
        "epochs": 20,
        "batch_size": 32,
    },
    settings=("lower",),
    load=load,
    run=train_and_test,
)

if __name__ == "__main__":
    PROGRAM.main()
