"""Cost of a packed loop over the padded one: a plain LSTM under a mask.

    python -m benchmarks.packed_loop [--repeats 9] [--units 256 64]

Prints, for each way the rows differ: the share of steps that are real, which is
the work that is left, the milliseconds of both loops in a graph, and their
ratio; products with the inputs, packing and bringing the steps back included.
Lengths are full (all steps), uniform from 1 to all of them, or geometric.
"""

import itertools

import keras
import numpy as np
import tensorflow as tf

from benchmarks import timing
from keras_seqmech.focused import encoder as loops

BATCH, TIME = 64, 100


def measured(options):
    """A row for every case; there are as many features as units."""
    for units, rows, training in itertools.product(
        options.units, timing.ROWS, (False, True)
    ):
        mask = tf.constant(timing.row_mask(rows, BATCH, TIME))
        cell = keras.layers.LSTMCell(units)
        cell.build((None, units))

        def run(x, training, packed, cell=cell, mask=mask):
            zeros = (tf.zeros((BATCH, cell.units)),) * 2
            how = loops.ScanOptions(training, packed=packed)
            return loops.run_lower(cell, x, zeros, mask, how)[0]

        functions = {
            name: timing.compiled(
                run,
                timing.random_inputs(BATCH, TIME, units),
                training,
                weights=cell.trainable_variables,
                packed=packed,
            )
            for name, packed in (("packed", True), ("padded", False))
        }
        ms = timing.interleaved(functions, options.repeats)
        yield {
            "units": units,
            "rows": rows,
            "work": f"{np.mean(mask):.2f}",
            "task": "training" if training else "inference",
            **{name: f"{x:.1f}" for name, x in ms.items()},
            "ratio": f"**{ms['packed'] / ms['padded']:.2f}**",
        }


if __name__ == "__main__":
    timing.run(__doc__, measured, repeats=9, units=[256, 64])
