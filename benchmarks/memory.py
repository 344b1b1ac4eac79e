"""Memory that stays when models are trained, one after another.

    python -m benchmarks.memory [--fits 100] [--layers LSTM ReceptiveFieldRNN]

Each layer has a process of its own, which builds a small model of an embedding,
the layer and a dense layer, fits it for two epochs, forgets it, and so on.
Printed are megabytes of resident memory per model over the second half of the
models, after `gc.collect` and `malloc_trim`. Only on Linux.
"""

from benchmarks import timing

LAYERS = {
    "LSTM": "keras.layers.LSTM(16)(x)",
    "ReceptiveFieldRNN": (
        "ks.ReceptiveFieldRNN(keras.layers.LSTMCell(16), 3)(x)"
    ),
    "FocusedHierarchicalEncoder": (
        "ks.FocusedHierarchicalEncoder(16)(x, x[:, 0])"
    ),
    "ExpectedSubsample": (
        "ks.ExpectedSubsample(5)(x, ops.sigmoid(x[..., 0]))[:, 0]"
    ),
    "MaxAttentionPooling": "ks.MaxAttentionPooling()(x)",
    "LastAttentionPooling": "ks.LastAttentionPooling(penalty=0.1)(x)",
}
SCRIPT = """
import ctypes
import gc
import json
import sys

import keras
import numpy as np
from keras import ops

import keras_seqmech as ks

fits, layer = json.loads(sys.argv[1])
tokens = np.random.default_rng(0).integers(0, 20, (8, 12))
resident = []
for _ in range(fits):
    keras.utils.clear_session()
    inputs = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(20, 4)(inputs)
    model = keras.Model(inputs, keras.layers.Dense(1)(eval(layer)))
    model.compile("sgd", "mse")
    model.fit(tokens, tokens[:, 0], epochs=2, verbose=0)
    del model, x, inputs
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    pages = int(open("/proc/self/statm").read().split()[1])
    resident.append(pages * 4096 / 2**20)
half = max(fits // 2, 1)
print(json.dumps((resident[-1] - resident[half - 1]) / (fits - half)))
"""


def main(argv: list[str] | None = None) -> None:
    """Runs the benchmark."""
    parser = timing.make_parser(__doc__, fits=100)
    parser.add_argument(
        "--layers", nargs="+", choices=LAYERS, default=list(LAYERS)
    )
    arguments = parser.parse_args(argv)
    timing.print_environment(arguments)
    found = (
        [name, timing.in_a_process(SCRIPT, arguments.fits, LAYERS[name])]
        for name in arguments.layers
    )
    timing.print_table(
        ["layer", "MB a model"], ([name, f"{x:.2f}"] for name, x in found)
    )


if __name__ == "__main__":
    main()
