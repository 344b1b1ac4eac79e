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

import functools
import resource
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from benchmarks import timing
from keras_seqmech.core.loop import Constant
from keras_seqmech.core.loop import ScanOptions
from keras_seqmech.core.loop import scan
from keras_seqmech.subsample import expectation

BATCH, FEATURES, UNITS = 100, 100, 100
CASES = [(50, 50), (50, 12), (200, 200), (200, 50), (500, 500), (500, 125)]
CUBIC_UP_TO = 200
GRADIENT_OUTPUTS = (0, 10, 50, 100, 150, 190)
# Batch, steps, outputs, features.
MEMORY_CASES = [
    (8, 10000, 500, 64),
    (8, 5000, 500, 64),
    (8, 10000, 250, 64),
    (8, 2500, 500, 64),
    (8, 64, 1, 64),
]


def random_batch(batch: int, time: int, features: int) -> tuple:
    """Normal sequences and uniform probabilities, the same at every call."""
    emission = np.random.default_rng(1).uniform(size=(batch, time))
    return (
        timing.random_inputs(batch, time, features),
        tf.constant(emission, "float32"),
    )


def plain(sequence: tf.Tensor, emission: tf.Tensor, length: int) -> tf.Tensor:
    """The straightforward way: the matrix, step by step, and a product."""
    matrix, _ = expectation.recursion(emission, length)
    return tf.matmul(matrix, sequence)


def expected(
    sequence: tf.Tensor, emission: tf.Tensor, length: int
) -> tf.Tensor:
    """The package's way."""
    return expectation.expected_subsample(sequence, emission, length).outputs


def cubic(sequence: tf.Tensor, emission: tf.Tensor, length: int) -> tf.Tensor:
    """Equation 1 row by row, its products from sums of clipped logarithms."""
    _, time, _ = sequence.shape
    logarithms = tf.math.log(tf.clip_by_value(1 - emission, 1e-10, 1))
    steps = tf.range(time)

    def products_after(step, states):
        after = tf.cast(steps > step, "float32")
        sums = tf.cumsum(logarithms * after, axis=1, exclusive=True)
        return {"products": tf.exp(sums) * after}, states

    outputs, _ = scan(
        products_after,
        Constant(steps),
        (),
        {"products": tf.TensorSpec((None, time), "float32")},
        ScanOptions(steps=time),
    )
    products = tf.transpose(outputs["products"], (1, 0, 2))

    def next_row(number, states):
        (row,) = states
        reached = tf.squeeze(tf.matmul(row[:, None], products), axis=1)
        return {"rows": row}, (emission * reached,)

    first = emission * tf.exp(tf.cumsum(logarithms, axis=1, exclusive=True))
    outputs, _ = scan(
        next_row,
        Constant(tf.range(length)),
        (first,),
        {"rows": tf.TensorSpec((None, time), "float32")},
    )
    return tf.matmul(tf.transpose(outputs["rows"], (1, 0, 2)), sequence)


def training(function: Callable, inputs: tuple, xla: bool) -> Callable:
    """Forward and backward of a function of `inputs`, ready to time."""

    @tf.function(jit_compile=xla)
    def run():
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            loss = tf.reduce_sum(tf.square(function(*inputs)))
        return tape.gradient(loss, inputs)

    return timing.waiting(run)


def compare(time: int, length: int, repeats: int) -> Iterator[list[Any]]:
    """Cells of all algorithms with T steps and U outputs, and of the LSTM."""
    inputs = random_batch(BATCH, time, FEATURES)
    lstm = keras.layers.LSTM(UNITS, return_sequences=True)
    lstm(inputs[0])
    algorithms = {
        "expected_subsample": expected,
        "plain recursion": plain,
    }
    if time <= CUBIC_UP_TO and time == length:
        algorithms["cubic"] = cubic
    functions = {}
    for xla in (False, True):
        functions["LSTM", xla] = timing.compiled(
            lstm, inputs[0], True, xla, of_inputs=True
        )
        for name, algorithm in algorithms.items():
            run = functools.partial(algorithm, length=length)
            functions[name, xla] = training(run, inputs, xla)
    seconds = timing.interleaved(functions, repeats)
    best = min(seconds["LSTM", xla] for xla in (False, True))
    for name in ("LSTM", *algorithms):
        own = [seconds[name, xla] for xla in (False, True)]
        ratio = f"**{min(own) / best:.2f}**"
        yield [time, length, name, *(f"{1e3 * x:.1f}" for x in own), ratio]


PEAK = """
import json, sys
from benchmarks.subsample import peak_memory
print(json.dumps(peak_memory(*json.loads(sys.argv[1]))))
"""


def peak_memory(batch: int, time: int, length: int, features: int) -> tuple:
    """The most megabytes this process ever held, and the seconds of a step.

    After a few steps of training; run it in a process of its own.
    """
    inputs = random_batch(batch, time, features)

    def run(sequence, emission):
        return expected(sequence, emission, length)

    seconds = timing.interleaved({"": training(run, inputs, False)}, 3)[""]
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, seconds


def memory() -> Iterator[list[Any]]:
    """Cells that show how memory grows with T and with U."""
    for case in MEMORY_CASES:
        peak, seconds = timing.in_a_process(PEAK, *case)
        yield [*case, f"{peak:.0f}", f"{seconds:.2f}"]


def gradients() -> Iterator[list[str]]:
    """Gradients to the logits by output."""
    time = 200
    random = np.random.default_rng(0)
    sequence = tf.constant(random.normal(size=(8, time, 16)))
    for bias in (0.0, 3.0):
        logits = tf.fill((8, time), tf.constant(bias, "float64"))
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(logits)
            emission = tf.sigmoid(logits)
            found = expected(sequence, emission, time)
            norms = [tf.norm(found[:, output]) for output in GRADIENT_OUTPUTS]
        reached = [tf.norm(tape.gradient(norm, logits)) for norm in norms]
        yield [f"{bias:g}", *(f"{float(x):.1e}" for x in reached)]


def times(steps: list[int], repeats: int) -> Iterator[list[Any]]:
    """Cells of every algorithm, at the sizes of these numbers of steps."""
    for time, length in CASES:
        if time in steps:
            yield from compare(time, length, repeats)


def main(argv: list[str] | None = None) -> None:
    """Runs the benchmark."""
    parser = timing.make_parser(__doc__, repeats=7)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--gradients", action="store_true")
    steps = sorted({time for time, _ in CASES})
    parser.add_argument("--steps", type=int, nargs="*", choices=steps)
    arguments = parser.parse_args(argv)
    timing.print_environment(arguments)
    if arguments.memory:
        header = ["batch", "T", "U", "d", "peak (MB)"]
        timing.print_table([*header, "forward and backward (s)"], memory())
    elif arguments.gradients:
        timing.print_table(["bias", *GRADIENT_OUTPUTS], gradients())
    else:
        header = ["T", "U", "algorithm", "graph (ms)", "XLA (ms)"]
        timing.print_table(
            [*header, "ratio to LSTM"],
            times(arguments.steps or steps, arguments.repeats),
        )


if __name__ == "__main__":
    main()
