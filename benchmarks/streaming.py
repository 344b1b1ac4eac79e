"""Milliseconds of a step of sequences that arrive.

    python -m benchmarks.streaming [--units 128] [--repeats 300]

One sequence, one step a request: to a tagger (ids in, four probabilities out)
with a stateful `keras.layers.LSTM`, in a graph and eagerly; to a
`StreamingModel` in Python; and to loaded exports with an LSTM and with
`ReceptiveFieldRNN(LSTMCell)`, sizes up to 4, also in chunks of 64 steps.
Medians of interleaved requests.
"""

import tempfile

import keras
import tensorflow as tf

from benchmarks import timing
from keras_seqmech import ReceptiveFieldRNN
from keras_seqmech import serving

CHUNK = 64
MAX_SIZE = 4
REFERENCE = "stateful LSTM, in a graph"


def tagger(layer, units, shape=(None, None)):
    """Ids in, probabilities of four tags out."""
    ids = keras.Input(batch_shape=shape, dtype="int32", name="ids")
    x = keras.layers.Embedding(5000, units)(ids)
    tags = keras.layers.Dense(4, activation="softmax", name="tags")(layer(x))
    return keras.Model({"ids": ids}, {"tags": tags})


def requests(layer, units, length):
    """A function that sends a chunk to an export, and waits."""
    with tempfile.TemporaryDirectory() as directory:
        model = tagger(layer, units)
        path = serving.export_model(model, directory, streaming=True)
        signatures = tf.saved_model.load(str(path)).signatures
    state = signatures["start"](batch_size=tf.constant(1))
    del state["delay"]
    chunk, more = tf.ones((1, length), "int32"), tf.constant(False)

    def request():
        answer = signatures["step"](ids=chunk, end=more, **state)
        for name in state:
            state[name] = answer[name]
        answer["tags"].numpy()

    return request


def in_python(units):
    """A function that gives a step to a `StreamingModel`."""
    lstm = keras.layers.LSTM(units, return_sequences=True)
    stream = serving.StreamingModel(tagger(lstm, units))
    states = [stream.start(1)]
    step = {"ids": tf.ones((1, 1), "int32")}

    def request():
        answer, states[0] = stream.step(step, states[0])
        answer["tags"].numpy()

    return request


def measured(options):
    """A row for every way to give a step."""
    units = options.units
    lstm = keras.layers.LSTM(units, return_sequences=True, stateful=True)
    model = tagger(lstm, units, (1, 1))
    step = {"ids": tf.ones((1, 1), "int32")}
    run = tf.function(lambda: model(step)["tags"])
    functions = {
        REFERENCE: lambda: run().numpy(),
        "stateful LSTM, eager": lambda: model(step)["tags"].numpy(),
        "LSTM, `StreamingModel.step`": in_python(units),
    }
    for length in (1, CHUNK):
        cell = keras.layers.LSTMCell(units)
        layers = {
            "LSTM": keras.layers.LSTM(units, return_sequences=True),
            f"ReceptiveFieldRNN, S = {MAX_SIZE}": ReceptiveFieldRNN(
                cell, MAX_SIZE, return_sequences=True
            ),
        }
        for name, layer in layers.items():
            functions[f"{name}, chunks of {length}"] = requests(
                layer, units, length
            )
    found = timing.interleaved(functions, options.repeats)
    for name, ms in found.items():
        step = ms / (CHUNK if name.endswith(f" {CHUNK}") else 1)
        yield {
            "what": name,
            "ms a step": f"{step:.3f}",
            "of the stateful LSTM": f"{step / found[REFERENCE]:.2f}",
        }


if __name__ == "__main__":
    timing.run(__doc__, measured, units=128, repeats=300)
