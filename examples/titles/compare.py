"""What matters to a classifier of titles, one difference after the other.

    python -m examples.titles.compare --data-dir DATA --seeds 0 1 2

Trains the models of `classifiers.py`, baselines among them, on the same titles,
and prints their scores on the test titles. Unless its name says otherwise, a
model is a classifier of words with one layer of `GRU` and the read-out `max`.
The best epoch on the validation titles is tested, with receptive fields the
last.

The seed draws the training titles where `--train-size` is less than all, the
weights, and the order of batches. Each finished run is a line of `--output`, a
CSV file, and is not repeated; several processes may share it. `--markdown`
writes the table.
"""

import argparse
import functools
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from examples.common import datasets
from examples.common import results
from examples.common import tables
from examples.common import word_vectors
from examples.common.arguments import integer
from examples.common.arguments import positive
from examples.common.arguments import real
from examples.common.epoch_line import EpochLine
from examples.titles import baselines
from examples.titles import classifiers
from examples.titles import data as titles
from examples.titles import encoding
from examples.titles import scores
from examples.titles import training

TUNED = (
    "train_size",
    "epochs",
    "character_epochs",
    "units",
    "embedding_size",
    "dropout",
    "learning_rate",
    "batch_size",
    "word_length",
    "character_length",
    "truncate",
)
KEY = ("data", "model", "seed", "settings")
FIELDS = (
    *KEY,
    *scores.Scores._fields,
    "validation_accuracy",
    "best_epoch",
    "parameters",
    "seconds",
)


# A study asks for the keys of each run, and these take a while to read.
_load = functools.lru_cache(maxsize=1)(titles.load)


def run(
    name: str,
    seed: int,
    data: datasets.TextData,
    args: argparse.Namespace,
    line: str,
) -> dict[str, Any]:
    """Trains and tests a model.

    Args:
        name: One of `classifiers.NAMES`.
        seed: Of weights and of the order of titles.
        data: Titles.
        args: Of the command line.
        line: What the lines of progress start with.

    Returns:
        The results of the run.
    """
    start = time.process_time()
    if name in classifiers.BASELINES:
        found = _run_baseline(name, seed, data)
    else:
        model = classifiers.MODELS[name]
        found = _run_classifier(model, seed, data, args, line)
    return {**found, "seconds": round(time.process_time() - start, 1)}


def _run_baseline(name, seed, data):
    baseline = baselines.fit_baseline(name, data.train, seed)
    validation, test = (
        baselines.probabilities(baseline, part.texts)
        for part in (data.validation, data.test)
    )
    right = (validation > 0.5) == data.validation.labels
    return {
        **_rounded(scores.score(data.test.labels, test)),
        "validation_accuracy": round(float(right.mean()), 4),
    }


def _run_classifier(model, seed, data, args, line):
    settings = model.settings._replace(
        units=args.units,
        embedding_size=args.embedding_size,
        dropout=args.dropout,
    )
    is_words = settings.inputs == "words"
    fit = training.Fit(
        epochs=args.epochs if is_words else args.character_epochs,
        batch_size=args.batch_size,
        learning_rate=args.learning_rate,
        seed=seed,
        vectors=args.vectors,
        chunk_length=args.truncate if model.truncated else None,
    )
    length = args.word_length if is_words else args.character_length
    trained = training.train(data, settings, fit, length, [EpochLine(line)])
    probabilities = trained.probabilities(data.test.texts)
    return {
        **_rounded(scores.score(data.test.labels, probabilities)),
        "validation_accuracy": round(
            trained.history["val_accuracy"][trained.epoch], 4
        ),
        "best_epoch": trained.epoch + 1,
        "parameters": trained.network.count_params(),
    }


def _rounded(found):
    return {name: round(value, 4) for name, value in found._asdict().items()}


def describe_settings(args: argparse.Namespace) -> str:
    """What a result depends on besides data, model and seed."""
    vectors = Path(args.vectors).name if args.vectors else "none"
    return results.describe(args, TUNED, vectors=vectors)


def describe_data(args: argparse.Namespace, data: datasets.TextData) -> str:
    """A name of the texts and labels of all parts.

    Other files have another name, and docstrings of other packages.
    """
    name = "titles" if args.data_dir else "docstrings"
    digest = 0
    for part in (data.train, data.validation, data.test):
        texts = "\n".join(part.texts).encode("utf8", "replace")
        digest = zlib.crc32(texts, digest)
        digest = zlib.crc32(part.labels.astype("<i4").tobytes(), digest)
    return f"{name}-{digest:08x}"


def keys(args: argparse.Namespace) -> list[results.Key]:
    """The `KEY` of each run that the command line asks for."""
    data = describe_data(args, _load(args.data_dir))
    settings = describe_settings(args)
    return [
        (data, name, str(seed), settings)
        for seed in args.seeds
        for name in args.models
    ]


def do_runs(args: argparse.Namespace) -> list[results.Row]:
    """Does the runs that have no row.

    Returns:
        All rows of the titles and the settings, those of other runs too.
    """

    @functools.lru_cache(maxsize=1)
    def titles_of(seed):
        return titles.limit(_load(args.data_dir), args.train_size, seed)

    def run_one(key, line):
        name, seed = key["model"], int(key["seed"])
        return run(name, seed, titles_of(seed), args, line)

    file = results.ResultsFile(Path(args.output), FIELDS, KEY)
    wanted = keys(args)
    file.do_missing(wanted, run_one)
    data, *_, settings = wanted[0]
    return [
        row
        for row in file.read()
        if (row["data"], row["settings"]) == (data, settings)
    ]


def table(rows: Sequence[dict]) -> str:
    """Markdown table of means and standard deviations over seeds."""
    header = (
        "model | test accuracy % | AUC | precision, recall of real % | "
        "of machine-made % | calibration error % | CPU seconds | seeds"
    )
    lines = [header.split(" | ")]
    for name in classifiers.NAMES:
        own = [row for row in rows if row["model"] == name]
        if own:
            lines.append(_line(name, own))
    return tables.table(lines)


def _line(name, rows):
    def percent(field):
        return [100 * float(row[field]) for row in rows]

    def precision_and_recall(kind):
        fields = (f"precision_{kind}", f"recall_{kind}")
        return ", ".join(f"{np.mean(percent(field)):.1f}" for field in fields)

    return [
        name,
        tables.spread(percent("accuracy"), ".2f"),
        tables.spread([float(row["auc"]) for row in rows], ".4f"),
        precision_and_recall("real"),
        precision_and_recall("made"),
        f"{np.mean(percent('calibration_error')):.1f}",
        tables.mean(rows, "seconds", ".0f"),
        len(rows),
    ]


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("--data-dir", help="with titles/; default: docstrings")
    add(
        "--models",
        nargs="+",
        choices=classifiers.NAMES,
        default=list(classifiers.NAMES),
    )
    add("--seeds", nargs="+", type=integer(0), default=[0])
    add("--output", default="runs/titles.csv")
    add("--markdown", help="file for the table")
    add("--train-size", type=positive, help="training titles; default all")
    add("--epochs", type=positive, default=3)
    add("--character-epochs", type=positive, default=6, help="of characters")
    add("--units", type=positive, default=64)
    add("--embedding-size", type=positive, default=256)
    add("--vectors", help="GloVe file to start the embeddings from")
    add("--dropout", type=real("[0, 1)"), default=0.0)
    add("--learning-rate", type=real("(0, inf)"), default=2e-3)
    add("--batch-size", type=positive, default=64)
    for inputs, length in encoding.LENGTHS.items():
        name = f"--{inputs.removesuffix('s')}-length"
        add(name, type=positive, default=length, help=f"{inputs} of a title")
    add("--truncate", type=positive, default=28, help="steps of a chunk")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> str:
    """Runs what is not in the file yet; returns the table it prints."""
    args = parse(argv)
    if args.vectors:
        word_vectors.load_vectors(args.vectors)  # Fails early.
    print(datasets.describe(_load(args.data_dir)), flush=True)
    return tables.publish([table(do_runs(args))], args.markdown)


if __name__ == "__main__":
    main()
