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
import datetime
import itertools
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from benchmarks import timing
from benchmarks.batches import LENGTHS
from benchmarks.batches import random_inputs
from benchmarks.printed_tables import print_table
from keras_seqmech import ReceptiveFieldRNN
from keras_seqmech import ReceptiveFieldWindows
from keras_seqmech import RFCell

SHAPES = {
    "A": {"batch": 64, "time": 50, "features": 300, "units": 300, "size": 4},
    "B": {"batch": 32, "time": 100, "features": 64, "units": 64, "size": 4},
}

ROWS = ("unmasked", *LENGTHS)


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
    """A mask whose rows end after some steps; None where none ends early.

    Args:
        rows: One of `ROWS`.
        batch: Number of rows.
        time: Number of steps.

    Returns:
        Boolean array `(batch, time)`, the same at every call.
    """
    if rows == "unmasked":
        return None
    lengths = LENGTHS[rows](np.random.default_rng(1), batch, time)
    return np.arange(time) < np.minimum(lengths, time)[:, None]


def compare(
    shape: dict, rows: str, repeats: int, estimators: list[str], plain: bool
) -> list[dict]:
    """Times every task at one shape against the LSTM, under the same mask.

    Args:
        shape: An entry of `SHAPES`.
        rows: One of `ROWS`.
        repeats: Interleaved repeats.
        estimators: Which to train.
        plain: Whether to time the cell in `keras.layers.RNN` too.

    Returns:
        One row a task: its name, milliseconds, ratio.
    """
    inputs = random_inputs(shape["batch"], shape["time"], shape["features"])
    mask = row_mask(rows, shape["batch"], shape["time"])
    keywords = {} if mask is None else {"mask": tf.constant(mask)}
    units, size = shape["units"], shape["size"]
    lstm = keras.layers.LSTM(units, return_sequences=True)
    tasks = {
        f"training, {estimator}": (mechanism(units, size, estimator), True)
        for estimator in estimators
    }
    tasks["inference"] = (mechanism(units, size, "relaxed"), False)
    if plain:
        for name, training in (("training", True), ("inference", False)):
            name = f"{name}, RFCell in keras.layers.RNN"
            tasks[name] = (plain_cell(units, size), training)
    functions = {}
    for training in (True, False):
        for xla in (False, True):
            lstm(inputs)
            functions["lstm", training, xla] = timing.compiled(
                lstm, inputs, training, xla, **keywords
            )
    for name, (layer, training) in tasks.items():
        layer(inputs)
        for xla in (False, True):
            functions[name, training, xla] = timing.compiled(
                layer, inputs, training, xla, **keywords
            )
    seconds = timing.interleaved(functions, repeats)
    results = []
    for name, (_, training) in tasks.items():
        figures = [
            1e3 * seconds[key, training, xla]
            for key in (name, "lstm")
            for xla in (False, True)
        ]
        results.append(
            {
                "task": name,
                "figures": figures,
                "graph": figures[0] / figures[2],
                "best": min(figures[:2]) / min(figures[2:]),
            }
        )
    return results


def scaling(repeats: int) -> list[list[Any]]:
    """Cells that show how the time grows with T and S (XLA, shape B)."""
    base = SHAPES["B"]
    functions = {}
    cases = [("T", n, n, 4) for n in (100, 200, 400, 800, 1600)]
    cases += [("S", n, 100, n) for n in (1, 2, 4, 8, 16)]
    for label, value, time, size in cases:
        inputs = random_inputs(base["batch"], time, base["features"])
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


def measured(arguments: argparse.Namespace) -> Iterator[list[str]]:
    """Cells of every shape, rows and task."""
    for name, rows in itertools.product(arguments.shapes, arguments.rows):
        for result in compare(
            SHAPES[name],
            rows,
            arguments.repeats,
            arguments.estimators,
            not arguments.no_plain,
        ):
            yield [
                name,
                rows,
                result["task"],
                *(f"{ms:.1f}" for ms in result["figures"]),
                f"{result['graph']:.2f}",
                f"**{result['best']:.2f}**",
            ]


def main(argv: list[str] | None = None) -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=15)
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
    print(f"{datetime.date.today()}; {timing.environment()}")
    if arguments.scaling:
        print_table(
            ["", "", "training, relaxed (ms)", "inference (ms)"],
            scaling(arguments.repeats),
        )
        return
    header = ["shape", "rows", "task", "graph", "XLA", "LSTM graph", "LSTM XLA"]
    print_table([*header, "graph ratio", "best ratio"], measured(arguments))


if __name__ == "__main__":
    main()
