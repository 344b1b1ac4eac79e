"""Which number follows a name? And what do all numbers of a name add up to?

    python -m examples.focused.lookup
    python -m examples.focused.lookup --task ledger

A log of `--length` words has `--pairs` names among other words, each followed
by a number. Asked for one of the names, the model answers with its number
("lookup", where names differ), or with the sum of its numbers modulo 5
("ledger", where they come again).

Models, gates, times and `--output` are as in `examples/focused/picking.py`.
"""

import argparse
import functools

import keras
import numpy as np

from examples.focused import experiments
from examples.focused import models
from examples.tasks import stream

# Names that there are, of each task.
NAMES = {"lookup": 16, "ledger": 4}
NUMBERS, OTHERS = 5, 8
TEST_SEED = 10**6

Examples = tuple[dict[str, np.ndarray], np.ndarray]


def draw(
    generator: np.random.Generator, count: int, args: argparse.Namespace
) -> Examples:
    """Random logs, int32 `(count, length)`, the names asked, and answers.

    Numbers are the first words, names the next ones. There is one pair in each
    of as many equal parts of a log.
    """
    known, shape = NAMES[args.task], (count, args.pairs)
    part = args.length // args.pairs
    log = generator.integers(OTHERS, size=(count, args.length))
    log += NUMBERS + known
    names = generator.integers(known, size=shape)
    if args.task == "lookup":
        each = np.tile(np.arange(known), (count, 1))
        names = generator.permuted(each, axis=1)[:, : args.pairs]
    numbers = generator.integers(NUMBERS, size=shape)
    places = generator.integers(part - 1, size=shape)
    places += part * np.arange(args.pairs)
    np.put_along_axis(log, places, NUMBERS + names, axis=1)
    np.put_along_axis(log, places + 1, numbers, axis=1)
    name = names[np.arange(count), generator.integers(args.pairs, size=count)]
    answers = np.sum(numbers * (names == name[:, None]), axis=1) % NUMBERS
    asked = {"log": log.astype("int32"), "name": name.astype("int32")}
    return asked, answers.astype("int32")


def build(name: str, estimator: str, args: argparse.Namespace) -> keras.Model:
    """A model that is given a `log` and a `name`."""
    inputs = {
        "log": keras.Input((None,), dtype="int32", name="log"),
        "name": keras.Input((), dtype="int32", name="name"),
    }
    known = NAMES[args.task]
    uniform = keras.initializers.RandomUniform(-1, 1)
    words = keras.layers.Embedding(
        NUMBERS + known + OTHERS, args.units, uniform, name="words"
    )
    names = keras.layers.Embedding(known, args.units, uniform, name="question")
    read = words(inputs["log"]), names(inputs["name"])
    asked = models.Asked(inputs, *read, NUMBERS)
    return models.build(name, estimator, asked, args)


def options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    experiments.options(parser)
    parser.set_defaults(preset="explored", units=32, steps=4000)
    add("--task", choices=[*NAMES], default="lookup")
    add("--length", type=int, default=96, help="words of a log")
    add("--pairs", type=int, default=8, help="names and numbers of a log")


def load(args: argparse.Namespace) -> experiments.Task:
    def draw_batch(generator, _):
        return [draw(generator, args.batch_size, args)]

    return experiments.Task(
        functools.partial(build, args=args),
        functools.partial(stream.dataset, draw_batch),
        draw(np.random.default_rng(TEST_SEED), args.test_size, args),
    )


PROGRAM = experiments.study(
    lambda args: args.task,
    doc=__doc__,
    output="runs/lookup.csv",
    options=options,
    settings=("length", "pairs"),
    load=load,
)

if __name__ == "__main__":
    PROGRAM.main()
