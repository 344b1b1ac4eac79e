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

import itertools
import statistics

from benchmarks import timing

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


def main(argv: list[str] | None = None) -> None:
    """Runs the benchmark."""
    parser = timing.make_parser(__doc__, repeats=3)
    parser.add_argument(
        "--models",
        nargs="+",
        choices=("RNN", "relaxed", "straight_through", "reinforce"),
        default=("RNN", "relaxed"),
        help="Keras' layer, or the estimator of the receptive field",
    )
    arguments = parser.parse_args(argv)
    timing.print_environment(arguments)
    cases = list(
        itertools.product(arguments.models, (False, True), (False, True))
    )
    seconds: dict[tuple, list] = {case: [] for case in cases}
    for _ in range(arguments.repeats):
        for case in cases:
            seconds[case].append(timing.in_a_process(SCRIPT, *case))
    rows = []
    for (model, *switches), found in seconds.items():
        medians = [statistics.median(column) for column in zip(*found)]
        shown = ["yes" if switch else "no" for switch in switches]
        rows.append([model, *shown, *(f"{x:.2f}" for x in medians)])
    timing.print_table(["model", "XLA", "optimizer built", *PARTS], rows)


if __name__ == "__main__":
    main()
