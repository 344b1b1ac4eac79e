"""Time and size of an export, for one model of each mechanism.

    python -m benchmarks.serving [--repeats 3] [--units 128] [--features 64]

Prints, for each model, the seconds of `serving.export_model`, which also loads
the export in a fresh process and compares answers; those of loading it here;
the size on disk; the number of weights and of ops; and the time of a request
to the loaded export, of one row and of 32.
"""

import argparse
import pathlib
import statistics
import tempfile
import time
from collections.abc import Iterator

import keras
import numpy as np
import tensorflow as tf
from keras import layers

import keras_seqmech
from benchmarks import timing
from keras_seqmech import serving

STEPS = 50
CONTEXT = 16
WORDS = 1000


def models(units: int, features: int) -> dict[str, keras.Model]:
    """A model of each mechanism by name, and Keras' LSTM to compare."""
    sequence = keras.Input((None, features), name="sequence")
    context = keras.Input((CONTEXT,), name="context")
    both = {"sequence": sequence, "context": context}
    field = keras_seqmech.ReceptiveFieldRNN(
        layers.LSTMCell(units), 4, return_field=True
    )
    encoder = keras_seqmech.FocusedHierarchicalEncoder(units, return_gates=True)
    emission = layers.Dense(1, "sigmoid")(sequence)[..., 0]
    subsample = keras_seqmech.ExpectedSubsample(
        max_length=10, inference="threshold", return_emission=True
    )
    pooling = keras_seqmech.MaxAttentionPooling(return_attention_scores=True)
    pointer = keras_seqmech.PointerSoftmax(WORDS, return_attention_scores=True)
    start = keras_seqmech.LearnedInitialState(layers.LSTM(units))
    return {
        "keras LSTM": keras.Model(sequence, layers.LSTM(units)(sequence)),
        "ReceptiveFieldRNN": keras.Model(sequence, field(sequence)),
        "FocusedHierarchicalEncoder": keras.Model(
            both, encoder(sequence, context)
        ),
        "MaxAttentionPooling": keras.Model(sequence, pooling(sequence)),
        "PointerSoftmax": keras.Model(both, pointer(context, sequence)),
        "ExpectedSubsample": keras.Model(
            sequence, subsample(sequence, emission)
        ),
        "LearnedInitialState": keras.Model(sequence, start(sequence)),
    }


def measure(
    model: keras.Model, directory: pathlib.Path, repeats: int
) -> list[str]:
    """Cells of a model, which is exported several times and then asked.

    Medians of the exports; requests have 30 times as many repeats.
    """
    seconds = {"export": [], "load": []}
    for _ in range(repeats):
        start = time.perf_counter()
        path = serving.export_model(model, directory / "model")
        between = time.perf_counter()
        loaded = tf.saved_model.load(str(path))
        seconds["export"].append(between - start)
        seconds["load"].append(time.perf_counter() - between)
    serve = loaded.signatures["serving_default"]
    inputs = serve.structured_input_signature[1]
    graph = serve.graph.as_graph_def()
    nodes = [graph.node, *(f.node_def for f in graph.library.function)]
    files = [file for file in path.rglob("*") if file.is_file()]
    generator = np.random.default_rng(0)

    def request(rows):
        shapes = [
            [rows, *(n or STEPS for n in spec.shape[1:])]
            for spec in inputs.values()
        ]
        feeds = {
            name: tf.constant(generator.normal(size=shape), "float32")
            for name, shape in zip(inputs, shapes)
        }
        return lambda: [value.numpy() for value in serve(**feeds).values()]

    answers = timing.interleaved({1: request(1), 32: request(32)}, 30 * repeats)
    return [
        *(f"{statistics.median(own):.1f}" for own in seconds.values()),
        f"{sum(file.stat().st_size for file in files) / 1000:.0f}",
        str(model.count_params()),
        str(sum(map(len, nodes))),
        *(f"{1000 * answers[rows]:.1f}" for rows in (1, 32)),
    ]


def measured(arguments: argparse.Namespace) -> Iterator[list[str]]:
    """Cells of every model."""
    for name, model in models(arguments.units, arguments.features).items():
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory)
            yield [name, *measure(model, path, arguments.repeats)]


def main(argv: list[str] | None = None) -> None:
    """Runs the benchmark."""
    parser = timing.make_parser(__doc__, repeats=3, units=128, features=64)
    arguments = parser.parse_args(argv)
    timing.print_environment(arguments)
    header = ["model", "export_model (s)", "load (s)", "size (kB)", "weights"]
    header += ["ops", f"1 x {STEPS} steps (ms)", f"32 x {STEPS} (ms)"]
    timing.print_table(header, measured(arguments))


if __name__ == "__main__":
    main()
