"""Runs of the focused encoder's tasks: train, test, save, continue.

A run is trained by one `fit`, an epoch of which is `--evaluate-every` steps.
After each the model is tested and saved, so that a run that was killed
continues from there. A finished run is a line of a CSV file and is not
repeated.
"""

import argparse
import csv
import functools
import zlib
from collections.abc import Callable
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from examples.common import interleaved
from examples.common import results
from examples.common import resumable_progress
from examples.common import tables
from examples.common.arguments import integer
from examples.common.arguments import positive
from examples.common.arguments import real
from examples.focused import models
from examples.focused.progress import Progress
from examples.focused.progress import gate_callbacks

KEY = ("task", "model", "estimator", "openness_target", "seed", "settings")
FIELDS = (
    *KEY,
    "accuracy",
    "openness",
    "drawn_accuracy",
    "drawn_openness",
    "best_accuracy",
    "steps_to_95",
    "steps",
    "gate_variance_start",
    "gate_variance_end",
    "train_ms",
    "inference_ms",
    "parameters",
    "seconds",
)
SETTINGS = (
    "units",
    "learning_rate",
    "clip_norm",
    "batch_size",
    "steps",
    "evaluate_every",
    "test_size",
)
CURVE = ("step", "loss", "train_accuracy", "accuracy", "openness", "seconds")
REACHED = 0.95
DRAWS = 16
# Of times.
REPEATS = 9


def add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    """Adds the options that both tasks share."""
    add = parser.add_argument
    models.add_arguments(parser)
    add("--seeds", nargs="+", type=integer(0), default=[0])
    above = real("(0, inf)")
    add("--learning-rate", type=above, default=5e-3)
    add("--clip-norm", type=above, default=1.0, help="of the whole gradient")
    add("--batch-size", type=positive, default=64)
    add("--steps", type=positive, default=30000, help="of training, at most")
    add("--minutes", type=above, help="of training a run, at most")
    every = "steps, an epoch: then gates' weights change, too"
    add("--evaluate-every", type=positive, default=500, help=every)
    add("--test-size", type=positive, default=2000)
    add("--output", type=Path, default=Path(f"runs/{name}.csv"))
    add("--markdown", type=Path, help="file for the table")
    add("--save-models", type=Path, help="folder; default: beside --output")


def complete(
    parser: argparse.ArgumentParser, args: argparse.Namespace
) -> argparse.Namespace:
    """Checks what argparse cannot, and fills in what depends on the rest."""
    if args.steps % args.evaluate_every:
        parser.error(
            "--steps: must be a multiple of --evaluate-every. Received: "
            f"{args.steps} and {args.evaluate_every}"
        )
    models.check(parser, args)
    folder = args.output.with_name(f"{args.output.stem}-models")
    args.save_models = args.save_models or folder
    return args


def keys(
    args: argparse.Namespace, task: str, more: Sequence[str]
) -> list[results.Key]:
    """Values of `KEY` of all runs, seed by seed; LSTMs have no estimators.

    Args:
        args: Of the command line.
        task: What is learned.
        more: Names of the task's own settings.
    """
    found, names = [], settings_names(args, more)
    for seed in args.seeds:
        for name in args.models:
            estimators, target, own = [""], "", {}
            if name == "fhe":
                own = models.gate_settings(args)
                estimators, target = args.estimators, models.gate_target(args)
            for estimator in estimators:
                fields = (task, name, estimator, target, seed)
                settings = results.describe(args, names, **own)
                found.append((*map(str, fields), settings))
    return found


def settings_names(args: argparse.Namespace, more: Sequence[str]) -> list[str]:
    """Names of all settings; of a limit of time only if there is one.

    Args:
        args: Of the command line.
        more: Names of the task's own settings.
    """
    minutes = [] if args.minutes is None else ["minutes"]
    return [*SETTINGS, *more, *minutes]


def stem(key: Sequence[str]) -> str:
    """A file name for a run, of its own for each setting."""
    digest = zlib.crc32(key[-1].encode())
    return "-".join([*filter(None, key[:-1]), f"{digest:08x}"])


class Task(NamedTuple):
    """What is learned and how it is tested.

    Attributes:
        build: `build(name, estimator)` makes a model.
        batches: `batches(seed, step)` gives the training batches from a step
            on, without end.
        test: What is asked, and the answers.
    """

    build: Callable[[str, str], keras.Model]
    batches: Callable[[int, int], tf.data.Dataset]
    test: tuple[dict[str, np.ndarray], np.ndarray]


def do_runs(
    args: argparse.Namespace,
    wanted: Sequence[results.Key],
    task: Task,
    after: Callable[[results.Row, Path], None] | None = None,
) -> list[results.Row]:
    """Does what has no row yet; returns the rows of the wanted runs.

    Args:
        args: Of the command line.
        wanted: Values of `KEY`.
        task: What they learn.
        after: `after(key, path)` is called for every wanted run that has a
            row, with the path of its trained model.
    """
    args.save_models.mkdir(parents=True, exist_ok=True)

    def path_of(key: results.Row) -> Path:
        return args.save_models / f"{stem(tuple(key.values()))}.keras"

    rows = results.ResultsFile(args.output, FIELDS, KEY).do_missing(
        wanted,
        lambda key, line: train_and_test(key, args, task, path_of(key), line),
        lambda key: resumable_progress.remove(path_of(key).with_suffix("")),
    )
    if after is not None:
        for row in rows:
            key = {name: row[name] for name in KEY}
            after(key, path_of(key))
    return rows


def train_and_test(
    key: results.Row,
    args: argparse.Namespace,
    task: Task,
    path: Path,
    line: str,
) -> dict:
    """Trains, tests and saves one model; returns its results."""
    seed = int(key["seed"])
    keras.utils.clear_session()
    keras.utils.set_random_seed(seed)
    model = task.build(key["model"], key["estimator"])
    models.compile_model(model, args.learning_rate, args.clip_norm, args.steps)
    model.optimizer.build(model.trainable_variables)
    batch = next(iter(task.batches(seed, 0)))
    progress = Progress(task.test, args, path.with_suffix(""), line)
    state = progress.restore(model)
    gradient = models.GateGradient(model)
    if not state["step"]:
        state["gate_variance_start"] = gradient.variance(*batch, DRAWS)
    if not progress.is_over():
        callbacks = []
        if models.has_gates(model):
            callbacks = gate_callbacks(model, args)
        model.fit(
            task.batches(seed, state["step"]),
            initial_epoch=state["step"] // args.evaluate_every,
            epochs=args.steps // args.evaluate_every,
            steps_per_epoch=args.evaluate_every,
            # What the others set at the end of an epoch is saved, too.
            callbacks=[*callbacks, progress],
            shuffle=False,
            verbose=0,
        )
    model.save(path)
    write_curve(path.with_suffix(".csv"), state["curve"])
    row = {**summary(state), "parameters": model.count_params()}
    drawn = models.measure_drawn(
        model, models.probe(model), *task.test, args.batch_size
    )
    row.update({name: percent(value) for name, value in drawn.items()})
    row["gate_variance_end"] = gradient.variance(*batch, DRAWS)
    batch = first_questions(task.test[0], args.batch_size)
    (inference,) = interleaved.median_ms(
        [functools.partial(progress.probed.predict_on_batch, batch)],
        REPEATS,
    )
    row["inference_ms"] = round(inference, 1)
    return row


def summary(state: dict) -> dict:
    """Results that follow from the curve of a run, accuracies in %."""
    curve = state["curve"]
    accuracies = [point["accuracy"] for point in curve]
    reached = [p["step"] for p in curve if p["accuracy"] >= REACHED]
    # The first epoch compiles.
    times = state["train_ms"][1:] or state["train_ms"]
    return {
        "accuracy": percent(accuracies[-1]),
        "openness": percent(curve[-1].get("openness", np.nan)),
        "best_accuracy": percent(max(accuracies)),
        "steps_to_95": reached[0] if reached else "",
        "steps": state["step"],
        "gate_variance_start": state["gate_variance_start"],
        "train_ms": round(float(np.median(times)), 1),
        "seconds": round(state["seconds"], 1),
    }


def percent(share: float) -> str:
    return f"{100 * share:.2f}"


def write_curve(path: Path, curve: Sequence[dict]) -> None:
    """Writes a run's tests by step to a CSV file."""
    with open(path, "w", newline="", encoding="utf8") as file:
        writer = csv.DictWriter(file, CURVE)
        writer.writeheader()
        writer.writerows(curve)


def first_questions(
    asked: dict[str, np.ndarray], count: int
) -> dict[str, np.ndarray]:
    """So many of the test questions, from the first again after the last.

    They are as long as those that are tested; the first ones of training may be
    shorter.
    """
    return {
        name: np.resize(array, (count, *array.shape[1:]))
        for name, array in asked.items()
    }


def kinds(rows: Sequence[dict]) -> dict[tuple, list[dict]]:
    """Rows that differ in their seed alone, by model, estimator and target."""
    found = {}
    for row in rows:
        kind = (row["model"], row["estimator"], row["openness_target"])
        found.setdefault(kind, []).append(row)
    return found


def kind_name(kind: tuple) -> str:
    """The name of a kind of model in tables.

    >>> kind_name(("fhe", "reinforce", "0.1"))
    'fhe, reinforce, target 0.1'
    """
    name, estimator, target = kind
    target = f"target {target}" if target else ""
    return ", ".join(filter(None, (name, estimator, target)))


def report(
    args: argparse.Namespace, parts: Sequence[str], more: Sequence[str] = ()
) -> str:
    """Prints tables with their notes, and writes them to `--markdown`.

    Args:
        args: Of the command line.
        parts: The tables.
        more: Names of the task's own settings.
    """
    notes = (
        "Means over seeds; in brackets, over how many, if a number is not "
        'known for all. Slides: those of "Focused Hierarchical RNNs for '
        'Conditional Sequence Processing". Drawn: with gates drawn as in '
        "training, not open above one half. The gate variance is the sum of "
        f"the variances of the gate's gradient over {DRAWS} draws on the "
        "first training batch; at the start, of the untrained model with the "
        "whole sparsity weight, if there is one."
    )
    names = settings_names(args, more)
    described = results.describe(args, names, **models.gate_settings(args))
    settings = f"Settings: `{described}`."
    return tables.publish([*parts, notes, settings], args.markdown)
