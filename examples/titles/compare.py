"""What matters to a classifier of titles, one difference after the other.

    python -m examples.titles.compare --data-dir DATA --seeds 0 1 2

A model's name says what it reads, its read-out, and what else differs from one
layer of `GRU`. The best epoch on the validation titles is tested. With
`--shuffle` the words of all titles are in random order: what is it worth? The
seed draws the training titles, the weights, and the order of batches.
"""

import argparse
import functools
import time
from pathlib import Path
from typing import Any

from examples.common import datasets
from examples.common import program
from examples.titles import data as titles
from examples.titles import encoding
from examples.titles import models
from examples.titles import scores
from examples.titles import training

DIFFERENCES: dict[str, dict[str, Any]] = {
    "": {},
    "learned state": {"initial_state": "learned"},
    "drawn state": {"initial_state": "drawn"},
    "padding read": {"read_padding": True},
    "lstm": {"cell": "lstm"},
    "simple": {"cell": "simple"},
    "2 layers": {"layers": 2},
    "both directions": {"bidirectional": True},
    "truncated": {},
}
CLASSIFIERS = (
    *(f"words {read_out}" for read_out in models.READ_OUTS),
    *("characters max", "characters last"),
    *(f"words max, {x}" for x in DIFFERENCES if x not in ("", "truncated")),
    *("words last, learned state", "words last, drawn state"),
    *("words last, padding read", "words mean, padding read"),
    *("characters last, drawn state", "characters last, truncated"),
)
NAMES = (*scores.NAMES, *CLASSIFIERS)
# Steps of a chunk in truncated backpropagation.
CHUNK = 28


# A study calls `main` for each run, and titles take a while to read.
@functools.lru_cache(maxsize=1)
def load(data_dir: Path | None, is_shuffled: bool) -> datasets.TextData:
    data = titles.load(data_dir)
    return titles.shuffled(data) if is_shuffled else data


def run(own: program.Run) -> dict[str, Any]:
    """Trains and tests one of `NAMES`, on titles that the seed draws."""
    start = time.process_time()
    name, seed, args = own.key["model"], own.seed, own.args
    chosen = datasets.choose(own.data.train, args.train_size, seed)
    data = own.data._replace(train=chosen)
    if name in scores.NAMES:
        baseline = scores.fit_baseline(name, data.train, seed)
        validation, test = (
            scores.probabilities(baseline, part.texts)
            for part in (data.validation, data.test)
        )
        accuracy = float(((validation > 0.5) == data.validation.labels).mean())
        more: dict[str, Any] = {}
    else:
        trained = train(name, seed, data, args)
        test = trained.probabilities(data.test.texts)
        accuracy = trained.history["val_accuracy"][trained.epoch]
        more = {
            "best_epoch": trained.epoch + 1,
            "parameters": trained.network.count_params(),
        }
    found = scores.score(data.test.labels, test)._asdict()
    found["validation_accuracy"] = accuracy
    rounded = {column: round(value, 4) for column, value in found.items()}
    seconds = round(time.process_time() - start, 1)
    return {**rounded, **more, "seconds": seconds}


def train(
    name: str, seed: int, data: datasets.TextData, args: argparse.Namespace
) -> training.Trained:
    """Trains one of `CLASSIFIERS`."""
    kind, _, difference = name.partition(", ")
    inputs, read_out = kind.split()
    settings = models.Settings(
        inputs=inputs,
        read_out=read_out,
        units=args.units,
        embedding_size=args.embedding_size,
        **DIFFERENCES[difference],
    )
    chunk = CHUNK if difference == "truncated" else None
    fit = training.Fit(args.epochs, args.batch_size, seed, chunk_length=chunk)
    return training.train(data, settings, fit, encoding.LENGTHS[inputs])


def options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--models", nargs="+", choices=NAMES, default=list(NAMES))
    add("--shuffle", action="store_true", help="words in random order")


def cases(args: argparse.Namespace) -> program.Cases:
    data = "titles" if args.data_dir else "docstrings"
    data += ", shuffled" if args.shuffle else ""
    return program.grid(data=[data], model=args.models)


PROGRAM = program.Program(
    doc=__doc__,
    output="runs/titles.csv",
    options=options,
    key=("data", "model", "seed", "settings"),
    cases=cases,
    needs_data=lambda args: False,
    numbers={
        "train_size": int,  # By default all.
        "epochs": 6,
        "units": 64,
        "embedding_size": 256,
        "batch_size": 64,
    },
    load=lambda args: load(args.data_dir, args.shuffle),
    run=run,
)

if __name__ == "__main__":
    PROGRAM.main()
