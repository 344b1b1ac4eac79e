"""Runs of the focused encoder's tasks: train, test, save, continue.

An epoch is `--evaluate-every` steps. After each the model is tested and saved,
so that a run that was killed continues from there. A finished run is a line of
a CSV file and is not repeated.
"""

import argparse
import functools
import zlib
from collections.abc import Callable
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from typing import NamedTuple

import keras
import numpy as np
import pandas as pd
import tensorflow as tf

from examples.common import exploring
from examples.common import interleaved
from examples.common import results
from examples.common import resumable_progress
from examples.common.arguments import integer
from examples.common.arguments import positive
from examples.common.arguments import real
from examples.common.networks import network_of
from examples.focused import models
from keras_seqmech.training import Schedule
from keras_seqmech.training import WarnOnDecisionCollapse

KEY = ("task", "model", "estimator", "openness_target", "seed", "settings")
MEASURED = (
    *("accuracy", "openness", "drawn_accuracy", "drawn_openness"),
    *("best_accuracy", "steps_to_95", "steps", "gate_variance_start"),
    *("gate_variance_end", "train_ms", "inference_ms", "parameters"),
    "seconds",
)
FIELDS = KEY + MEASURED
KIND = ("model", "estimator", "openness_target")
SETTINGS = (
    *("units", "learning_rate", "batch_size", "steps", "evaluate_every"),
    "test_size",
)
CURVE = ("step", "loss", "train_accuracy", "accuracy", "openness", "seconds")
REACHED = 0.95
# Repeated measurements of a time.
REPEATS = 9
# Share of the steps after which the entropy bonus is 0 and the penalty on open
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


class Progress(resumable_progress.ResumableProgress):
    """Tests answers and gates.

    Training draws the gates, so `train_accuracy` and `accuracy` differ until
    the gates are hard.
    """

    def __init__(
        self, probed: keras.Model, test: tuple[dict, np.ndarray], *options: Any
    ):
        super().__init__(*options)
        self.probed = probed
        self.test = test

    def measure(self) -> dict[str, float]:
        return models.measure(self.probed, *self.test, self.args.batch_size)


def add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    """Adds the options that both tasks share."""
    add = parser.add_argument
    models.add_arguments(parser)
    add("--seeds", nargs="+", type=integer(0), default=[0])
    add("--learning-rate", type=real("(0, inf)"), default=5e-3)
    add("--batch-size", type=positive, default=64)
    add("--steps", type=positive, default=30000, help="of training")
    every = "steps, an epoch: then gates' weights change, too"
    add("--evaluate-every", type=positive, default=500, help=every)
    add("--test-size", type=positive, default=2000)
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
    return exploring.check(parser, args)


def keys(
    args: argparse.Namespace, task: str, more: Sequence[str] = ()
) -> list[results.Key]:
    """Values of `KEY` of all runs, seed by seed; LSTMs have no estimators.

    `more` names the task's own settings.
    """
    found = []
    target = "" if args.explore else str(args.openness_target)
    for seed in args.seeds:
        for name in args.models:
            kinds, own = [("", "")], {}
            if name == "fhe":
                kinds = [(estimator, target) for estimator in args.estimators]
                own = models.gate_settings(args)
            settings = results.describe(args, [*SETTINGS, *more], **own)
            found += [(task, name, *x, str(seed), settings) for x in kinds]
    return found


def model_path(args: argparse.Namespace, key: Sequence[str]) -> Path:
    """The file of a run's model, of its own for each setting."""
    *parts, settings = key
    digest = f"{zlib.crc32(settings.encode()):08x}"
    folder = args.output.with_name(f"{args.output.stem}-models")
    return folder / f"{'-'.join([*filter(None, parts), digest])}.keras"


def do_runs(
    args: argparse.Namespace, wanted: Sequence[results.Key], task: Task
) -> list[results.Row]:
    """Does what has no row yet; returns the rows of the wanted runs."""

    def run(key: results.Row, line: str) -> dict:
        path = model_path(args, tuple(key.values()))
        path.parent.mkdir(parents=True, exist_ok=True)
        return train_and_test(key, args, task, path, line)

    def forget(key: results.Row) -> None:
        path = model_path(args, tuple(key.values()))
        resumable_progress.remove(path.with_suffix(""))

    file = results.ResultsFile(args.output, FIELDS, KEY)
    return file.do_missing(wanted, run, forget)


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
    models.compile_model(model, args.learning_rate, args.steps)
    model.optimizer.build(model.trainable_variables)
    batch = next(iter(task.batches(seed, 0)))
    probed = models.probe(model)
    progress = Progress(probed, task.test, args, path.with_suffix(""), line)
    state = progress.restore(model)
    if not state["step"]:
        state["gate_variance_start"] = models.gate_variance(model, *batch)
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
    curve = pd.DataFrame(state["curve"], columns=CURVE)
    curve.to_csv(path.with_suffix(".csv"), index=False)
    asked, answers = task.test
    drawn = models.measure_drawn(model, asked, answers, args.batch_size)
    # As long as the tested questions; the first of training may be shorter.
    timed = {
        name: np.resize(array, (args.batch_size, *array.shape[1:]))
        for name, array in asked.items()
    }
    (inference_ms,) = interleaved.median_ms(
        [functools.partial(probed.predict_on_batch, timed)], REPEATS
    )
    reached = curve["step"][curve["accuracy"] >= REACHED]
    # The first epoch compiles.
    times = state["train_ms"][1:] or state["train_ms"]
    return {
        "accuracy": percent(curve["accuracy"].iloc[-1]),
        "openness": percent(curve["openness"].iloc[-1]),
        **{name: percent(share) for name, share in drawn.items()},
        "best_accuracy": percent(curve["accuracy"].max()),
        "steps_to_95": reached.iloc[0] if len(reached) else "",
        "steps": state["step"],
        "gate_variance_start": state["gate_variance_start"],
        "gate_variance_end": models.gate_variance(model, *batch),
        "train_ms": round(float(np.median(times)), 1),
        "inference_ms": round(inference_ms, 1),
        "parameters": model.count_params(),
        "seconds": round(state["seconds"], 1),
    }


def gate_callbacks(
    model: keras.Model, args: argparse.Namespace
) -> list[keras.callbacks.Callback]:
    """Callbacks that change the weights and temperature of gates.

    The penalty on open gates grows from zero: before the network can use the
    states it reads, no gate is worth it, and all would close. Meanwhile the
    entropy bonus falls to zero: without it all gates would be open for good
    before any of them is penalized. Then the penalty on undecided gates rises,
    too, and the temperature of relaxed gates falls. With `--explore`,
    `ExploreThenCommit` takes the place of all this.
    """
    schedule = exploring.schedule(args)
    if schedule is not None:
        return [WarnOnDecisionCollapse(), schedule]
    gate = network_of(model).get_layer("encoder").gate
    entropy = models.ENTROPY_WEIGHT
    numbers = {
        "entropy": lambda share: entropy - rising(share, entropy, RAMP),
        "target_weight": lambda share: rising(
            share, gate.penalties.initial.target_weight, RAMP
        ),
        "indecision": lambda share: rising(
            share, args.indecision_weight, 2 * RAMP, LATE
        ),
    }
    if gate.estimator == "relaxed":
        numbers["temperature"] = lambda share: FINAL_TEMPERATURE**share
    return [
        # Until then gates are paid for exploring.
        WarnOnDecisionCollapse(begin=RAMP),
        Schedule(numbers, args.steps),
    ]


def rising(share: float, to: float, end: float, power: float = SLOW) -> float:
    """What rises from 0, and arrives at the share `end` of training."""
    return to * min(1.0, share / end) ** power


def percent(share: float) -> str:
    return f"{100 * share:.2f}"
