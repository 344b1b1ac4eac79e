"""Cost of `ReceptiveFieldRNN(LSTMCell)` over `keras.layers.LSTM`.

    python -m benchmarks.receptive_field [--repeats 15] [--rows uniform]
    python -m benchmarks.receptive_field --scaling

Prints, for each shape, rows and task, the milliseconds with and without XLA of
both layers under the same mask, the ratio in graphs, and that of the better of
the two on either side. `--rows` says how long the rows are: all steps without
a mask, all steps with one, uniform from 1 to all of them, or geometric with a
mean of a fifth of them.
"""

import argparse
import itertools
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from benchmarks import timing
from keras_seqmech import ReceptiveFieldRNN
from keras_seqmech import ReceptiveFieldWindows
from keras_seqmech import RFCell

SHAPES = {
    "A": {"batch": 64, "time": 50, "features": 300, "units": 300, "size": 4},
    "B": {"batch": 32, "time": 100, "features": 64, "units": 64, "size": 4},
}

ROWS = ("unmasked", *timing.LENGTHS)


def mechanism(units: int, size: int, estimator: str) -> ReceptiveFieldRNN:
    """The layer under test."""
    cell = keras.layers.LSTMCell(units)
    return ReceptiveFieldRNN(
        cell, size, estimator=estimator, return_sequences=True
    )


def plain_cell(units: int, size: int) -> keras.Sequential:
    """The straightforward way: the cell in `keras.layers.RNN`."""
    cell = RFCell(keras.layers.LSTMCell(units), size)
    return keras.Sequential(
        [
            ReceptiveFieldWindows(size),
            keras.layers.RNN(cell, return_sequences=True),
        ]
    )


def row_mask(rows: str, batch: int, time: int) -> np.ndarray | None:
    """A mask `(batch, time)` whose rows end early; None if none does."""
    if rows == "unmasked":
        return None
    lengths = timing.LENGTHS[rows](np.random.default_rng(1), batch, time)
    return np.arange(time) < np.minimum(lengths, time)[:, None]


def measured(arguments: argparse.Namespace) -> Iterator[list[str]]:
    """Cells of every shape, rows and task."""
    for name, rows in itertools.product(arguments.shapes, arguments.rows):
        for cells in compare(SHAPES[name], rows, arguments):
            yield [name, rows, *cells]


def compare(
    shape: dict, rows: str, arguments: argparse.Namespace
) -> Iterator[list[str]]:
    """Cells of every task at a shape, the LSTM's under the same mask beside."""
    inputs = timing.random_inputs(
        shape["batch"], shape["time"], shape["features"]
    )
    mask = row_mask(rows, shape["batch"], shape["time"])
    keywords = {} if mask is None else {"mask": tf.constant(mask)}
    units, size = shape["units"], shape["size"]
    lstm = keras.layers.LSTM(units, return_sequences=True)
    tasks = {
        f"training, {estimator}": (mechanism(units, size, estimator), True)
        for estimator in arguments.estimators
    }
    tasks["inference"] = (mechanism(units, size, "relaxed"), False)
    if not arguments.no_plain:
        for name, training in (("training", True), ("inference", False)):
            name = f"{name}, RFCell in keras.layers.RNN"
            tasks[name] = (plain_cell(units, size), training)
    both = {"lstm, training": (lstm, True), "lstm, inference": (lstm, False)}
    functions = {}
    for name, (layer, training) in {**both, **tasks}.items():
        layer(inputs)
        for xla in (False, True):
            functions[name, xla] = timing.compiled(
                layer, inputs, training, xla, **keywords
            )
    seconds = timing.interleaved(functions, arguments.repeats)
    for name, (_, training) in tasks.items():
        other = "lstm, training" if training else "lstm, inference"
        own, theirs = (
            [1e3 * seconds[key, xla] for xla in (False, True)]
            for key in (name, other)
        )
        yield [
            name,
            *(f"{ms:.1f}" for ms in (*own, *theirs)),
            f"{own[0] / theirs[0]:.2f}",
            f"**{min(own) / min(theirs):.2f}**",
        ]


def scaling(repeats: int) -> list[list[Any]]:
    """Cells that show how the time grows with T and S (XLA, shape B)."""
    base = SHAPES["B"]
    functions = {}
    cases = [("T", n, n, 4) for n in (100, 200, 400, 800, 1600)]
    cases += [("S", n, 100, n) for n in (1, 2, 4, 8, 16)]
    for label, value, time, size in cases:
        inputs = timing.random_inputs(base["batch"], time, base["features"])
        layer = mechanism(base["units"], size, "relaxed")
        layer(inputs)
        for training in (True, False):
            functions[label, value, training] = timing.compiled(
                layer, inputs, training, True
            )
    seconds = timing.interleaved(functions, repeats)
    rows = []
    for label, value, _, _ in cases:
        modes = [1e3 * seconds[label, value, mode] for mode in (True, False)]
        rows.append([label, value, *(f"{ms:.1f}" for ms in modes)])
    return rows


def main(argv: list[str] | None = None) -> None:
    """Runs the benchmark."""
    parser = timing.make_parser(__doc__, repeats=15)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=SHAPES)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=["unmasked"])
    parser.add_argument(
        "--estimators",
        nargs="+",
        choices=["relaxed", "straight_through", "reinforce"],
        default=["relaxed", "straight_through"],
    )
    parser.add_argument(
        "--no-plain",
        action="store_true",
        help="leave out the cell in keras.layers.RNN",
    )
    parser.add_argument(
        "--scaling", action="store_true", help="growth with T and S"
    )
    arguments = parser.parse_args(argv)
    timing.print_environment(arguments)
    if arguments.scaling:
        timing.print_table(
            ["", "", "training, relaxed (ms)", "inference (ms)"],
            scaling(arguments.repeats),
        )
        return
    header = ["shape", "rows", "task", "graph", "XLA", "LSTM graph", "LSTM XLA"]
    timing.print_table(
        [*header, "graph ratio", "best ratio"], measured(arguments)
    )


if __name__ == "__main__":
    main()
