"""Seconds until a small model has trained its first step.

    python -m benchmarks.first_step [--repeats 3]

A tagger of an embedding, one recurrent layer and a softmax, 32 units, a batch
of 8 rows of 20 steps; the recurrent layer is `keras.layers.RNN(LSTMCell)` or
`ReceptiveFieldRNN(LSTMCell, max_size=4)`. Every model has a process of its own
and is timed from its start; the models take turns, and medians are printed.
"Optimizer built" calls `model.optimizer.build(model.trainable_variables)`
before the first step: Keras traces the training step once then, and twice
otherwise.
"""

import argparse
import datetime
import itertools
import json
import statistics
import subprocess
import sys

from benchmarks import timing
from benchmarks.printed_tables import print_table

PARTS = ("import", "build", "first step", "second step")
SCRIPT = """
import json
import sys
import time

model, jit_compile, built = json.loads(sys.argv[1])
times = [time.perf_counter()]
import keras
import numpy as np

import keras_seqmech

times.append(time.perf_counter())
cell = keras.layers.LSTMCell(32)
if model == "RNN":
    layer = keras.layers.RNN(cell, return_sequences=True)
else:
    layer = keras_seqmech.ReceptiveFieldRNN(
        cell, max_size=4, estimator=model, return_sequences=True
    )
network = keras.Sequential(
    [
        keras.Input((None,), dtype="int32"),
        keras.layers.Embedding(100, 32, mask_zero=True),
        layer,
        keras.layers.Dense(4, activation="softmax"),
    ]
)
network.compile(
    "adam", "sparse_categorical_crossentropy", jit_compile=jit_compile
)
if built:
    network.optimizer.build(network.trainable_variables)
times.append(time.perf_counter())
generator = np.random.default_rng(0)
tokens = generator.integers(1, 100, (8, 20))
labels = generator.integers(0, 4, (8, 20))
for _ in range(2):
    network.train_on_batch(tokens, labels)
    times.append(time.perf_counter())
print(json.dumps(np.diff(times).tolist()))
"""


def measure(case: tuple[str, bool, bool]) -> list[float]:
    """Trains one model in a process of its own.

    Args:
        case: Model, `jit_compile`, and whether the optimizer is built first.

    Returns:
        Seconds of `PARTS`.
    """
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(case)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=True,
        text=True,
    )
    return json.loads(result.stdout.splitlines()[-1])


def main(argv: list[str] | None = None) -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--models",
        nargs="+",
        choices=("RNN", "relaxed", "straight_through", "reinforce"),
        default=("RNN", "relaxed"),
        help="Keras' layer, or the estimator of the receptive field",
    )
    arguments = parser.parse_args(argv)
    print(f"{datetime.date.today()}; {timing.environment()}; {vars(arguments)}")
    cases = list(
        itertools.product(arguments.models, (False, True), (False, True))
    )
    seconds: dict[tuple, list] = {case: [] for case in cases}
    for _ in range(arguments.repeats):
        for case in cases:
            seconds[case].append(measure(case))
    print_table(
        ["model", "XLA", "optimizer built", *PARTS],
        [row(case, seconds[case]) for case in cases],
    )


def row(case: tuple[str, bool, bool], seconds: list[list[float]]) -> list[str]:
    """The cells of a case, from the seconds of its repeats."""
    model, *switches = case
    medians = [statistics.median(column) for column in zip(*seconds)]
    return [
        model,
        *("yes" if switch else "no" for switch in switches),
        *(f"{median:.2f}" for median in medians),
    ]


if __name__ == "__main__":
    main()
