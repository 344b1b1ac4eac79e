"""Runs of the focused encoder's tasks: train, test, save, continue.

An epoch is `--evaluate-every` steps. After each the model is tested and saved,
so that a run that was killed continues from there.
"""

import argparse
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from examples.common import interleaved
from examples.common import presets
from examples.common import results
from examples.common import resumable
from examples.common import tables
from examples.common.networks import network_of
from examples.focused import models
from keras_seqmech.training import Schedule
from keras_seqmech.training import WarnOnDecisionCollapse

KEY = ("task", "model", "estimator", "openness_target", "seed", "settings")
SHARES = ("accuracy", "openness", "drawn_accuracy", "drawn_openness")
KIND = ("model", "estimator", "openness_target")
SETTINGS = (
    *("units", "learning_rate", "batch_size", "steps", "evaluate_every"),
    "test_size",
)
# Repeated measurements of a time.
REPEATS = 101
# Share of the steps after which exploration is 0 and the penalty on open
# gates whole; that on undecided ones is after twice as many.
RAMP = 0.3
# Exponents of the curricula: slow at first, and all but 0 in the first half.
SLOW, LATE = 2, 4
# Temperature of relaxed gates after all steps.
FINAL_TEMPERATURE = 0.3


class Task(NamedTuple):
    """What is learned and how it is tested."""

    build: Callable[[str, str], keras.Model]  # Of a model's name and estimator.
    batches: Callable[[int, int], tf.data.Dataset]  # Of a seed, from a step on.
    test: tuple[dict[str, np.ndarray], np.ndarray]  # Asked, and answers.


def add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    """Adds the options that both tasks share."""
    add = parser.add_argument
    models.add_arguments(parser)
    add("--seeds", nargs="+", type=int, default=[0])
    add("--learning-rate", type=float, default=5e-3)
    add("--batch-size", type=int, default=64)
    add("--steps", type=int, default=30000, help="training minibatches")
    every = "steps, an epoch: then gates' weights change, too"
    add("--evaluate-every", type=int, default=500, help=every)
    add("--test-size", type=int, default=2000)
    add("--output", type=Path, default=Path(f"runs/{name}.csv"))


def check(
    parser: argparse.ArgumentParser, args: argparse.Namespace
) -> argparse.Namespace:
    """Checks what argparse cannot."""
    if args.steps % args.evaluate_every:
        parser.error(
            "--steps: must be a multiple of --evaluate-every. Received: "
            f"{args.steps} and {args.evaluate_every}"
        )
    return models.complete(parser, args)


def keys(
    args: argparse.Namespace, task: str, more: Sequence[str] = ()
) -> list[results.Key]:
    """Values of `KEY` of all runs, seed by seed; LSTMs have no estimators.

    `more` names the task's own settings.
    """
    found = []
    target = "" if args.openness_target is None else str(args.openness_target)
    for seed in args.seeds:
        for name in args.models:
            kinds, own = [("", "")], {}
            if name == "fhe":
                kinds = [(estimator, target) for estimator in args.estimators]
                own = models.gate_settings(args)
            settings = results.describe(args, [*SETTINGS, *more], **own)
            found += [(task, name, *x, str(seed), settings) for x in kinds]
    return found


def file_of(args: argparse.Namespace) -> results.ResultsFile:
    """The file of the finished runs."""
    return results.ResultsFile(args.output, KEY)


def model_path(args: argparse.Namespace, key: Iterable[str]) -> Path:
    """The file of a run's model, of its own for each setting."""
    return results.with_ending(file_of(args).place(key), "keras")


def do_missing(
    keys: Iterable[results.Key], args: argparse.Namespace, task: Task
) -> list[results.Row]:
    """Does the runs that `--output` has no row of; returns all rows."""
    return file_of(args).do_missing(
        keys, lambda key: train_and_test(key, args, task)
    )


def train_and_test(
    key: results.Row, args: argparse.Namespace, task: Task
) -> dict:
    """Trains, tests and saves one model; returns its results.

    Training draws the gates, so accuracies in training and in tests differ
    until the gates are hard.
    """
    path, seed = model_path(args, key.values()), int(key["seed"])
    keras.utils.clear_session()
    keras.utils.set_random_seed(seed)
    model = task.build(key["model"], key["estimator"])
    models.compile_model(model, args.learning_rate, args.steps)
    probed, (asked, answers) = models.probe(model), task.test
    curve = resumable.fit(
        model,
        lambda step, curve: task.batches(seed, step),
        epochs=args.steps // args.evaluate_every,
        steps=args.evaluate_every,
        folder=path.with_suffix(""),
        callbacks=gate_callbacks(model, args),
        measure=lambda: models.measure(probed, asked, answers, args.batch_size),
    )
    saved = resumable.save(model, curve, args.evaluate_every, path)
    drawn = models.measure_drawn(model, asked, answers, args.batch_size)
    shares = {**curve[-1], **drawn}
    found = {
        **{x: percent(shares[x]) for x in SHARES if x in shares},
        **measure_times(model, args, task),
        **saved,
    }
    resumable.remove(path.with_suffix(""))
    return found


def table(rows: Sequence[results.Row]) -> str:
    """What runs measured, as a Markdown table."""
    return tables.by_kind(rows, KIND, results.measured(rows, KEY))


def measure_times(
    model: keras.Model, args: argparse.Namespace, task: Task
) -> dict[str, str]:
    """Milliseconds of a batch of the tested length, and shares of LSTMs' time.

    The LSTMs are new: their time does not depend on their weights.
    """
    batch = {
        name: np.resize(array, (args.batch_size, *array.shape[1:]))
        for name, array in task.test[0].items()
    }
    lstms = {name: task.build(name, "") for name in ("lstm1", "lstm2")}
    return interleaved.inference_over(network_of(model), lstms, batch, REPEATS)


def gate_callbacks(
    model: keras.Model, args: argparse.Namespace
) -> list[keras.callbacks.Callback]:
    """Callbacks that change the weights and temperature of gates, if any.

    The penalty on open gates grows from zero: before the network can use the
    states it reads, no gate is worth it, and all would close. Meanwhile the
    exploration falls to zero: without it all gates would be open for good
    before any of them is penalized. Then the penalty on undecided gates rises,
    too, and the temperature of relaxed gates falls. With a `--preset` that has
    a weight of reading, `ExploreThenCommit` takes the place of all this.
    """
    if not models.has_gates(model):
        return []
    schedule = presets.schedule(presets.GATES[args.preset].reading)
    if schedule is not None:
        return [WarnOnDecisionCollapse(), schedule]
    gate = network_of(model).get_layer("encoder").gate
    entropy = models.ENTROPY_WEIGHT
    numbers = {
        "entropy": lambda share: entropy - rising(share, entropy, RAMP),
        "target_weight": lambda share: rising(
            share, gate.penalties.target_weight, RAMP
        ),
        "indecision": lambda share: rising(
            share, args.indecision_weight, 2 * RAMP, LATE
        ),
    }
    if gate.estimator == "relaxed":
        numbers["temperature"] = lambda share: FINAL_TEMPERATURE**share
    return [
        # Until then gates explore.
        WarnOnDecisionCollapse(begin=RAMP),
        Schedule(numbers, args.steps),
    ]


def rising(share: float, to: float, end: float, power: float = SLOW) -> float:
    """What rises from 0, and arrives at the share `end` of training."""
    return to * min(1.0, share / end) ** power


def percent(share: float) -> str:
    return f"{100 * share:.2f}"
