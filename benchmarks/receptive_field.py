"""Cost of `ReceptiveFieldRNN(LSTMCell)` over `keras.layers.LSTM`.

    python -m benchmarks.receptive_field [--repeats 15] [--scaling]

Prints, for each shape and task, the milliseconds with and without XLA of both
layers, and the ratio of the better of the two on either side.
"""

import argparse
import datetime

import keras
import numpy as np
import tensorflow as tf

from benchmarks import timing
from keras_seqmech import ReceptiveFieldRNN
from keras_seqmech import ReceptiveFieldWindows
from keras_seqmech import RFCell

SHAPES = {
    "A": {"batch": 64, "time": 50, "features": 300, "units": 300, "size": 4},
    "B": {"batch": 32, "time": 100, "features": 64, "units": 64, "size": 4},
}


def random_inputs(batch: int, time: int, features: int) -> tf.Tensor:
    """Standard normal sequences, the same at every call."""
    generator = np.random.default_rng(0)
    return tf.constant(
        generator.normal(size=(batch, time, features)), "float32"
    )


def mechanism(units: int, size: int, estimator: str) -> ReceptiveFieldRNN:
    """The layer under test."""
    cell = keras.layers.LSTMCell(units)
    return ReceptiveFieldRNN(
        cell, size, estimator=estimator, return_sequences=True
    )


def plain_cell(units: int, size: int) -> keras.Sequential:
    """The straightforward way: the cell in `keras.layers.RNN`."""
    cell = RFCell(keras.layers.LSTMCell(units), size)
    return keras.Sequential(
        [
            ReceptiveFieldWindows(size),
            keras.layers.RNN(cell, return_sequences=True),
        ]
    )


def compare(shape: dict, repeats: int) -> list[dict]:
    """Times every task at one shape against the LSTM.

    Args:
        shape: An entry of `SHAPES`.
        repeats: Interleaved repeats.

    Returns:
        One row a task: its name, milliseconds, ratio.
    """
    inputs = random_inputs(shape["batch"], shape["time"], shape["features"])
    units, size = shape["units"], shape["size"]
    lstm = keras.layers.LSTM(units, return_sequences=True)
    relaxed = mechanism(units, size, "relaxed")
    tasks = {
        "training, relaxed": (relaxed, True),
        "training, straight-through": (
            mechanism(units, size, "straight_through"),
            True,
        ),
        "training, RFCell in keras.layers.RNN": (plain_cell(units, size), True),
        "inference": (relaxed, False),
        "inference, RFCell in keras.layers.RNN": (
            plain_cell(units, size),
            False,
        ),
    }
    functions = {}
    for training in (True, False):
        for xla in (False, True):
            lstm(inputs)
            functions["lstm", training, xla] = timing.compiled(
                lstm, inputs, training, xla
            )
    for name, (layer, training) in tasks.items():
        layer(inputs)
        for xla in (False, True):
            functions[name, training, xla] = timing.compiled(
                layer, inputs, training, xla
            )
    seconds = timing.interleaved(functions, repeats)
    rows = []
    for name, (_, training) in tasks.items():
        figures = [
            1e3 * seconds[key, training, xla]
            for key in (name, "lstm")
            for xla in (False, True)
        ]
        ratio = min(figures[:2]) / min(figures[2:])
        rows.append({"task": name, "figures": figures, "ratio": ratio})
    return rows


def scaling(repeats: int) -> None:
    """Prints how the time grows with T and with S (XLA, shape B)."""
    base = SHAPES["B"]
    functions = {}
    cases = [("T", n, n, 4) for n in (100, 200, 400, 800, 1600)]
    cases += [("S", n, 100, n) for n in (1, 2, 4, 8, 16)]
    for label, value, time, size in cases:
        inputs = random_inputs(base["batch"], time, base["features"])
        layer = mechanism(base["units"], size, "relaxed")
        layer(inputs)
        for training in (True, False):
            functions[label, value, training] = timing.compiled(
                layer, inputs, training, True
            )
    seconds = timing.interleaved(functions, repeats)
    print("| | | training, relaxed (ms) | inference (ms) |")
    print("| --- | ---: | ---: | ---: |")
    for label, value, _, _ in cases:
        training, inference = (
            1e3 * seconds[label, value, mode] for mode in (True, False)
        )
        print(f"| {label} | {value} | {training:.1f} | {inference:.1f} |")


def main(argv: list[str] | None = None) -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument(
        "--scaling", action="store_true", help="growth with T and S"
    )
    arguments = parser.parse_args(argv)
    print(f"{datetime.date.today()}; {timing.machine()}")
    if arguments.scaling:
        scaling(arguments.repeats)
        return
    print("| shape | task | graph | XLA | LSTM graph | LSTM XLA | ratio |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for name, shape in SHAPES.items():
        for row in compare(shape, arguments.repeats):
            figures = " | ".join(f"{ms:.1f}" for ms in row["figures"])
            print(
                f"| {name} | {row['task']} | {figures} | "
                f"**{row['ratio']:.2f}** |",
                flush=True,
            )


if __name__ == "__main__":
    main()
