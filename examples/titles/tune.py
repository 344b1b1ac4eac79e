"""A search over classifiers of titles with KerasTuner.

    python -m examples.titles.tune
    python -m examples.titles.tune --data-dir DATA --train-size 20000

Searches read-out, units, initial state, and for words the embedding's size.
Each trial trains one model, and trials are chosen by accuracy on the validation
titles in their best epoch. At the end there is a table, the best trial first,
printed and written to the folder of the search. The test titles are not looked
at; train what was found with `python -m examples.titles.classify`.

Started again, also after a kill, it continues: finished trials are kept.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import keras
import keras_tuner

from examples.common import tables
from examples.common.arguments import integer
from examples.common.arguments import positive
from examples.common.trial_table import trial_table
from examples.titles import data as titles
from examples.titles import encoding
from examples.titles import models
from examples.titles import training
from keras_seqmech import tuning

# What makes a search another one.
SETTINGS = ("data_dir", "train_size", "inputs", "epochs", "seed")
EMBEDDING_SIZES = [32, 64, 256]


def choose_settings(
    hp: keras_tuner.HyperParameters, args: argparse.Namespace
) -> models.Settings:
    """The classifier of a trial."""
    chosen = {}
    if args.inputs == "words":
        chosen["embedding_size"] = hp.Choice("embedding_size", EMBEDDING_SIZES)
    return models.Settings(
        inputs=args.inputs,
        units=hp.Choice("units", args.units),
        read_out=hp.Choice("read_out", list(models.READ_OUTS)),
        initial_state=hp.Choice("initial_state", list(models.INITIAL_STATES)),
        **chosen,
    )


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--data-dir", help="with titles/; default: docstrings")
    add("--train-size", type=positive, help="training titles; default all")
    add("--inputs", choices=list(encoding.LENGTHS), default="words")
    add("--units", type=positive, nargs="+", default=[32, 64, 128])
    add("--epochs", type=positive, default=2)
    add("--trials", type=positive, default=12)
    add("--seed", type=integer(0), default=0)
    add("--output", type=Path, default=Path("runs/tune_titles"))
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> str:
    """Runs the search; returns the table."""
    args = parse(argv)
    data = titles.limit(titles.load(args.data_dir), args.train_size, args.seed)
    length, words = encoding.LENGTHS[args.inputs], None
    if args.inputs == "words":
        words = encoding.vocabulary(data.train.texts)
    encoder = encoding.make_encoder(length, words)

    def build(hp):
        # All trials start from one seed.
        keras.utils.set_random_seed(args.seed)
        settings = choose_settings(hp, args)
        matrix = training.embeddings(words, settings, args.seed)
        network = models.build_network(settings, length, matrix)
        models.compile_network(network, learning_rate=2e-3)
        return network

    tuner = tuning.open_search(
        keras_tuner.RandomSearch,
        build,
        args.output.parent,
        args.output.name,
        settings={name: getattr(args, name) for name in SETTINGS},
        objective=keras_tuner.Objective("val_accuracy", "max"),
        max_trials=args.trials,
        seed=args.seed,
    )
    train, validation = (
        (encoding.encode(encoder, part.texts), part.labels)
        for part in (data.train, data.validation)
    )
    tuner.search(
        *train,
        validation_data=validation,
        batch_size=128,
        epochs=args.epochs,
        verbose=2,
    )
    table = trial_table(tuner, ["val_loss", "accuracy"])
    return tables.publish([table], args.output / "results.md")


if __name__ == "__main__":
    main()
