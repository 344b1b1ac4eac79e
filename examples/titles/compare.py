"""What matters to a classifier of titles, one difference after the other.

    python -m examples.titles.compare --data-dir DATA --seeds 0 1 2

Trains the models of `MODELS` and the baselines on the same titles, and prints
their scores on the test titles. Unless its name says otherwise, a model is a
classifier of words with one layer of `GRU` and the read-out `max`. The best
epoch on the validation titles is tested, with receptive fields the last.

The seed draws the training titles where `--train-size` is less than all, the
weights, and the order of batches. Each finished run is a line of `--output`, a
CSV file, and is not repeated; give each process a file of its own.
`--markdown` writes the table.
"""

import argparse
import time
import zlib
from collections.abc import Sequence
from pathlib import Path

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
from examples.titles import data as titles
from examples.titles import encoding
from examples.titles import scores
from examples.titles import training
from examples.titles.models import Settings

MODELS = {
    "words max": Settings(),
    "words last": Settings(read_out="last"),
    "words mean": Settings(read_out="mean"),
    "words concat": Settings(read_out="concat"),
    "words attention": Settings(read_out="attention"),
    "words max_attention": Settings(read_out="max_attention"),
    "characters max": Settings("characters"),
    "characters last": Settings("characters", read_out="last"),
    "words max, learned state": Settings(initial_state="learned"),
    "words max, drawn state": Settings(initial_state="drawn"),
    "words last, learned state": Settings(
        initial_state="learned", read_out="last"
    ),
    "words last, drawn state": Settings(initial_state="drawn", read_out="last"),
    "words max, padding read": Settings(read_padding=True),
    "words last, padding read": Settings(read_padding=True, read_out="last"),
    "words mean, padding read": Settings(read_padding=True, read_out="mean"),
    "characters last, padding read": Settings(
        "characters", read_padding=True, read_out="last"
    ),
    "words max, fields": Settings(field_size=3),
    "words last, fields": Settings(field_size=3, read_out="last"),
    "words max, lstm": Settings(cell="lstm"),
    "words max, simple": Settings(cell="simple"),
    "words max, 2 layers": Settings(layers=2),
    "words max, both directions": Settings(bidirectional=True),
    "characters last, drawn state": Settings(
        "characters", initial_state="drawn", read_out="last"
    ),
    "characters last, truncated": Settings("characters", read_out="last"),
}
NAMES = (*baselines.BASELINES, *MODELS)
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


def run(
    name: str, seed: int, data: datasets.TextData, args: argparse.Namespace
) -> dict:
    """Trains and tests one of `NAMES`; returns its results."""
    start = time.process_time()
    if name in baselines.BASELINES:
        found = _run_baseline(name, seed, data)
    else:
        found = _run_classifier(name, seed, data, args)
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


def _run_classifier(name, seed, data, args):
    settings = MODELS[name]._replace(
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
        chunk_length=args.truncate if name.endswith("truncated") else None,
    )
    length = args.word_length if is_words else args.character_length
    trained = training.train(
        data, settings, fit, length, [EpochLine(f"{name} seed {seed}")]
    )
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
    """A name of the texts: other files, or versions of packages, differ."""
    name = "titles" if args.data_dir else "docstrings"
    texts = "\n".join([*data.train.texts, *data.test.texts])
    return f"{name}-{zlib.crc32(texts.encode('utf8', 'replace')):08x}"


def table(rows: Sequence[dict]) -> str:
    """Markdown table of means and standard deviations over seeds."""
    header = (
        "model | test accuracy % | AUC | precision, recall of real % | "
        "of machine-made % | calibration error % | CPU seconds | seeds"
    )
    lines = [header.split(" | ")]
    for name in NAMES:
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
    add("--models", nargs="+", choices=NAMES, default=list(NAMES))
    add("--seeds", nargs="+", type=integer(0), default=[0])
    add("--output", default="results/titles.csv")
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
    settings = describe_settings(args)
    if args.vectors:
        word_vectors.load_vectors(args.vectors)  # Fails early.
    data = titles.load(args.data_dir)
    name_of_data = describe_data(args, data)
    print(datasets.describe(data), flush=True)

    def same(rows):
        return [
            row
            for row in rows
            if (row["data"], row["settings"]) == (name_of_data, settings)
        ]

    rows = results.read_rows(args.output, FIELDS)
    for seed in args.seeds:
        own = titles.limit(data, args.train_size, seed)
        for name in args.models:
            done = {(row["model"], row["seed"]) for row in same(rows)}
            if (name, str(seed)) in done:
                continue
            row = dict(zip(KEY, (name_of_data, name, seed, settings)))
            row.update(run(name, seed, own, args))
            rows = results.add_row(args.output, FIELDS, row, KEY)
            print({k: v for k, v in row.items() if k != "settings"}, flush=True)
    return tables.publish([table(same(rows))], args.markdown)


if __name__ == "__main__":
    main()
