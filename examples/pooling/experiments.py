"""Runs of the pooling studies: options, what is done, tables.

Each finished run is a line of a CSV file and is not repeated; a run that was
killed left no line and starts again. Runs with other settings are lines of
their own.
"""

import argparse
import functools
import zlib
from collections.abc import Callable
from collections.abc import Sequence
from pathlib import Path

import keras
import numpy as np

from examples.common import datasets
from examples.common import results
from examples.common import tables
from examples.common import whole_files
from examples.common.arguments import integer
from examples.common.arguments import positive
from examples.common.arguments import real
from examples.pooling import noisy_texts
from keras_seqmech.analysis import positions

TUNED = (
    "units",
    "learning_rate",
    "batch_size",
    "epochs",
    "patience",
    "min_words",
    "max_length",
    "share",
    "validation_size",
    "test_size",
    "embedding_size",
)
KEY = ("dataset", "size", "setting", "model", "seed", "settings")
RESULTS = (
    "best_epoch",
    "epochs",
    "train_accuracy",
    "validation_accuracy",
    "test_accuracy",
)
COSTS = ("parameters", "seconds")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of both studies."""
    add = parser.add_argument
    add("--data-dir", required=True, help="see examples/common/datasets.py")
    add("--dataset", choices=list(datasets.CLASSES), default="imdb")
    add("--sizes", nargs="+", type=positive, default=[1000, 10000])
    add(
        "--settings",
        nargs="+",
        choices=noisy_texts.SETTINGS,
        default=["standard", "mid"],
    )
    add("--seeds", nargs="+", type=integer(0), default=[0, 1, 2])
    add("--epochs", type=positive, default=20)
    add(
        "--patience", type=positive, help="epochs without progress; default all"
    )
    add("--units", type=positive, default=256)
    add("--learning-rate", type=real("(0, inf)"), default=2e-3)
    add("--batch-size", type=positive, default=32)
    add(
        "--min-words", type=integer(0), default=100, help="of longer texts only"
    )
    add("--max-length", type=positive, default=400, help="tokens with noise")
    add(
        "--share",
        type=real("(0, 1)"),
        default=0.66,
        help="of noise among the tokens",
    )
    add("--noise", help="a sentence a line; default: wiki of --data-dir")
    add("--validation-size", type=positive, help="default all")
    add("--test-size", type=positive, help="default all")
    add("--vectors", help="GloVe file; default: glove/*.npz of --data-dir")
    add("--embedding-size", type=positive, default=100, help="without vectors")
    add("--markdown", help="file for the table")
    add("--save-models", help="folder for the trained models")


def keys(
    args: argparse.Namespace, names: Sequence[str], settings: str
) -> list[results.Key]:
    """The `KEY` of each run; a study cut short has whole seeds.

    Args:
        args: Of the command line.
        names: Of the models.
        settings: What results depend on besides the columns before it.
    """
    return [
        (args.dataset, str(size), setting, name, str(seed), settings)
        for seed in args.seeds
        for size in args.sizes
        for setting in args.settings
        for name in names
    ]


def do_runs(
    args: argparse.Namespace,
    wanted: Sequence[results.Key],
    fields: Sequence[str],
    run_one: Callable,
) -> list[results.Row]:
    """Does the runs that have no row; returns the rows to be shown.

    Args:
        args: Of the command line.
        wanted: Of `keys`.
        fields: Of the file, `KEY` first.
        run_one: `run_one(name, seed, data, args, line, curve)` trains and
            tests a model, and returns the other fields and the model; `line`
            is what lines of progress start with, `curve` a CSV file that it
            may write.

    Returns:
        All rows of the data set and the settings, those of other runs too.
    """
    path = Path(args.output)
    for folder in filter(None, (path.parent, args.save_models)):
        Path(folder).mkdir(parents=True, exist_ok=True)
    texts_of = texts_of_runs(args)

    def run(key, line):
        stem = stem_of(key)
        curve = path.with_name(f"{path.stem}-{stem}.csv")
        name, seed = key["model"], int(key["seed"])
        data = texts_of(key["setting"], int(key["size"]), seed)
        measured, model = run_one(name, seed, data, args, line, curve)
        if args.save_models:
            saved = Path(args.save_models, stem)
            save(model, {"words": data.words, **key}, saved)
        return measured

    file = results.ResultsFile(path, fields, KEY)
    file.do_missing(wanted, run)
    return rows_like(file, args.dataset, wanted[0][-1])


def stem_of(key: results.Row) -> str:
    """A file name for a run, of its own for each setting."""
    digest = zlib.crc32(key["settings"].encode())
    named = [value for name, value in key.items() if name != "settings"]
    return "-".join([*named, f"{digest:08x}"])


def texts_of_runs(
    args: argparse.Namespace,
) -> Callable[[str, int, int], noisy_texts.StudyData]:
    """A function of setting, size and seed: the texts of a run.

    Nothing is read before it is called. Runs in a row share the object if they
    can.
    """

    @functools.cache
    def load():
        return noisy_texts.load(
            args.dataset,
            args.data_dir,
            args.noise,
            args.min_words,
            args.validation_size,
            args.test_size,
        )

    @functools.lru_cache(maxsize=1)
    def prepare(setting, size, seed):
        return noisy_texts.prepare(
            load(), setting, size, seed, args.max_length, args.share
        )

    return prepare


def rows_like(
    file: results.ResultsFile, dataset: str, settings: str
) -> list[results.Row]:
    """The rows of a file that can be compared: one data set, one setting."""
    return [
        row
        for row in file.read()
        if (row["dataset"], row["settings"]) == (dataset, settings)
    ]


def save(model: keras.Model, described: dict, path: Path) -> None:
    """Saves a model, and beside it the words of its ids and its run."""
    whole_files.write_json(f"{path}.json", described)
    model.save(f"{path}.keras")


def describe_settings(args: argparse.Namespace, names: Sequence[str]) -> str:
    """What a result depends on besides data, model and seed."""
    vectors = Path(args.vectors).name if args.vectors else "none"
    noise = Path(args.noise).name if args.noise else "wiki"
    return results.describe(args, names, vectors=vectors, noise=noise)


def summary(history: dict[str, list[float]]) -> dict:
    """The epoch of the best validation accuracy, and the accuracies there."""
    best = int(np.argmax(history["val_accuracy"]))
    return {
        "best_epoch": best + 1,
        "epochs": len(history["val_accuracy"]),
        "train_accuracy": percent(history["accuracy"][best]),
        "validation_accuracy": percent(history["val_accuracy"][best]),
    }


def percent(share: float) -> float:
    return round(100 * share, 2)


def table(rows: Sequence[dict], names: Sequence[str], paper: Callable) -> str:
    """Markdown table of test accuracies, as table 1.3.

    Args:
        rows: Finished runs of one data set.
        names: Of the models, in order.
        paper: `paper(setting, size, name)` gives the paper's number or "".
    """

    def cell(own):
        return mean_and_spread([float(row["test_accuracy"]) for row in own])

    return grid("test accuracy %", rows, names, cell, paper)


def grid(
    title: str,
    rows: Sequence[dict],
    names: Sequence[str],
    cell: Callable,
    paper: Callable,
) -> str:
    """Markdown table: models by settings and sizes, the paper beside each.

    `cell(rows)` shows the runs of one model, setting and size.
    """
    columns = sorted(
        {(row["setting"], int(row["size"])) for row in rows},
        key=lambda column: (noisy_texts.SETTINGS.index(column[0]), column[1]),
    )
    header = [title]
    for setting, size in columns:
        header += [f"{setting} {size:,}", "paper"]
    lines = [header]
    known = {row["model"] for row in rows}
    for name in filter(known.__contains__, names):
        line = [name]
        for column in columns:
            own = [
                row
                for row in rows
                if (row["setting"], int(row["size"])) == column
                and row["model"] == name
            ]
            line += [cell(own), paper(*column, name)]
        lines.append(line)
    return tables.table(lines)


def mean_and_spread(values: Sequence[float]) -> str:
    """Mean ± standard deviation (number); "" if there are none.

    >>> mean_and_spread([80.0, 82.0])
    '81.0 ± 1.4 (2)'
    """
    return f"{tables.spread(values)} ({len(values)})" if values else ""


def noise_note(args: argparse.Namespace, rows: Sequence[dict]) -> str:
    """How noisy texts are cut, how often noise is read; "" without noise."""
    noisy = [row for row in rows if row["setting"] in positions.PLACES]
    if not noisy:
        return ""
    kept = noisy_texts.own_length("short", args.max_length, args.share)
    noise = noisy_texts.training_noise(args.data_dir, args.noise)
    tokens = sum(map(len, noise))
    reads = ", ".join(
        f"{size * (args.max_length - kept) / tokens:.1f} with {size:,} texts"
        for size in sorted({int(row["size"]) for row in noisy})
    )
    return (
        f"Before noise is added, texts are cut to {kept} tokens of the "
        f"{args.max_length} that standard reads: a part of the difference to "
        f"standard is due to that. The control is short: {kept} tokens and no "
        f"noise. Training texts have noise of {len(noise):,} sentences. An "
        f"epoch reads each of them at most about so many times: {reads}."
    )


def report(
    args: argparse.Namespace,
    settings: str,
    rows: Sequence[dict],
    content: str,
    source: str,
) -> str:
    """Prints the table with its notes, and writes it to `--markdown`."""
    notes = (
        f"Data set: {args.dataset}. In brackets the number of seeds, after ± "
        f"their standard deviation. Paper: {source} of "
        '"Analyzing the Learnability and Representability of Recurrent '
        'Architectures".'
    )
    parts = [content, notes, noise_note(args, rows), f"Settings: `{settings}`."]
    return tables.publish(parts, args.markdown)
