"""What benchmarks share: the command line, inputs, timing, printed tables."""

import argparse
import datetime
import multiprocessing
import platform

import keras
import numpy as np
import tensorflow as tf

from examples.common.interleaved import median_ms
from examples.common.machine import machine
from examples.common.tables import table
from keras_seqmech.core.decisions import reports

# How rows differ in length.
ROWS = ("full", "uniform", "geometric")
# Ways to compile, and whether with XLA.
WAYS = {"graph": False, "XLA": True}


def run(doc, rows, /, **options):
    """Runs a program and prints the environment and a table.

    `rows` is a function from the options to rows of the table: cells by the
    name of their column. Options are given by their defaults: False is that of
    a switch, a list takes values of its first one's type.
    """
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in options.items():
        kind = {"type": type(default)}
        if default is False:
            kind = {"action": "store_true"}
        elif isinstance(default, list):
            kind = {"type": type(default[0]), "nargs": "+"}
        name = f"--{name.replace('_', '-')}"
        parser.add_argument(name, default=default, **kind)
    chosen = parser.parse_args()
    print(f"{datetime.date.today()}; {environment()}; {vars(chosen)}\n")
    print_table(rows(chosen))


def print_table(rows):
    """Prints a Markdown table, each row as soon as an iterator has one."""
    for number, row in enumerate(rows):
        header, line, below = table([list(row), list(row.values())]).split("\n")
        if number == 0:
            print(header, line, sep="\n")
        print(below, flush=True)


def random_inputs(batch, time, features):
    """Standard normal sequences, the same at every call."""
    values = np.random.default_rng(0).normal(size=(batch, time, features))
    return tf.constant(values, "float32")


def row_mask(rows, batch, time):
    """A mask `(batch, time)` of one of `ROWS`, the last T / 5 long."""
    generator = np.random.default_rng(1)
    lengths = np.full(batch, time)
    if rows == "uniform":
        lengths = generator.integers(1, time, batch, endpoint=True)
    if rows == "geometric":
        lengths = generator.geometric(5 / time, batch)
    return np.arange(time) < lengths[:, None]


def compiled(layer, inputs, training, xla=False, **options):
    """A call of `layer`, and in training of its gradients, ready to time.

    Gradients are those of all weights, `weights` where `layer` is a function
    of `inputs` and `training`, and of `inputs`, too, with `of_inputs`. Draws
    learn from their log-probabilities. The layer gets all other options.
    """
    weights = options.pop("weights", None)
    of_inputs = options.pop("of_inputs", False)

    @tf.function(jit_compile=xla)
    def run():
        if not training:
            return layer(inputs, training=False, **options)
        variables = layer.trainable_variables if weights is None else weights
        sources = [[v.value for v in variables], inputs]
        with tf.GradientTape() as tape:
            if of_inputs:
                tape.watch(inputs)
            with reports.collect() as drawn:
                outputs = layer(inputs, training=True, **options)
            loss = tf.reduce_sum(tf.square(outputs))
            loss += sum(getattr(layer, "losses", ()))
            loss += sum(tf.reduce_sum(x.log_probability) for x in drawn)
        return tape.gradient(loss, sources[: 1 + of_inputs])

    return lambda: keras.tree.map_structure(lambda x: x.numpy(), run())


def both(*arguments, **keywords):
    """The same in each of `WAYS`; see `compiled`."""
    return {
        way: compiled(*arguments, xla=xla, **keywords)
        for way, xla in WAYS.items()
    }


def interleaved(functions, repeats):
    """Median milliseconds of each of nested functions, run in turn."""
    flat = tf.nest.flatten(functions)
    # Once more than `median_ms` does, before any time counts.
    for function in flat:
        function()
    return tf.nest.pack_sequence_as(functions, median_ms(flat, repeats))


def beside(ours, theirs, name):
    """Cells of milliseconds by way, of ours and others, and their ratios."""
    shown = {**ours, **{f"{name} {way}": ms for way, ms in theirs.items()}}
    best = min(ours.values()) / min(theirs.values())
    return {
        **{way: f"{ms:.1f}" for way, ms in shown.items()},
        "graph ratio": f"{ours['graph'] / theirs['graph']:.2f}",
        "best ratio": f"**{best:.2f}**",
    }


def in_a_process(function, *arguments):
    """The result of a module's function in a fresh process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def environment():
    """One line that names the machine and the versions."""
    return (
        f"{machine()}, Python {platform.python_version()}, "
        f"TensorFlow {tf.__version__}, Keras {keras.__version__}, "
        f"NumPy {np.__version__}"
    )
