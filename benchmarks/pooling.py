"""Cost of the pooling layers over the BiLSTM before them.

    python -m benchmarks.pooling [--repeats 15] [--batch 32] [--time 400]

Prints, for each pooling and task, the milliseconds in a graph and with XLA, and
the ratio of either to the BiLSTM's in the same. The BiLSTM is
`keras.layers.Bidirectional(keras.layers.LSTM(units))`; training is forward and
backward, of the pooling with respect to the sequences too, and with the losses
that layers add. All read masked sequences of random lengths.
`keras.layers.GlobalMaxPooling1D`, which takes no mask, is shown for comparison.
"""

import argparse
import datetime

import keras
import numpy as np
import tensorflow as tf

import keras_seqmech
from benchmarks import timing
from benchmarks.printed_tables import print_table


def poolings() -> dict[str, keras.layers.Layer]:
    """The layers under test, by name."""
    plain = [
        keras_seqmech.MeanPooling(),
        keras_seqmech.MaxPooling(),
        keras_seqmech.LastPooling(bidirectional=True),
        keras_seqmech.ConcatPooling(bidirectional=True),
        keras_seqmech.AttentionPooling(),
        keras_seqmech.MaxAttentionPooling(),
        keras_seqmech.LastAttentionPooling(),
    ]
    compiled = [
        keras_seqmech.AttentionPooling(jit_compile=True),
        keras_seqmech.MaxAttentionPooling(jit_compile=True),
        keras_seqmech.LastAttentionPooling(jit_compile=True),
    ]
    return {
        **{type(layer).__name__: layer for layer in plain},
        **{f"{type(x).__name__}, jit_compile": x for x in compiled},
    }


def compare(
    batch: int, time: int, features: int, units: int, repeats: int
) -> list[dict]:
    """Times every pooling against the BiLSTM.

    Args:
        batch: Sequences of a batch.
        time: Steps of a sequence.
        features: Features of the BiLSTM's input.
        units: Units of each of its directions.
        repeats: Interleaved repeats.

    Returns:
        One row a pooling and task: names, milliseconds, ratios in %.
    """
    generator = np.random.default_rng(0)
    inputs = tf.constant(
        generator.normal(size=(batch, time, features)), "float32"
    )
    lengths = generator.integers(time // 2, time + 1, size=(batch, 1))
    mask = tf.constant(np.arange(time) < lengths)
    bilstm = keras.layers.Bidirectional(
        keras.layers.LSTM(units, return_sequences=True)
    )
    hidden = bilstm(inputs, mask=mask)
    layers = poolings()
    layers["keras GlobalMaxPooling1D"] = keras.layers.GlobalMaxPooling1D()
    functions = {}
    for training in (True, False):
        for xla in (False, True):
            functions["bilstm", training, xla] = timing.compiled(
                bilstm, inputs, training, xla, mask=mask
            )
            for name, layer in layers.items():
                masked = {} if name.startswith("keras") else {"mask": mask}
                layer(hidden, **masked)
                functions[name, training, xla] = timing.compiled(
                    layer, hidden, training, xla, True, **masked
                )
    seconds = timing.interleaved(functions, repeats)
    rows = []
    for training in (True, False):
        for name in ("bilstm", *layers):
            figures = [1e3 * seconds[name, training, x] for x in (False, True)]
            rows.append(
                {
                    "task": "training" if training else "inference",
                    "layer": name,
                    "figures": figures,
                }
            )
    for row in rows:
        lstm = next(r for r in rows if r["task"] == row["task"])
        pairs = zip(row["figures"], lstm["figures"])
        row["ratios"] = [100 * own / reference for own, reference in pairs]
    return rows


def main(argv: list[str] | None = None) -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (
        ("repeats", 15),
        ("batch", 32),
        ("time", 400),
        ("features", 100),
        ("units", 256),
    ):
        parser.add_argument(f"--{name}", type=int, default=default)
    arguments = parser.parse_args(argv)
    print(f"{datetime.date.today()}; {timing.environment()}; {vars(arguments)}")
    print_table(
        ["task", "layer", "graph (ms)", "of BiLSTM", "XLA (ms)", "of BiLSTM"],
        [cells(row) for row in compare(**vars(arguments))],
    )


def cells(row: dict) -> list[str]:
    """What is printed of a row of `compare`."""
    found = [row["task"], row["layer"]]
    for ms, ratio in zip(row["figures"], row["ratios"]):
        found += [f"{ms:.1f}", f"{ratio:.1f} %"]
    return found


if __name__ == "__main__":
    main()
