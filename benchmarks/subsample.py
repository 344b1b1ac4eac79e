"""Cost of expected subsampling over `keras.layers.LSTM(100)`.

    python -m benchmarks.subsample [--repeats 7] [--memory | --gradients]

Prints, for each number of steps and of outputs, the milliseconds of forward
and backward, in a graph and with XLA, and the ratio of the better of the two to
the LSTM's on the same batch. Gradients are those of the sequence and of the
LSTM's weights or the emission probabilities. For comparison: the plain
recursion by automatic differentiation, and the cubic algorithm that multiplies
out equation 1 of "Training a Subsampling Mechanism in Expectation".

`--memory` prints the largest memory of a process that trains long sequences,
`--gradients` how much gradient reaches the logits from each output.
"""

import resource

import keras
import numpy as np
import tensorflow as tf

from benchmarks import timing
from keras_seqmech.subsample import expectation

BATCH, FEATURES, UNITS = 100, 100, 100
CASES = [(50, 50), (50, 12), (200, 200), (200, 50), (500, 500), (500, 125)]
GRADIENT_OUTPUTS = (0, 10, 50, 100, 150, 190)
MEMORY_CASES = [(10000, 500), (5000, 500), (10000, 250), (2500, 500)]


def random_batch(batch, time, features):
    """Normal sequences and uniform probabilities, the same at every call."""
    emission = np.random.default_rng(1).uniform(size=(batch, time))
    sequence = timing.random_inputs(batch, time, features)
    return sequence, tf.constant(emission, "float32")


def plain(inputs, length, training=True):
    """The straightforward way: the matrix, step by step, and a product."""
    sequence, emission = inputs
    matrix, _ = expectation.recursion(emission, length)
    return tf.matmul(matrix, sequence)


def expected(inputs, length, training=True):
    """The package's way."""
    return expectation.expected_subsample(*inputs, length).outputs


def cubic(inputs, length, training=True):
    """Equation 1 row by row, its products from sums of clipped logarithms."""
    sequence, emission = inputs
    logarithms = tf.math.log(tf.clip_by_value(1 - emission, 1e-10, 1))
    steps = tf.range(sequence.shape[1])
    # Of the steps between the one that emits and each after it.
    after = tf.cast(steps > steps[:, None], "float32")
    between = logarithms[:, None] * after
    products = tf.exp(tf.cumsum(between, axis=2, exclusive=True)) * after

    def next_row(row, _):
        reached = tf.squeeze(tf.matmul(row[:, None], products), axis=1)
        return emission * reached

    first = emission * tf.exp(tf.cumsum(logarithms, axis=1, exclusive=True))
    later = tf.scan(next_row, tf.range(length - 1), first)
    rows = tf.concat([first[None], later], axis=0)
    return tf.matmul(tf.transpose(rows, (1, 0, 2)), sequence)


def compare(time, length, repeats):
    """Rows of all algorithms with T steps and U outputs, and of the LSTM."""
    inputs = random_batch(BATCH, time, FEATURES)
    lstm = keras.layers.LSTM(UNITS, return_sequences=True)
    lstm(inputs[0])
    algorithms = {"expected_subsample": expected, "plain recursion": plain}
    if time == length <= 200:
        algorithms["cubic"] = cubic
    functions = {"LSTM": timing.both(lstm, inputs[0], True, of_inputs=True)}
    for name, algorithm in algorithms.items():
        functions[name] = timing.both(
            algorithm, inputs, True, weights=(), of_inputs=True, length=length
        )
    found = timing.interleaved(functions, repeats)
    for name, ms in found.items():
        beside = timing.beside(ms, found["LSTM"], "LSTM")
        yield {"T": time, "U": length, "algorithm": name, **beside}


def peak_memory(time, length):
    """The most megabytes this process ever held, and the seconds of a step.

    After a few steps of training, batch 8, 64 features; run it in a process of
    its own.
    """
    inputs = random_batch(8, time, 64)
    step = timing.compiled(
        expected, inputs, True, weights=(), of_inputs=True, length=length
    )
    (ms,) = timing.interleaved([step], 3)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1024, ms / 1000


def memory():
    """Rows that show how memory grows with T and with U."""
    for time, length in MEMORY_CASES:
        peak, seconds = timing.in_a_process(peak_memory, time, length)
        yield {
            "T": time,
            "U": length,
            "peak (MB)": f"{peak:.0f}",
            "forward and backward (s)": f"{seconds:.2f}",
        }


def gradients():
    """Gradients to the logits by output."""
    time = 200
    random = np.random.default_rng(0)
    sequence = tf.constant(random.normal(size=(8, time, 16)))
    for bias in (0.0, 3.0):
        logits = tf.fill((8, time), tf.constant(bias, "float64"))
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(logits)
            found = expected((sequence, tf.sigmoid(logits)), time)
            norms = {n: tf.norm(found[:, n]) for n in GRADIENT_OUTPUTS}
        row = {"bias": f"{bias:g}"}
        for output, norm in norms.items():
            reached = float(tf.norm(tape.gradient(norm, logits)))
            row[output] = f"{reached:.1e}"
        yield row


def measured(options):
    """Rows of what is asked for."""
    if options.memory:
        yield from memory()
    elif options.gradients:
        yield from gradients()
    else:
        for time, length in CASES:
            if time in options.steps:
                yield from compare(time, length, options.repeats)


if __name__ == "__main__":
    timing.run(
        __doc__,
        measured,
        repeats=7,
        steps=[50, 200, 500],
        memory=False,
        gradients=False,
    )
