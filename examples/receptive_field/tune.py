"""A search over adaptive receptive fields with KerasTuner.

    python -m examples.receptive_field.tune \
        segmentation --tuner random
    python -m examples.receptive_field.tune \
        text --dataset mr --data-dir DATA

Searches the largest field size S, the temperature of the sizes, fixed or
annealed, the summary and the estimator. Each trial trains one model; at the
end there are a table, the best trial first, and a picture, the score over S
and temperature, printed and written to the folder of the search.

Started again, also after a kill, it continues: finished trials are kept.
`tune_distributed.sh` runs it in several processes.
"""

import argparse
import pathlib
from collections.abc import Sequence

import keras_tuner
import numpy as np
from matplotlib.figure import Figure

from examples.common.arguments import integer
from examples.common.arguments import positive
from examples.common.arguments import real
from examples.common.datasets import CLASSES
from examples.common.trial_table import all_trials
from examples.common.trial_table import trial_table
from examples.receptive_field import tuning_tasks
from examples.receptive_field.cells import CELLS
from examples.receptive_field.tuning_tasks import Task
from keras_seqmech import tuning
from keras_seqmech.core.decisions.sampling import ESTIMATORS
from keras_seqmech.receptive_field.equations import SUMMARIES
from keras_seqmech.tuning import FIXED

TUNERS = {
    "random": keras_tuner.RandomSearch,
    "bayesian": keras_tuner.BayesianOptimization,
    "hyperband": keras_tuner.Hyperband,
}
# What a search does not depend on.
FREE = ("trials", "output", "data_dir", "verbose", "chief_timeout", "tuner")


def main(argv: Sequence[str] | None = None) -> str | None:
    """Runs the example; returns the table, except in a worker."""
    parser = make_parser()
    args = parser.parse_args(argv)
    if args.task == "text" and not args.data_dir:
        parser.error("text needs --data-dir")
    task = tuning_tasks.TASKS[args.task](args)
    try:
        tuner = open_tuner(args, task)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    tuner.search(
        **task.fit_arguments(), epochs=args.epochs, verbose=args.verbose
    )
    if not isinstance(tuner.oracle, keras_tuner.Oracle):
        return None  # A worker, whose chief has the results.
    return report(args, task, tuner)


def open_tuner(args: argparse.Namespace, task: Task) -> keras_tuner.Tuner:
    """A new search or the one that is in the folder."""

    def callbacks(hp: keras_tuner.HyperParameters, field: dict) -> list:
        annealing = tuning.choose_annealing(
            hp,
            task.steps * args.epochs,
            field["temperature"],
            tuple(args.final_temperature),
            args.schedules,
        )
        return [annealing]

    temperature = tuple(args.temperature)
    if args.temperature_step:
        temperature += (args.temperature_step,)
    hypermodel = tuning_tasks.ScoredHyperModel(
        task,
        max_size=tuple(args.max_size),
        temperature=temperature,
        choices={"summary": args.summaries, "estimator": args.estimators},
        callbacks=callbacks,
    )
    if args.tuner == "hyperband":
        options = {"max_epochs": args.epochs, "factor": 3}
    else:
        options = {"max_trials": args.trials}
    if args.tuner == "bayesian":
        options["num_initial_points"] = 4
    settings = {k: v for k, v in vars(args).items() if k not in FREE}
    return tuning.open_search(
        TUNERS[args.tuner],
        hypermodel,
        args.output.parent,
        args.output.name,
        settings={**settings, "scores": [task.objective, *task.metrics]},
        chief_timeout=args.chief_timeout,
        objective=keras_tuner.Objective(task.objective, "max"),
        seed=args.seed,
        **options,
    )


def report(
    args: argparse.Namespace, task: Task, tuner: keras_tuner.Tuner
) -> str:
    """Prints and writes table and picture; returns the table."""
    table = trial_table(tuner, [*task.metrics, "mean_size"])
    path = args.output / "results.md"
    path.write_text(table + "\n", "utf8")
    trials = all_trials(tuner)
    done = [trial for trial in trials if trial.score is not None]
    failed = sum(trial.status == "FAILED" for trial in trials)
    print(f"{table}\n\n{len(done)} trials, {failed} failed. Table: {path}")
    if done:
        figure = plot_scores(done, task.objective.replace("_", " "))
        figure.savefig(args.output / "sweep.png", dpi=150)
        print(f"Picture: {args.output / 'sweep.png'}")
    return table


def plot_scores(trials: Sequence, name: str) -> Figure:
    """Scores over S and the temperature, and over S alone; the best is ringed.

    Args:
        trials: Finished `keras_tuner` trials.
        name: Name of the score; more is better.
    """
    sizes = np.array(
        [trial.hyperparameters.values["max_size"] for trial in trials]
    )
    heats = np.array(
        [trial.hyperparameters.values["temperature"] for trial in trials]
    )
    scores = np.array([trial.score for trial in trials])
    kinds = np.array(
        [t.hyperparameters.values["temperature_schedule"] for t in trials]
    )
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.2, 1))
    for kind, marker in zip(np.unique(kinds), "o^s"):
        own = kinds == kind
        points = left.scatter(
            sizes[own],
            heats[own],
            s=70,
            c=scores[own],
            marker=marker,
            vmin=scores.min(),
            vmax=scores.max(),
        )
        right.scatter(
            sizes[own], scores[own], color="0.55", marker=marker, label=kind
        )
    tops = np.unique(sizes)
    right.plot(tops, [scores[sizes == size].max() for size in tops])
    best = scores.argmax()
    ring = {"s": 160, "facecolors": "none", "edgecolors": "#d1495b"}
    left.scatter(sizes[best], heats[best], linewidths=2, **ring)
    right.scatter(sizes[best], scores[best], linewidths=2, **ring)
    figure.colorbar(points, ax=left, label=name)
    left.set(yscale="log", ylabel="temperature")
    right.set_ylabel(name)
    right.legend()
    for axes in (left, right):
        axes.set(xlabel="largest field size S", xticks=tops)
    return figure


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("task", choices=list(tuning_tasks.TASKS))
    add("--tuner", choices=list(TUNERS), default="random")
    add("--trials", type=positive, default=16, help="not of hyperband")
    add("--epochs", type=positive, default=4, help="hyperband: the most")
    add("--output", type=pathlib.Path, default="runs/tune_receptive_field")
    add("--data-dir", help="segmentation: holds cws/pku_test.jsonl.gz")
    add("--dataset", choices=list(CLASSES), default="mr", help="of text")
    add("--sentences", type=positive, default=4000, help="of each set")
    above_0 = real("(0, inf)")
    search = {"nargs": 2, "metavar": ("LOW", "HIGH")}
    add("--max-size", type=positive, default=(1, 8), **search)
    add("--temperature", type=above_0, default=(0.1, 2.0), **search)
    factor = "factor between temperatures"
    add("--temperature-step", type=real("(1, inf)"), help=factor)
    add("--final-temperature", type=above_0, default=(0.1, 0.5), **search)
    schedules = (FIXED, "exponential", "linear")
    for name, choices, default in (
        ("--schedules", schedules, [FIXED]),
        ("--summaries", SUMMARIES, ["last"]),
        ("--estimators", ESTIMATORS, ["relaxed"]),
    ):
        add(name, nargs="+", choices=choices, default=default)
    add("--cell", choices=list(CELLS), default="lstm")
    add("--units", type=positive, default=64)
    add("--embedding-size", type=positive, default=64)
    add("--dropout", type=real("[0, 1)"), default=0.2)
    add("--learning-rate", type=above_0, default=3e-3)
    add("--batch-size", type=positive, default=64)
    add("--seed", type=integer(1), default=1)
    add("--jit-compile", action=argparse.BooleanOptionalAction, default=True)
    add("--verbose", type=integer(0, 2), default=2, help="of model.fit")
    add("--chief-timeout", type=above_0, default=60.0, help="of a worker, s")
    return parser


if __name__ == "__main__":
    main()
