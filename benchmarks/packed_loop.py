"""Cost of a packed loop over the padded one: a plain LSTM under a mask.

    python -m benchmarks.packed_loop [--repeats 9] [--units 256 64]

Prints, for each way the rows differ: the share of steps that are real, which is
the work that is left, the milliseconds of both loops in a graph, and their
ratio; products with the inputs, packing and bringing the steps back included.
Lengths are full (all steps), uniform from 1 to all of them, or geometric.
"""

import argparse
import datetime
import itertools
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from benchmarks import timing
from benchmarks.batches import LENGTHS
from benchmarks.printed_tables import print_table
from keras_seqmech.focused import loops

BATCH, TIME = 64, 100


def row_mask(rows: str) -> np.ndarray:
    """A mask `(batch, time)` of rows that end; as long as the longest.

    Args:
        rows: A key of `LENGTHS`.
    """
    lengths = LENGTHS[rows](np.random.default_rng(0), BATCH, TIME)
    return np.arange(lengths.max()) < lengths[:, None]


def make_run(
    mask: np.ndarray, units: int, training: bool, packed: bool
) -> Callable[[], None]:
    """An LSTM over a masked batch, and its gradients, ready to time.

    Args:
        mask: Boolean array `(batch, time)`.
        units: Of the LSTM, and as many features.
        training: Whether to take the gradients of the weights.
        packed: Whether to pack.
    """
    cell = keras.layers.LSTMCell(units)
    cell.build((None, units))
    generator = np.random.default_rng(1)
    x = tf.constant(generator.normal(size=(*mask.shape, units)), "float32")
    real = tf.constant(mask)
    zeros = (tf.zeros((len(mask), units)),) * 2
    options = loops.LoopOptions(training, packed=packed)

    @tf.function
    def run():
        weights = [v.value for v in cell.trainable_variables]
        with tf.GradientTape(watch_accessed_variables=training) as tape:
            hidden, _ = loops.run_lower(cell, x, zeros, real, options)
            loss = tf.reduce_sum(hidden**2)
        return tape.gradient(loss, weights) if training else hidden

    return timing.waiting(run)


def compare(rows: str, units: int, training: bool, repeats: int) -> list:
    """Share of real steps, and milliseconds: packed, padded."""
    mask = row_mask(rows)
    seconds = timing.interleaved(
        {p: make_run(mask, units, training, p) for p in (True, False)}, repeats
    )
    return [mask.mean(), 1e3 * seconds[True], 1e3 * seconds[False]]


def measured(arguments: argparse.Namespace) -> Iterator[list[Any]]:
    """Cells of every case."""
    for units, rows, training in itertools.product(
        arguments.units, LENGTHS, (False, True)
    ):
        work, ours, theirs = compare(rows, units, training, arguments.repeats)
        yield [
            units,
            rows,
            f"{work:.2f}",
            "training" if training else "inference",
            f"{ours:.1f}",
            f"{theirs:.1f}",
            f"**{ours / theirs:.2f}**",
        ]


def main(argv: list[str] | None = None) -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--units", type=int, nargs="+", default=[256, 64])
    arguments = parser.parse_args(argv)
    print(f"{datetime.date.today()}; {timing.environment()}")
    print_table(
        ["units", "rows", "work", "task", "packed", "padded", "ratio"],
        measured(arguments),
    )


if __name__ == "__main__":
    main()
