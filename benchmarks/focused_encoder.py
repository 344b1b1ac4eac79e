"""Cost of `FocusedHierarchicalEncoder` over two stacked `keras.layers.LSTM`.

    python -m benchmarks.focused_encoder [--repeats 9] [--memory]

Prints, for each share of open gates, where rows have about as many open gates
as one another and where their questions make them differ: the milliseconds of
the encoder as it is, with its own `jit_compile=True`, and all compiled with
XLA; those of the LSTMs with and without XLA; and the ratio of the best on
either side. Training takes the gradients of all weights, those of the gate
through the log-probabilities.
With `--memory`: peak memory of training in processes of their own, above that
of a process that has built the same layers.
"""

import argparse
import itertools
import resource
from collections.abc import Iterator

import keras
import numpy as np
import tensorflow as tf

from benchmarks import timing
from keras_seqmech import FocusedHierarchicalEncoder
from keras_seqmech.core.decisions import reports
from keras_seqmech.focused import encoder as loops

SHAPE = {"batch": 64, "time": 200, "features": 100, "units": 256}
# How much questions count in the gates beside states, where rows differ.
QUESTIONS = 0.3
OPENNESS = (0.05, 0.10, 0.25, 0.50, 1.0)
# What is timed on either side: name, the layer's own compilation, XLA for all.
WAYS = (("graph", False, False), ("own", True, False), ("XLA", False, True))


class Learner:
    """An encoder in a context, with what its drawn gates add to the loss."""

    def __init__(self, encoder, context):
        self.encoder, self.context, self.drawn = encoder, context, []

    def __call__(self, inputs, training):
        with reports.collect() as self.drawn:
            return self.encoder(inputs, self.context, training=training)

    @property
    def trainable_variables(self):
        return self.encoder.trainable_variables

    @property
    def losses(self):
        return [tf.reduce_sum(d.log_probability) for d in self.drawn]


def encoder(
    openness: float,
    shape: dict,
    inputs: tf.Tensor,
    jit_compile: bool,
    differ: bool = False,
) -> Learner:
    """An encoder whose gates are open at about a share of the steps.

    The gate looks at the lower states, so that gates are scattered, is all but
    certain, and has its bias where that share is above it. If rows are to
    differ it looks at the context too, which differs by row, as questions do:
    most rows then have few open gates, and some have many.
    """
    keras.utils.set_random_seed(0)
    layer = FocusedHierarchicalEncoder(
        shape["units"],
        estimator="reinforce",
        return_sequences=True,
        jit_compile=jit_compile,
    )
    context = tf.ones((shape["batch"], shape["units"]))
    if differ:
        context = tf.random.normal(context.shape, seed=1)
    layer(inputs, context)
    gate, units = layer.gate, shape["units"]
    kernel = np.zeros(gate.kernel.shape)
    kernel[units : 2 * units] = np.random.normal(size=(units, gate.units))
    if differ:
        questions = np.random.normal(size=(units, gate.units))
        kernel[2 * units :] = QUESTIONS * questions
    gate.kernel.assign(kernel)
    gate.output_kernel.assign(1e4 * np.random.normal(size=(gate.units, 1)))
    gate.output_bias.assign(0.0)
    hidden, _ = loops.run_lower(
        layer.lower.cell,
        inputs,
        (tf.zeros((shape["batch"], units)),) * 2,
        mask=None,
        options=loops.LoopOptions(),
    )
    logits = gate.logits(hidden, context)
    # With all open, further than rounding could close one.
    margin = 1e6 if openness == 1 else 0
    gate.output_bias.assign(margin - np.quantile(logits, 1 - openness))
    return Learner(layer, context)


def lstms(shape: dict, inputs: tf.Tensor) -> keras.Sequential:
    """The two LSTMs to compare with."""
    model = keras.Sequential(
        [
            keras.layers.LSTM(shape["units"], return_sequences=True)
            for _ in range(2)
        ]
    )
    model(inputs)
    return model


def open_steps(learner: Learner, inputs: tf.Tensor) -> np.ndarray:
    """Open gates of each row."""
    hidden, _ = loops.run_lower(
        learner.encoder.lower.cell,
        inputs,
        (tf.zeros((inputs.shape[0], learner.encoder.lower_units)),) * 2,
        mask=None,
        options=loops.LoopOptions(),
    )
    gates, _ = learner.encoder.gate(hidden, learner.context)
    return np.sum(gates, axis=1)


def measured(arguments: argparse.Namespace) -> Iterator[list[str]]:
    """Cells of every task, kind of rows and openness."""
    inputs = timing.random_inputs(
        SHAPE["batch"], SHAPE["time"], SHAPE["features"]
    )
    stacked = lstms(SHAPE, inputs)
    for training, rows, openness in itertools.product(
        (True, False), arguments.rows, arguments.openness
    ):
        functions = {}
        for name, own, xla in WAYS:
            layer = encoder(openness, SHAPE, inputs, own, rows == "differ")
            functions[name] = timing.compiled(layer, inputs, training, xla)
        for xla in (False, True):
            functions["lstm", xla] = timing.compiled(
                stacked, inputs, training, xla
            )
        seconds = timing.interleaved(functions, arguments.repeats)
        ours = [1e3 * seconds[name] for name, _, _ in WAYS]
        theirs = [1e3 * seconds["lstm", xla] for xla in (False, True)]
        steps = open_steps(layer, inputs)
        yield [
            "training" if training else "inference",
            rows,
            f"{openness:.0%}",
            f"{np.median(steps):.0f}, {max(steps):.0f}",
            *(f"{ms:.0f}" for ms in (*ours, *theirs)),
            f"{ours[0] / theirs[0]:.2f}",
            f"**{min(ours) / min(theirs):.2f}**",
        ]


PEAK = """
import json, sys
from benchmarks.focused_encoder import peak
print(json.dumps(peak(*json.loads(sys.argv[1]))))
"""


def peak(way: str, openness: float) -> float:
    """Peak megabytes that training steps add in this process."""
    inputs = timing.random_inputs(
        SHAPE["batch"], SHAPE["time"], SHAPE["features"]
    )
    learner = encoder(openness, SHAPE, inputs, way == "own")
    stacked = lstms(SHAPE, inputs)
    layer = stacked if way == "lstm" else learner
    run = timing.compiled(layer, inputs, True, way == "XLA")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(4):
        run()
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return (after - before) / 1024


def memory() -> Iterator[list[str]]:
    """Cells of the peak memory of training, each case in a process."""
    cases = [("lstm", 1.0)]
    cases += [(way, s) for way, _, _ in WAYS for s in (0.1, 0.25, 1.0)]
    for way, openness in cases:
        megabytes = timing.in_a_process(PEAK, way, openness)
        yield [way, f"{openness:.0%}", f"{megabytes:.0f}"]


def main(argv: list[str] | None = None) -> None:
    """Runs the benchmark."""
    parser = timing.make_parser(__doc__, repeats=9)
    parser.add_argument("--openness", type=float, nargs="+", default=OPENNESS)
    parser.add_argument(
        "--rows",
        nargs="+",
        choices=["alike", "differ"],
        default=["alike", "differ"],
        help="whether rows have about as many open gates as one another",
    )
    parser.add_argument("--memory", action="store_true")
    arguments = parser.parse_args(argv)
    timing.print_environment(arguments)
    if arguments.memory:
        header = ["", "openness", "peak memory of training (MB)"]
        timing.print_table(header, memory())
        return
    header = ["task", "rows", "openness", "open steps: median, most"]
    header += ["graph", "own jit_compile", "XLA", "LSTMs graph", "LSTMs XLA"]
    header += ["graph ratio", "best ratio"]
    timing.print_table(header, measured(arguments))


if __name__ == "__main__":
    main()
