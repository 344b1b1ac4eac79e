"""A search over classifiers of titles with KerasTuner.

    python -m examples.titles.tune
    python -m examples.titles.tune --data-dir DATA --train-size 20000

Searches read-out, units, initial state, and for words the embedding's size;
with `--receptive-field LOW HIGH` also the largest adaptive field. Each trial
trains one model, and trials are chosen by accuracy on the validation titles:
that of the best epoch, with fields of the last, as their sizes explore before.
At the end there is a table, the best trial first, printed and written
to the folder of the search. The test titles are not looked at; train what was
found with `python -m examples.titles.classify`.

Started again, also after a kill, it continues: finished trials are kept.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import keras
import keras_tuner

from examples.common import word_vectors
from examples.common.arguments import integer
from examples.common.arguments import positive
from examples.common.arguments import real
from examples.titles import data as titles
from examples.titles import encoding
from examples.titles import models
from keras_seqmech import ExploreThenCommit
from keras_seqmech import tuning

TUNERS = {
    "random": keras_tuner.RandomSearch,
    "bayesian": keras_tuner.BayesianOptimization,
}
SETTINGS = (
    "data_dir",
    "train_size",
    "inputs",
    "cell",
    "layers",
    "length",
    "vectors",
    "epochs",
    "batch_size",
    "learning_rate",
    "seed",
)


def choose_settings(
    hp: keras_tuner.HyperParameters, args: argparse.Namespace
) -> models.Settings:
    """The classifier of a trial."""
    chosen = {}
    if args.inputs == "words" and not args.vectors:
        chosen["embedding_size"] = hp.Choice(
            "embedding_size", args.embedding_sizes
        )
    if args.receptive_field:
        chosen["field_size"] = tuning.choose_max_size(
            hp, tuple(args.receptive_field), args.length
        )
    return models.Settings(
        inputs=args.inputs,
        cell=args.cell,
        layers=args.layers,
        units=hp.Choice("units", args.units),
        read_out=hp.Choice("read_out", args.read_outs),
        initial_state=hp.Choice("initial_state", args.initial_states),
        **chosen,
    )


class Search(keras_tuner.HyperModel):
    """What trials share: encoded titles, and how a trial's model is made."""

    def __init__(self, args: argparse.Namespace):
        super().__init__()
        self.args = args
        data = titles.load(args.data_dir)
        data = titles.limit(data, args.train_size, args.seed)
        self.words = None
        if args.inputs == "words":
            self.words = encoding.vocabulary(data.train.texts)
        self.encoder = encoding.make_encoder(
            args.inputs, args.length, self.words
        )
        self.train, self.validation = (
            (encoding.encode(self.encoder, part.texts), part.labels)
            for part in (data.train, data.validation)
        )

    def build(self, hp: keras_tuner.HyperParameters) -> keras.Model:
        """The compiled classifier of a trial; all start from one seed."""
        keras.utils.set_random_seed(self.args.seed)
        settings = choose_settings(hp, self.args)
        matrix = None
        if self.words is not None:
            matrix = word_vectors.embedding_matrix(
                self.words,
                self.args.vectors,
                settings.embedding_size,
                self.args.seed,
            )
        network = models.build_network(settings, self.args.length, matrix)
        models.compile_network(network, self.args.learning_rate)
        return network

    def fit(
        self,
        hp: keras_tuner.HyperParameters,
        model: keras.Model,
        *args,
        **kwargs,
    ) -> keras.callbacks.History | dict[str, float]:
        """Trains a trial's model; returns what KerasTuner scores it by.

        Of a history that is its best epoch.
        """
        history = model.fit(*args, **kwargs)
        if not self.args.receptive_field:
            return history
        return {name: values[-1] for name, values in history.history.items()}

    def callbacks(self) -> list[keras.callbacks.Callback]:
        """Of each trial's training."""
        return [ExploreThenCommit()] if self.args.receptive_field else []


def open_tuner(args: argparse.Namespace, search: Search) -> keras_tuner.Tuner:
    """A new search or the one that is in the folder."""
    settings = {name: getattr(args, name) for name in SETTINGS}
    if args.receptive_field:
        # Searches from before are others: they scored the best epoch.
        settings["scored_epoch"] = "last"
    return tuning.open_search(
        TUNERS[args.tuner],
        search,
        args.output.parent,
        args.output.name,
        settings=settings,
        objective=keras_tuner.Objective("val_accuracy", "max"),
        max_trials=args.trials,
        seed=args.seed,
    )


def report(args: argparse.Namespace, tuner: keras_tuner.Tuner) -> str:
    """Prints and writes the table of trials."""
    results = tuning.trial_results(tuner.project_dir)
    table = tuning.results_table(
        results, "val_accuracy", metrics=["val_loss", "accuracy"]
    )
    path = args.output / "results.md"
    path.write_text(table + "\n", "utf8")
    failed = sum(result.status == "FAILED" for result in results)
    done = sum(result.score is not None for result in results)
    print(f"{table}\n\n{done} trials, {failed} failed. Table: {path}")
    return table


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--data-dir", help="with titles/; default: docstrings")
    add("--train-size", type=positive, help="training titles; default all")
    add("--inputs", choices=models.INPUTS, default="words")
    add("--length", type=positive, help="words or characters of a title")
    add("--cell", choices=list(models.CELLS), default="gru")
    add("--layers", type=int, choices=(1, 2, 3), default=1)
    add("--units", type=positive, nargs="+", default=[32, 64, 128])
    add("--embedding-sizes", type=positive, nargs="+", default=[32, 64, 256])
    for name, choices in (
        ("--read-outs", models.READ_OUTS),
        ("--initial-states", models.INITIAL_STATES),
    ):
        add(name, nargs="+", choices=choices, default=list(choices))
    add(
        "--receptive-field",
        type=positive,
        nargs=2,
        metavar=("LOW", "HIGH"),
        help="largest adaptive field; default: no fields",
    )
    add("--vectors", help="GloVe file to start the embeddings from")
    add("--epochs", type=positive, default=2)
    add("--batch-size", type=positive, default=128)
    add("--learning-rate", type=real("(0, inf)"), default=2e-3)
    add("--tuner", choices=list(TUNERS), default="random")
    add("--trials", type=positive, default=12)
    add("--seed", type=integer(0), default=0)
    add("--output", type=Path, default=Path("runs/tune_titles"))
    add("--verbose", type=integer(0), default=2, help="of model.fit")
    args = parser.parse_args(argv)
    args.length = args.length or encoding.LENGTHS[args.inputs]
    low, high = args.receptive_field or (1, 1)
    if not low <= high <= args.length:
        parser.error(
            "--receptive-field: must be LOW <= HIGH <= --length "
            f"{args.length}. Received: {low} {high}"
        )
    if args.vectors and not Path(args.vectors).is_file():
        parser.error(f"--vectors: no such file. Received: {args.vectors}")
    return args


def main(argv: Sequence[str] | None = None) -> str:
    """Runs the search; returns the table."""
    args = parse(argv)
    search = Search(args)
    tuner = open_tuner(args, search)
    tuner.search(
        *search.train,
        validation_data=search.validation,
        batch_size=args.batch_size,
        epochs=args.epochs,
        callbacks=search.callbacks(),
        verbose=args.verbose,
    )
    return report(args, tuner)


if __name__ == "__main__":
    main()
