"""Time and size of an export, for one model of each mechanism.

    python -m benchmarks.serving [--repeats 3] [--units 128] [--features 64]

Prints, for each model, the seconds of `serving.export_model`, which also loads
the export in a fresh process and compares answers; those of loading it here;
the size on disk; the number of weights and of ops; and the time of a request
to the loaded export, of one row and of 32.
"""

import pathlib
import tempfile
import time

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


def models(units, features):
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
    made = {
        "keras LSTM": (sequence, layers.LSTM(units)(sequence)),
        "ReceptiveFieldRNN": (sequence, field(sequence)),
        "FocusedHierarchicalEncoder": (both, encoder(sequence, context)),
        "MaxAttentionPooling": (sequence, pooling(sequence)),
        "PointerSoftmax": (both, pointer(context, sequence)),
        "ExpectedSubsample": (sequence, subsample(sequence, emission)),
        "LearnedInitialState": (sequence, start(sequence)),
    }
    return {name: keras.Model(*ends) for name, ends in made.items()}


def measured(options):
    """A row for every model."""
    for name, model in models(options.units, options.features).items():
        with tempfile.TemporaryDirectory() as directory:
            folder = pathlib.Path(directory) / "model"
            yield {"model": name, **measure(model, folder, options.repeats)}


def measure(model, folder, repeats):
    """Cells of a model, which is exported several times and then asked.

    Medians of the exports; requests have 30 times as many repeats.
    """
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        path = serving.export_model(model, folder)
        between = time.perf_counter()
        loaded = tf.saved_model.load(str(path))
        seconds.append((between - start, time.perf_counter() - between))
    export, load = np.median(seconds, axis=0)
    serve = loaded.signatures["serving_default"]
    inputs = serve.structured_input_signature[1]
    graph = serve.graph.as_graph_def()
    nodes = [graph.node, *(f.node_def for f in graph.library.function)]
    files = [file for file in path.rglob("*") if file.is_file()]
    generator = np.random.default_rng(0)

    def request(rows):
        feeds = {}
        for name, spec in inputs.items():
            shape = [rows, *(n or STEPS for n in spec.shape[1:])]
            feeds[name] = tf.constant(generator.normal(size=shape), "float32")
        return lambda: [value.numpy() for value in serve(**feeds).values()]

    answers = timing.interleaved([request(1), request(32)], 30 * repeats)
    return {
        "export_model (s)": f"{export:.1f}",
        "load (s)": f"{load:.1f}",
        "size (kB)": f"{sum(x.stat().st_size for x in files) / 1000:.0f}",
        "weights": model.count_params(),
        "ops": sum(map(len, nodes)),
        f"1 x {STEPS} steps (ms)": f"{answers[0]:.1f}",
        f"32 x {STEPS} (ms)": f"{answers[1]:.1f}",
    }


if __name__ == "__main__":
    timing.run(__doc__, measured, repeats=3, units=128, features=64)
