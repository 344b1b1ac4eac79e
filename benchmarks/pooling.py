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
import itertools
from collections.abc import Iterator

import keras
import numpy as np
import tensorflow as tf

import keras_seqmech
from benchmarks import timing


def poolings() -> dict[str, keras.layers.Layer]:
    """The layers under test, by name."""
    layers = [
        keras_seqmech.MeanPooling(),
        keras_seqmech.MaxPooling(),
        keras_seqmech.LastPooling(bidirectional=True),
        keras_seqmech.ConcatPooling(),
        keras_seqmech.AttentionPooling(),
        keras_seqmech.MaxAttentionPooling(),
        keras_seqmech.LastAttentionPooling(),
    ]
    return {type(layer).__name__: layer for layer in layers}


def measured(arguments: argparse.Namespace) -> Iterator[list[str]]:
    """Cells of every pooling and task."""
    batch, time = arguments.batch, arguments.time
    inputs = timing.random_inputs(batch, time, arguments.features)
    generator = np.random.default_rng(0)
    lengths = generator.integers(time // 2, time + 1, size=(batch, 1))
    mask = tf.constant(np.arange(time) < lengths)
    bilstm = keras.layers.Bidirectional(
        keras.layers.LSTM(arguments.units, return_sequences=True)
    )
    hidden = bilstm(inputs, mask=mask)
    layers = poolings()
    layers["keras GlobalMaxPooling1D"] = keras.layers.GlobalMaxPooling1D()
    functions = {}
    for training, xla in itertools.product((True, False), (False, True)):
        functions["bilstm", training, xla] = timing.compiled(
            bilstm, inputs, training, xla, mask=mask
        )
        for name, layer in layers.items():
            masked = {} if name.startswith("keras") else {"mask": mask}
            layer(hidden, **masked)
            functions[name, training, xla] = timing.compiled(
                layer, hidden, training, xla, True, **masked
            )
    seconds = timing.interleaved(functions, arguments.repeats)
    for training, name in itertools.product((True, False), ("bilstm", *layers)):
        row = ["training" if training else "inference", name]
        for xla in (False, True):
            own = seconds[name, training, xla]
            share = own / seconds["bilstm", training, xla]
            row += [f"{1e3 * own:.1f}", f"{100 * share:.1f} %"]
        yield row


def main(argv: list[str] | None = None) -> None:
    """Runs the benchmark."""
    parser = timing.make_parser(
        __doc__, repeats=15, batch=32, time=400, features=100, units=256
    )
    arguments = parser.parse_args(argv)
    timing.print_environment(arguments)
    timing.print_table(
        ["task", "layer", "graph (ms)", "of BiLSTM", "XLA (ms)", "of BiLSTM"],
        measured(arguments),
    )


if __name__ == "__main__":
    main()
