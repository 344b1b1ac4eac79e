"""What benchmarks share: the command line, inputs, timing, printed tables."""

import argparse
import datetime
import json
import platform
import subprocess
import sys
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from examples.common.interleaved import median_ms
from examples.common.machine import machine
from examples.common.tables import table

# How rows differ in length: lengths from a generator, the number of rows, and
# the most steps, which geometric lengths, of a fifth of them, may exceed.
LENGTHS: dict[str, Callable[[np.random.Generator, int, int], np.ndarray]] = {
    "full": lambda generator, batch, time: np.full(batch, time),
    "uniform": lambda generator, batch, time: generator.integers(
        1, time, size=batch, endpoint=True
    ),
    "geometric": lambda generator, batch, time: generator.geometric(
        5 / time, size=batch
    ),
}


def make_parser(doc: str, **numbers: int) -> argparse.ArgumentParser:
    """A command line with these whole numbers, given by their defaults."""
    parser = argparse.ArgumentParser(description=doc.partition("\n")[0])
    for name, default in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    return parser


def print_environment(arguments: argparse.Namespace) -> None:
    """Prints the date, the machine, versions and options."""
    print(f"{datetime.date.today()}; {environment()}; {vars(arguments)}\n")


def print_table(header: Sequence[Any], rows: Iterable[Sequence[Any]]) -> None:
    """Prints a Markdown table, each row as soon as an iterator has one."""
    print(table([header]), flush=True)
    for row in rows:
        line, _ = table([row]).split("\n")
        print(line, flush=True)


def random_inputs(batch: int, time: int, features: int) -> tf.Tensor:
    """Standard normal sequences, the same at every call."""
    generator = np.random.default_rng(0)
    return tf.constant(
        generator.normal(size=(batch, time, features)), "float32"
    )


def compiled(
    layer: keras.layers.Layer,
    inputs: tf.Tensor,
    training: bool,
    xla: bool,
    of_inputs: bool = False,
    **keywords,
) -> Callable[[], None]:
    """A call of `layer`, and in training of its gradients, ready to time.

    Args:
        layer: A built layer that maps `inputs` to one tensor.
        inputs: Its input.
        training: Whether to take the gradients of all trainable weights.
        xla: Whether to compile with XLA.
        of_inputs: Whether training takes the gradient of `inputs` too.
        **keywords: What else the layer is called with.
    """

    @tf.function(jit_compile=xla)
    def run():
        if not training:
            return layer(inputs, training=False, **keywords)
        sources = [v.value for v in layer.trainable_variables]
        with tf.GradientTape() as tape:
            if of_inputs:
                tape.watch(inputs)
                sources.append(inputs)
            outputs = layer(inputs, training=True, **keywords)
            loss = tf.reduce_sum(tf.square(outputs)) + sum(layer.losses)
        return tape.gradient(loss, sources)

    return waiting(run)


def waiting(run: Callable[[], Any]) -> Callable[[], None]:
    """A function that runs another and waits for the tensors it returns."""

    def wait() -> None:
        keras.tree.map_structure(lambda tensor: tensor.numpy(), run())

    return wait


def interleaved(
    functions: dict[str, Callable[[], None]], repeats: int
) -> dict[str, float]:
    """Median seconds of each function, run in turn `repeats` times."""
    # Once more than `median_ms` does, before any time counts.
    for function in functions.values():
        function()
    medians = median_ms(functions.values(), repeats)
    return {name: ms / 1000 for name, ms in zip(functions, medians)}


def in_a_process(script: str, *argument: Any) -> Any:
    """Runs a script with an argument in JSON; reads its last line as JSON."""
    result = subprocess.run(
        [sys.executable, "-c", script, json.dumps(argument)],
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    return json.loads(result.stdout.splitlines()[-1])


def environment() -> str:
    """One line that names the machine and the versions."""
    return (
        f"{machine()}, Python {platform.python_version()}, "
        f"TensorFlow {tf.__version__}, Keras {keras.__version__}, "
        f"NumPy {np.__version__}"
    )
