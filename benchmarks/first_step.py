"""Seconds until a small model has trained its first step.

    python -m benchmarks.first_step [--repeats 3] [--models RNN relaxed]

A tagger of an embedding, one recurrent layer and a softmax, 32 units, a batch
of 8 rows of 20 steps; the recurrent layer is `keras.layers.RNN(LSTMCell)`
("RNN") or `ReceptiveFieldRNN(LSTMCell, max_size=4)`, named by its estimator.
Every model has a process of its own; the models take turns, and medians are
printed. "Optimizer built" calls
`model.optimizer.build(model.trainable_variables)` before the first step: Keras
traces the training step once then, and twice otherwise.
"""

import itertools
import time

import keras
import numpy as np

import keras_seqmech
from benchmarks import timing


def seconds(model, jit_compile, built):
    """Seconds of building a model, of its first step, and of the second."""
    times = [time.perf_counter()]
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
    return np.diff(times).tolist()


def measured(options):
    """A row for each model, with and without XLA."""
    switches = (False, True)
    cases = list(itertools.product(options.models, switches, switches))
    found = [
        [timing.in_a_process(seconds, *case) for case in cases]
        for _ in range(options.repeats)
    ]
    parts = ("build", "first step", "second step")
    for (model, xla, built), medians in zip(cases, np.median(found, axis=0)):
        yield {
            "model": model,
            "XLA": "yes" if xla else "no",
            "optimizer built": "yes" if built else "no",
            **{part: f"{x:.2f}" for part, x in zip(parts, medians)},
        }


if __name__ == "__main__":
    timing.run(__doc__, measured, repeats=3, models=["RNN", "relaxed"])
