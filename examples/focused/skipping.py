"""How many steps may an LSTM skip? The tasks of Skip RNN.

    python -m examples.focused.skipping --prices 0.02 0.1 --seeds 0 1 2
    python -m examples.focused.skipping --data imdb --data-dir DIR

Trains `keras.layers.LSTM` ("lstm") and a `FocusedHierarchicalEncoder` whose
context is a learned constant ("focused") on the tasks of "Skip RNN: Learning
to Skip State Updates in Recurrent Neural Networks": the sum of two marked
numbers among 50 (`keras_seqmech.tasks.adding`), or the sentiment of IMDb
reviews of 400 words at most. Open gates have a price, one of `--prices`, after
`ExploreThenCommit`. Prints for each model what it gets right with hard gates,
open above one half, and with gates drawn as in training, how many of its steps
update the upper LSTM, and the milliseconds of inference beside
`keras.layers.LSTM`, both measured in turn. As in the source, the adding
problem counts as solved where the mean squared error is at most a hundredth
of the variance of the sums, 1/6.

In Skip RNN the one LSTM does not read what it skips; here a lower LSTM reads
every step, and the upper one is skipped. What is left to save is the upper
one's part, so the lower one must be small (`--lower-units`): a step of it
costs about `lower_units * (lower_units + features)` multiplications, of the
plain LSTM `units * (units + features)`. The lower one may also do part of the
work: few updates show what the upper LSTM need not read, not how little the
task needs.

IMDb is read from `--data-dir`, see `examples/common/datasets.py`. Each run is
a line of `--output`, a CSV file, and is not repeated; a run that was killed
continues after its last epoch.
"""

import argparse
import functools
from collections.abc import Sequence
from pathlib import Path

import keras
import numpy as np

from examples.common import interleaved
from examples.common import results
from examples.common import resumable_fit
from examples.common import tables
from examples.common.arguments import integer
from examples.common.arguments import positive
from examples.common.arguments import real
from examples.common.epoch_line import EpochLine
from examples.common.networks import network_of
from examples.focused import skipping_models
from examples.focused.models import drawing
from examples.focused.models import has_gates
from keras_seqmech import ExploreThenCommit
from keras_seqmech import WarnOnDecisionCollapse
from keras_seqmech.tasks import adding

KEY = ("data", "model", "estimator", "price", "seed", "settings")
MEASURED = (
    "accuracy",
    "error",
    "updates",
    "drawn_accuracy",
    "drawn_error",
    "drawn_updates",
    "steps",
    "inference_ms",
    "lstm_ms",
    "parameters",
    "seconds",
)
FIELDS = KEY + MEASURED
# What files lack that were written before gates were drawn, too.
OLDER = dict.fromkeys(("drawn_accuracy", "drawn_error", "drawn_updates"), "")
SETTINGS = (
    "units",
    "length",
    "train_size",
    "test_size",
    "epochs",
    "batch_size",
    "learning_rate",
    "clip_norm",
)
GATE_SETTINGS = ("lower_units", "entropy", "indecision")
TEXT_SETTINGS = ("dropout",)
# What depends on the data unless it is given.
DEFAULTS: dict[str, dict[str, float]] = {
    "adding": {
        "units": 110,
        "lower_units": 8,
        "length": 50,
        "train_size": 20_000,
        "test_size": 5000,
        "epochs": 15,
        "learning_rate": 5e-3,
    },
    "imdb": {
        "units": 128,
        "lower_units": 32,
        "length": 400,
        "train_size": 25_000,
        "test_size": 25_000,
        "epochs": 5,
        "learning_rate": 1e-3,
    },
}
SOLVED = adding.VARIANCE / 100
PUBLISHED = {
    "adding": "",
    "imdb": (
        "Published for Skip RNN: 86.2 % at 186 of 400 updates, 83.6 % at 84."
    ),
}


def main(argv: Sequence[str] | None = None) -> str:
    """Does the runs; returns the table it prints."""
    args = parse(argv)
    return report(do_runs(args), args)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    models, estimators = skipping_models.MODELS, skipping_models.ESTIMATORS
    add("--data", choices=skipping_models.DATA, default="adding")
    add("--data-dir", type=Path, help="folder of imdb")
    add("--models", nargs="+", choices=models, default=list(models))
    add("--estimator", choices=estimators, default="relaxed", help="of gates")
    add("--prices", nargs="+", type=real("[0, 10]"), default=[0.02])
    add("--entropy", type=real("[0, 10]"), default=1.0, help="at first")
    add("--indecision", type=real("[0, 10]"), default=0.1, help="at the end")
    add("--seeds", nargs="+", type=integer(0), default=[0])
    rate = real("(0, 1)")
    for name, kind, what in (
        ("units", positive, "of the LSTM, the upper one, and word vectors"),
        ("lower_units", positive, "of the LSTM that reads every step"),
        ("length", positive, "steps, of texts at most"),
        ("train_size", positive, "sequences at most"),
        ("test_size", positive, "likewise"),
        ("epochs", positive, "of training"),
        ("learning_rate", rate, "at first; falls to 0 by a cosine"),
    ):
        by_data = ", ".join(f"{k}: {DEFAULTS[k][name]}" for k in DEFAULTS)
        option = f"--{name.replace('_', '-')}"
        add(option, type=kind, help=f"{what} (default: {by_data})")
    add("--batch-size", type=positive, default=100)
    add("--clip-norm", type=real("(0, inf)"), default=1.0)
    add("--dropout", type=real("[0, 1)"), default=0.2, help="of texts")
    add("--repeats", type=positive, default=20, help="of times")
    add("--output", type=Path, default=Path("runs/skipping.csv"))
    add("--markdown", type=Path, help="file for the table")
    args = parser.parse_args(argv)
    if args.data == "imdb" and args.data_dir is None:
        parser.error("--data-dir: must be given for --data imdb")
    for name, value in DEFAULTS[args.data].items():
        if getattr(args, name) is None:
            setattr(args, name, value)
    return args


def keys(args: argparse.Namespace) -> list[results.Key]:
    """The `KEY` of each run; an LSTM has no gates to pay for."""
    names = [*SETTINGS, *(TEXT_SETTINGS if args.data == "imdb" else ())]
    found = []
    for seed in args.seeds:
        for model in args.models:
            own, prices, estimator = names, [""], ""
            if model == "focused":
                own, estimator = [*names, *GATE_SETTINGS], args.estimator
                prices = [f"{price:g}" for price in args.prices]
            settings = results.describe(args, own)
            found += [
                (args.data, model, estimator, price, str(seed), settings)
                for price in prices
            ]
    return found


def do_runs(args: argparse.Namespace) -> list[results.Row]:
    """Does what has no row yet; returns the rows of the wanted runs."""
    load = functools.cache(lambda: skipping_models.load(args))
    return results.ResultsFile(args.output, FIELDS, KEY, OLDER).do_missing(
        keys(args),
        lambda key, line: train_and_measure(key, load(), args, line),
        lambda key: resumable_fit.remove(args.output, key),
    )


def train_and_measure(
    key: results.Row,
    data: skipping_models.Data,
    args: argparse.Namespace,
    line: str,
) -> dict[str, str]:
    """Trains and tests one model; returns its results."""
    name, seed = key["model"], int(key["seed"])
    keras.utils.clear_session()
    keras.utils.set_random_seed(seed)
    model = skipping_models.build(name, key["estimator"], data, args)
    callbacks = [EpochLine(line)]
    if name == "focused":
        schedule = ExploreThenCommit(
            entropy=args.entropy,
            price=float(key["price"]),
            indecision=args.indecision,
        )
        callbacks = [schedule, WarnOnDecisionCollapse(), *callbacks]
    seconds = resumable_fit.fit(
        model,
        resumable_fit.EpochOrder(*data.train, args.batch_size, seed),
        args.epochs,
        resumable_fit.folder_of(args.output, key),
        callbacks,
    )
    network = network_of(model)
    plain = skipping_models.build("lstm", "", data, args)
    batch = data.test[0][: args.batch_size]
    own_ms, lstm_ms = interleaved.median_ms(
        [
            functools.partial(timed.predict_on_batch, batch)
            for timed in (network, plain)
        ],
        args.repeats,
    )
    return {
        **measure(network, data, args.batch_size),
        **measure_drawn(network, data, args.batch_size),
        "inference_ms": f"{own_ms:.2f}",
        "lstm_ms": f"{lstm_ms:.2f}",
        "parameters": str(model.count_params()),
        "seconds": f"{seconds:.1f}",
    }


def measure(
    network: keras.Model, data: skipping_models.Data, batch_size: int
) -> dict[str, str]:
    """What a trained model gets right of the test sequences, with hard gates.

    Returns:
        `accuracy` of texts in %, or else the mean squared `error`; the mean
        number of `updates` of a sequence's state; and of its `steps`.
    """
    x, y = data.test
    real = x != 0 if data.words else np.ones(x.shape[:2], bool)
    gates = real
    if has_gates(network):
        shown = skipping_models.with_gates(network)
        answers, gates = shown.predict(x, batch_size, verbose=0)
    else:
        answers = network.predict(x, batch_size, verbose=0)
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


def measure_drawn(
    network: keras.Model, data: skipping_models.Data, batch_size: int
) -> dict[str, str]:
    """The same with gates drawn; nothing for a model without.

    Where far more is right than with hard gates, gates are undecided: each is
    open in some of the draws, but few in more than half of them.
    """
    if not has_gates(network):
        return {}
    with drawing(network):
        found = measure(network, data, batch_size)
    del found["steps"]
    return {f"drawn_{name}": value for name, value in found.items()}


def table(rows: Sequence[dict[str, str]]) -> str:
    """Means over seeds as a Markdown table."""
    groups: dict = {}
    for row in rows:
        kind = tuple(row[name] for name in ("model", "estimator", "price"))
        groups.setdefault(kind, []).append(row)
    is_text = any(row["accuracy"] for row in rows)
    header = ["model", "estimator", "price", "seeds"]
    header += ["accuracy %"] if is_text else ["squared error", "solved"]
    header += ["updates", "of steps", "% updated"]
    header += [f"drawn: {'accuracy %' if is_text else 'error'}", "updates"]
    header += ["inference ms a batch", "LSTM beside it", "ratio"]
    lines = [
        [
            *(*kind, len(own)),
            *score(own, is_text),
            *skipped(own),
            *drawn(own, is_text),
            *times(own),
        ]
        for kind, own in groups.items()
    ]
    return tables.table([header, *lines])


def score(rows: Sequence[dict[str, str]], is_text: bool) -> list[str]:
    if is_text:
        return [tables.spread([float(row["accuracy"]) for row in rows], ".2f")]
    errors = [float(row["error"]) for row in rows]
    solved = sum(error <= SOLVED for error in errors)
    return [f"{np.mean(errors):.2g}", f"{solved} of {len(rows)}"]


def skipped(rows: Sequence[dict[str, str]]) -> list[str]:
    updates, steps = (
        np.mean([float(row[name]) for row in rows])
        for name in ("updates", "steps")
    )
    return [f"{updates:.1f}", f"{steps:.1f}", f"{100 * updates / steps:.1f}"]


def drawn(rows: Sequence[dict[str, str]], is_text: bool) -> list[str]:
    name = "drawn_accuracy" if is_text else "drawn_error"
    if not all(row[name] for row in rows):
        return ["", ""]
    scores, updates = (
        np.mean([float(row[field]) for row in rows])
        for field in (name, "drawn_updates")
    )
    return [f"{scores:.2f}" if is_text else f"{scores:.2g}", f"{updates:.1f}"]


def times(rows: Sequence[dict[str, str]]) -> list[str]:
    own, lstm = (
        [float(row[name]) for row in rows]
        for name in ("inference_ms", "lstm_ms")
    )
    ratio = np.mean(np.divide(own, lstm))
    return [f"{np.mean(own):.1f}", f"{np.mean(lstm):.1f}", f"{ratio:.2f}"]


def report(rows: Sequence[dict[str, str]], args: argparse.Namespace) -> str:
    """Prints the table with its notes, and writes it to `--markdown`."""
    notes = (
        f"Data: {args.data}, test sequences. Means over seeds. Gates are hard: "
        "open, and the state updated, where the probability is above one half; "
        "or drawn, as in training; "
        "steps are those of sequences without padding. "
        f"Times: medians of {args.repeats}, measured in turn with a "
        f"`keras.layers.LSTM` of {args.units} units, of batches of "
        f"{args.batch_size}."
    )
    if args.data == "adding":
        notes += (
            f" Solved: a mean squared error of at most {SOLVED:.2g}, a "
            "hundredth of the sums' variance."
        )
    names = [*SETTINGS, *GATE_SETTINGS]
    names += TEXT_SETTINGS if args.data == "imdb" else ()
    settings = f"Settings: `{results.describe(args, names)}`."
    parts = [table(rows), notes, PUBLISHED[args.data], settings]
    return tables.publish(parts, args.markdown)


if __name__ == "__main__":
    main()
