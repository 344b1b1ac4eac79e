"""Memory that stays when models are trained, one after another.

    python -m benchmarks.memory [--fits 100] [--layers LSTM ReceptiveFieldRNN]

Each layer has a process of its own, which builds a small model of an embedding,
the layer and a dense layer, fits it for two epochs, forgets it, and so on.
Printed are megabytes of resident memory per model over the second half of the
models, after `gc.collect` and `malloc_trim`. Only on Linux.
"""

import ctypes
import gc
import pathlib

import keras
import numpy as np
from keras import ops

import keras_seqmech as ks
from benchmarks import timing

LAYERS = {
    "LSTM": lambda x: keras.layers.LSTM(16)(x),
    "ReceptiveFieldRNN": lambda x: ks.ReceptiveFieldRNN(
        keras.layers.LSTMCell(16), 3
    )(x),
    "FocusedHierarchicalEncoder": lambda x: ks.FocusedHierarchicalEncoder(16)(
        x, x[:, 0]
    ),
    "ExpectedSubsample": lambda x: ks.ExpectedSubsample(5)(
        x, ops.sigmoid(x[..., 0])
    )[:, 0],
    "MaxAttentionPooling": lambda x: ks.MaxAttentionPooling()(x),
    "LastAttentionPooling": lambda x: ks.LastAttentionPooling(penalty=0.1)(x),
}


def growth(name, fits):
    """Megabytes a model that this process keeps."""
    tokens = np.random.default_rng(0).integers(0, 20, (8, 12))
    resident = []
    for _ in range(fits):
        keras.utils.clear_session()
        inputs = keras.Input((None,), dtype="int32")
        x = keras.layers.Embedding(20, 4)(inputs)
        outputs = keras.layers.Dense(1)(LAYERS[name](x))
        model = keras.Model(inputs, outputs)
        model.compile("sgd", "mse")
        model.fit(tokens, tokens[:, 0], epochs=2, verbose=0)
        del model, x, inputs, outputs
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        pages = pathlib.Path("/proc/self/statm").read_text().split()[1]
        resident.append(int(pages) * 4096 / 2**20)
    half = max(fits // 2, 1)
    return (resident[-1] - resident[half - 1]) / (fits - half)


def measured(options):
    """A row for each layer."""
    for name in options.layers:
        megabytes = timing.in_a_process(growth, name, options.fits)
        yield {"layer": name, "MB a model": f"{megabytes:.2f}"}


if __name__ == "__main__":
    timing.run(__doc__, measured, fits=100, layers=list(LAYERS))
