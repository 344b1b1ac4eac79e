"""Cost of `FocusedHierarchicalEncoder` over two stacked `keras.layers.LSTM`.

    python -m benchmarks.focused_encoder [--repeats 9] [--openness 0.1]

Prints, for each share of open gates, where rows have about as many open gates
as one another ("alike") and where their questions make them "differ": the
milliseconds of the encoder as it is, with its own `jit_compile=True`, and all
compiled with XLA; those of the LSTMs with and without XLA; and the ratio of the
best on either side. Training takes the gradients of all weights, those of the
gate through the log-probabilities.
"""

import itertools

import keras
import numpy as np
import tensorflow as tf

from benchmarks import timing
from keras_seqmech import FocusedHierarchicalEncoder

BATCH, TIME, FEATURES, UNITS = 64, 200, 100, 256
OPENNESS, ROWS = [0.05, 0.10, 0.25, 0.50, 1.0], ["alike", "differ"]
# How much questions count in the gates beside states, where rows differ.
QUESTIONS = 0.3
# What is timed: name, the layer's own compilation, XLA for all.
WAYS = (("graph", False, False), ("own", True, False), ("XLA", False, True))


def encoder(openness, inputs, context, jit_compile, differ):
    """An encoder whose gates are open at about a share of the steps.

    The gate looks at the lower states, so that gates are scattered, is all but
    certain, and has its bias where that share is above it. If rows are to
    differ it looks at the context too, which differs by row, as questions do:
    most rows then have few open gates, and some have many.

    Returns:
        The encoder, and the open gates of each row.
    """
    keras.utils.set_random_seed(0)
    layer = FocusedHierarchicalEncoder(
        UNITS,
        estimator="reinforce",
        return_sequences=True,
        jit_compile=jit_compile,
    )
    layer(inputs, context)
    gate = layer.gate
    kernel = np.zeros(gate.kernel.shape)
    kernel[UNITS : 2 * UNITS] = np.random.normal(size=(UNITS, gate.units))
    if differ:
        questions = np.random.normal(size=(UNITS, gate.units))
        kernel[2 * UNITS :] = QUESTIONS * questions
    gate.kernel.assign(kernel)
    gate.output_kernel.assign(1e4 * np.random.normal(size=(gate.units, 1)))
    gate.output_bias.assign(0.0)
    hidden = layer.lower(inputs)
    logits = gate.logits(hidden, context)
    # With all open, further than rounding could close one.
    margin = 1e6 if openness == 1 else 0
    gate.output_bias.assign(margin - np.quantile(logits, 1 - openness))
    gates, _ = gate(hidden, context)
    return layer, np.sum(gates, axis=1)


def measured(options):
    """A row for every task, kind of rows and openness."""
    inputs = timing.random_inputs(BATCH, TIME, FEATURES)
    stacked = keras.Sequential(
        [keras.layers.LSTM(UNITS, return_sequences=True) for _ in range(2)]
    )
    stacked(inputs)
    for training, rows, openness in itertools.product(
        (True, False), options.rows, options.openness
    ):
        ours, differ = {}, rows == "differ"
        keras.utils.set_random_seed(0)
        context = tf.ones((BATCH, UNITS))
        if differ:
            context = tf.random.normal(context.shape, seed=1)
        for name, own, xla in WAYS:
            layer, steps = encoder(openness, inputs, context, own, differ)
            ours[name] = timing.compiled(
                layer, inputs, training, xla, context=context
            )
        theirs = timing.both(stacked, inputs, training)
        found = timing.interleaved([ours, theirs], options.repeats)
        yield {
            "task": "training" if training else "inference",
            "rows": rows,
            "openness": f"{openness:.0%}",
            "open: median, most": f"{np.median(steps):.0f}, {max(steps):.0f}",
            **timing.beside(*found, "LSTMs"),
        }


if __name__ == "__main__":
    timing.run(__doc__, measured, repeats=9, openness=OPENNESS, rows=ROWS)
