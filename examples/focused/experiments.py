"""Runs of the focused encoder's tasks: train, test, save, continue.

An epoch is `--evaluate-every` steps. After each the model is tested and saved,
so that a run that was killed continues from there.
"""

import argparse
from collections.abc import Callable
from typing import Any
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from examples.common import interleaved
from examples.common import presets
from examples.common import program
from examples.common import resumable
from examples.common.networks import network_of
from examples.focused import models
from keras_seqmech.training import Schedule
from keras_seqmech.training import WarnOnDecisionCollapse

# Those that are trained unless others are named.
ATTENDING = ["lstm1", "lstm2", "fhe"]
NUMBERS = {
    "units": 64,
    "learning_rate": 5e-3,
    "batch_size": 64,
    "steps": 30000,
    "evaluate_every": 500,  # Steps: an epoch.
    "test_size": 2000,
}
SHARES = tuple(
    f"{prefix}{name}"
    for prefix in ("", "drawn_", "summed_")
    for name in ("accuracy", "openness")
)
KIND = ("model", "estimator", "openness_target")
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


def options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that all tasks share."""
    add = parser.add_argument
    add("--models", nargs="+", choices=models.MODELS, default=ATTENDING)
    presets.add_argument(parser, presets.GATES)
    own = "in place of the preset's"
    add("--estimators", nargs="+", choices=models.ESTIMATORS, help=own)
    add("--openness-target", type=float, help=own)
    add("--jit-compile", action="store_true", help="fhe: loops by XLA")
    parser.set_defaults(sparsity_weight=2.0, indecision_weight=1.0)


def check(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Adds what the preset says and the command line does not."""
    gates = presets.GATES[args.preset]
    if args.openness_target is not None and gates.reading is not None:
        parser.error("--openness-target: the preset penalizes all open gates")
    if args.openness_target is None:
        args.openness_target = gates.target
    args.estimators = args.estimators or [gates.estimator]
    if not gates.commits:
        args.indecision_weight = 0.0


def study(
    name_of: Callable[[argparse.Namespace], str],
    settings: tuple[str, ...] = (),
    **own: Any,
) -> program.Program:
    """The program of a task; `settings` are options of its own, if given."""

    def cases(args: argparse.Namespace) -> program.Cases:
        target = args.openness_target
        for name in args.models:
            has_gates = name == "fhe"
            for estimator in args.estimators if has_gates else [""]:
                known = has_gates and target is not None
                yield {
                    "task": name_of(args),
                    "model": name,
                    "estimator": estimator,
                    "openness_target": target if known else "",
                }

    def more(args: argparse.Namespace, case: program.Case) -> program.Case:
        found = {name: getattr(args, name) for name in settings}
        found = {name: x for name, x in found.items() if x is not None}
        if case["model"] == "fhe":
            found |= gate_settings(args)
        return found

    return program.Program(
        **{"options": options, "check": check, **own},
        key=("task", *KIND, "seed", "settings"),
        cases=cases,
        numbers=NUMBERS,
        more=more,
        run=train_and_test,
    )


def gate_settings(args: argparse.Namespace) -> dict[str, Any]:
    """What the results of gates depend on."""
    gates = presets.GATES[args.preset]
    if gates.reading is not None:
        return {"read_out": gates.read_out, "reading": gates.reading}
    names = ("sparsity_weight", "indecision_weight")
    own = {name: getattr(args, name) for name in names}
    return {"read_out": gates.read_out, **own}


def train_and_test(run: program.Run) -> dict[str, Any]:
    """Trains, tests and saves one model.

    Training draws the gates, so accuracies in training and in tests differ
    until the gates are hard.
    """
    args, task = run.args, run.data
    model = task.build(run.key["model"], run.key["estimator"])
    models.compile_model(model, args.learning_rate, args.steps)
    probed, (asked, answers) = models.probe(model), task.test
    curve = resumable.fit(
        model,
        lambda step, curve: task.batches(run.seed, step),
        epochs=args.steps // args.evaluate_every,
        steps=args.evaluate_every,
        folder=run.place,
        callbacks=gate_callbacks(model, args),
        measure=lambda: models.measure(probed, asked, answers, args.batch_size),
    )
    path = run.file("keras")
    saved = resumable.save(model, curve, args.evaluate_every, path)
    others = models.measure_others(
        model,
        lambda: models.measure(
            models.probe(model), asked, answers, args.batch_size
        ),
    )
    shares = {**curve[-1], **others}
    return {
        **{x: percent(shares[x]) for x in SHARES if x in shares},
        **measure_times(model, args, task),
        **saved,
    }


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
    states it reads, no gate is worth it. Meanwhile the exploration falls to
    zero: without it all gates would be open for good before any is penalized.
    Then the penalty on undecided gates rises, and the temperature falls. With a
    `--preset` that has a weight of reading, `ExploreThenCommit` does all this.
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
