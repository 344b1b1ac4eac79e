"""Cost of a packed loop over the padded one: a plain LSTM under a mask.

    python -m benchmarks.packed_loop [--repeats 9] [--units 256 64]

Prints, for each way the rows differ: the share of steps that are real, which is
the work that is left, the milliseconds of both loops in a graph, and their
ratio; products with the inputs, packing and bringing the steps back included.
Lengths are full (all steps), uniform from 1 to all of them, or geometric.
"""

import argparse
import itertools
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from benchmarks import timing
from keras_seqmech.focused import encoder as loops

BATCH, TIME = 64, 100


def row_mask(rows: str) -> np.ndarray:
    """A mask `(batch, time)` of rows that end; as long as the longest."""
    lengths = timing.LENGTHS[rows](np.random.default_rng(0), BATCH, TIME)
    return np.arange(lengths.max()) < lengths[:, None]


def make_run(
    mask: np.ndarray, units: int, training: bool, packed: bool
) -> Callable[[], None]:
    """An LSTM over a masked batch, in training with its gradients.

    There are as many features as units.
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


def measured(arguments: argparse.Namespace) -> Iterator[list[Any]]:
    """Cells of every case."""
    for units, rows, training in itertools.product(
        arguments.units, timing.LENGTHS, (False, True)
    ):
        mask = row_mask(rows)
        functions = {
            packed: make_run(mask, units, training, packed)
            for packed in (True, False)
        }
        seconds = timing.interleaved(functions, arguments.repeats)
        yield [
            units,
            rows,
            f"{mask.mean():.2f}",
            "training" if training else "inference",
            *(f"{1e3 * seconds[packed]:.1f}" for packed in (True, False)),
            f"**{seconds[True] / seconds[False]:.2f}**",
        ]


def main(argv: list[str] | None = None) -> None:
    """Runs the benchmark."""
    parser = timing.make_parser(__doc__, repeats=9)
    parser.add_argument("--units", type=int, nargs="+", default=[256, 64])
    arguments = parser.parse_args(argv)
    timing.print_environment(arguments)
    timing.print_table(
        ["units", "rows", "work", "task", "packed", "padded", "ratio"],
        measured(arguments),
    )


if __name__ == "__main__":
    main()
