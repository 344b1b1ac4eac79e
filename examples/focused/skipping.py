"""How many steps may an LSTM skip? The tasks of Skip RNN.

    python -m examples.focused.skipping --reading 0.02 0.1 --seeds 0 1 2
    python -m examples.focused.skipping --data imdb --data-dir DIR

Trains `keras.layers.LSTM` ("lstm") and a `FocusedHierarchicalEncoder` whose
context is a learned constant ("focused") on the sum of two marked numbers among
50 (`examples.tasks.adding`), or the sentiment of IMDb reviews. `--reading` are
weights of the reading penalty. Prints what a model gets right with hard gates,
open above one half, with gates drawn as in training ("drawn"), and with those
that the running sum of probabilities opens ("summed"); how many of its steps
update the upper LSTM; and the milliseconds of inference beside an LSTM.

In Skip RNN the one LSTM does not read what it skips; here a lower LSTM reads
every step, and the upper one is skipped.
"""

import argparse
import functools
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
from examples.focused import models
from examples.tasks import adding

DATA = ("adding", "imdb")
MODELS = ("lstm", "focused")
# The most frequent ones.
WORDS = 10_000
# Defaults of options for each kind of data, and learning rates.
DEFAULTS = {
    "units": (110, 128),
    "lower_units": (8, 32),
    "length": (50, 400),
    "train_size": (20_000, 25_000),
    "test_size": (5000, 25_000),
    "epochs": (15, 5),
}
LEARNING_RATES = {"adding": 5e-3, "imdb": 1e-3}
# Of texts.
DROPOUT = 0.2
ENTROPY, INDECISION = 1.0, 0.1
# Repeated measurements of a time.
REPEATS = 20


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
    """
    layers = keras.layers
    sequences, _ = data.train
    x = keras.Input((None, *sequences.shape[2:]), dtype=sequences.dtype)
    steps, mask = x, None
    if data.words:
        mask = ops.not_equal(x, 0)
        steps = layers.Embedding(data.words, args.units, name="words")(x)
        steps = layers.Dropout(DROPOUT)(steps)
    if name == "lstm":
        state = layers.LSTM(args.units, name="lstm")(steps, mask=mask)
    else:
        state, *_ = seqmech.FocusedHierarchicalEncoder(
            args.units,
            lower_units=args.lower_units,
            estimator=estimator,
            return_gates=True,
            track_statistics=True,
            name="encoder",
        )(steps, learned_context(steps, args.lower_units), mask=mask)
    if data.words:
        state = layers.Dropout(DROPOUT)(state)
    model = keras.Model(x, layers.Dense(1, name="answer")(state))
    if name == "focused" and estimator == "reinforce":
        model = seqmech.PolicyGradientModel(model)
    steps_per_epoch = -(-len(sequences) // args.batch_size)
    rate = keras.optimizers.schedules.CosineDecay(
        LEARNING_RATES[args.data], steps_per_epoch * args.epochs
    )
    model.compile(
        keras.optimizers.Adam(rate, global_clipnorm=1.0),
        keras.losses.BinaryCrossentropy(from_logits=True)
        if data.words
        else keras.losses.MeanSquaredError(),
    )
    return model


def learned_context(steps: keras.KerasTensor, units: int) -> keras.KerasTensor:
    """A learned vector `(batch, units)` that is the same for all sequences."""
    constant = ops.zeros_like(steps[:, 0, 0], dtype="int32")
    return keras.layers.Embedding(1, units, name="context")(constant)


def options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--data", choices=DATA, default="adding")
    add("--models", nargs="+", choices=MODELS, default=list(MODELS))
    add("--estimator", choices=models.ESTIMATORS, default="relaxed")
    add("--reading", nargs="+", type=float, default=[0.02], help="weights")
    lower = f"default: {DEFAULTS['lower_units']}, by the data"
    add("--lower-units", type=int, help=lower)


def check(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    for name, defaults in DEFAULTS.items():
        default = defaults[DATA.index(args.data)]
        setattr(args, name, getattr(args, name) or default)


def cases(args: argparse.Namespace) -> program.Cases:
    """An LSTM has no gates to penalize."""
    for model in args.models:
        gated = model == "focused"
        for weight in args.reading if gated else [""]:
            yield {
                "data": args.data,
                "model": model,
                "estimator": args.estimator if gated else "",
                "reading": f"{weight:g}" if gated else "",
            }


def more(args: argparse.Namespace, case: program.Case) -> program.Case:
    """The setting of gated models alone."""
    gated = case["model"] == "focused"
    return {"lower_units": args.lower_units} if gated else {}


def train_and_measure(run: program.Run) -> dict[str, str]:
    """Trains and tests one model."""
    name, data, args = run.key["model"], run.data, run.args
    model = build(name, run.key["estimator"], data, args)
    callbacks: list[keras.callbacks.Callback] = []
    if name == "focused":
        schedule = seqmech.ExploreThenCommit(
            entropy=ENTROPY,
            reading=float(run.key["reading"]),
            indecision=INDECISION,
        )
        callbacks = [schedule, seqmech.WarnOnDecisionCollapse()]
    curve = run.fit(model, data.train, callbacks)
    network = network_of(model)
    return {
        **measure(network, data, args.batch_size),
        **measure_otherwise(network, data, args.batch_size),
        **measure_times(network, data, args),
        "parameters": str(model.count_params()),
        "seconds": f"{sum(point['seconds'] for point in curve):.1f}",
    }


def measure(
    network: keras.Model, data: Data, batch_size: int
) -> dict[str, str]:
    """What a trained model gets right of the test sequences, with hard gates.

    `accuracy` of texts in %, or else the mean squared `error`; the mean number
    of `updates` of a sequence's state; and of its `steps`.
    """
    x, y = data.test
    real = x != 0 if data.words else np.ones(x.shape[:2], bool)
    shown = models.probe(network).predict(x, batch_size, verbose=0)
    answers, gates = shown["logits"], shown.get("gates", real)
    if data.words:
        right = 100 * np.mean((answers > 0) == (y > 0.5))
        found = {"accuracy": f"{right:.2f}"}
    else:
        found = {"error": f"{np.mean((answers - y) ** 2):.3g}"}
    return {
        **found,
        "updates": f"{gates.sum(axis=1).mean():.2f}",
        "steps": f"{real.sum(axis=1).mean():.2f}",
    }


def measure_otherwise(
    network: keras.Model, data: Data, batch_size: int
) -> dict[str, str]:
    """The same by `models.OTHERS`; nothing for a model without gates.

    Where far more is right than with hard gates, gates are undecided: each is
    open in some of the draws, but few in more than half of them.
    """
    found = models.measure_others(
        network, lambda: measure(network, data, batch_size)
    )
    return {x: y for x, y in found.items() if not x.endswith("_steps")}


def measure_times(
    network: keras.Model, data: Data, args: argparse.Namespace
) -> dict[str, str]:
    """Milliseconds of inference of a batch, beside an LSTM as wide."""
    batch = data.test[0][: args.batch_size]
    timed = {"inference_ms": network, "lstm_ms": build("lstm", "", data, args)}
    if models.has_gates(network):
        timed["summed_ms"] = keras.Model(network.input, network.output)
        with models.inferring(network, "running_sum"):
            # Traced once, it stays as it is.
            timed["summed_ms"].predict_on_batch(batch)
    functions = [
        functools.partial(model.predict_on_batch, batch)
        for model in timed.values()
    ]
    times = interleaved.median_ms(functions, REPEATS)
    return {name: f"{ms:.2f}" for name, ms in zip(timed, times)}


PROGRAM = program.Program(
    doc=__doc__,
    output="runs/skipping.csv",
    options=options,
    check=check,
    key=("data", "model", "estimator", "reading", "seed", "settings"),
    cases=cases,
    needs_data=lambda args: args.data == "imdb",
    numbers={
        **{name: int for name in DEFAULTS if name != "lower_units"},
        "batch_size": 100,
    },
    more=more,
    load=load,
    run=train_and_measure,
)

if __name__ == "__main__":
    PROGRAM.main()
