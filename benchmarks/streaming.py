"""Milliseconds of a step of sequences that arrive.

    python -m benchmarks.streaming [--units 128] [--repeats 300]

One sequence, one step a request: to a tagger (ids in, four probabilities out)
with a stateful `keras.layers.LSTM`, in a graph and eagerly; to a
`StreamingModel` in Python; and to loaded exports with an LSTM and with
`ReceptiveFieldRNN(LSTMCell)`, sizes up to 4, also in chunks of 64 steps.
Medians of interleaved requests.
"""

import tempfile
from collections.abc import Callable
from collections.abc import Sequence

import keras
import tensorflow as tf

from benchmarks import timing
from keras_seqmech import ReceptiveFieldRNN
from keras_seqmech import serving

CHUNK = 64
MAX_SIZE = 4
REFERENCE = "stateful LSTM, in a graph"


def tagger(layer: keras.Layer, units: int) -> keras.Model:
    """Ids in, probabilities of four tags out."""
    ids = keras.Input((None,), dtype="int32", name="ids")
    x = keras.layers.Embedding(5000, units)(ids)
    tags = keras.layers.Dense(4, activation="softmax", name="tags")(layer(x))
    return keras.Model({"ids": ids}, {"tags": tags})


def requests(layer: keras.Layer, units: int, length: int) -> Callable[[], None]:
    """A function that sends a chunk to an export, and waits."""
    with tempfile.TemporaryDirectory() as directory:
        model = tagger(layer, units)
        path = serving.export_model(model, directory, streaming=True)
        signatures = tf.saved_model.load(str(path)).signatures
    state = signatures["start"](batch_size=tf.constant(1))
    del state["delay"]
    chunk, more = tf.ones((1, length), "int32"), tf.constant(False)

    def request() -> None:
        answer = signatures["step"](ids=chunk, end=more, **state)
        for name in state:
            state[name] = answer[name]
        answer["tags"].numpy()

    return request


def stateful(units: int) -> tuple[Callable, Callable]:
    """Functions that give a step to a stateful tagger: in a graph, eagerly."""
    lstm = keras.layers.LSTM(units, return_sequences=True, stateful=True)
    ids = keras.Input(batch_shape=(1, 1), dtype="int32")
    x = keras.layers.Embedding(5000, units)(ids)
    tags = keras.layers.Dense(4, activation="softmax")(lstm(x))
    model = keras.Model(ids, tags)
    step = tf.ones((1, 1), "int32")
    run = tf.function(lambda: model(step))
    return lambda: run().numpy(), lambda: model(step).numpy()


def in_python(units: int) -> Callable[[], None]:
    """A function that gives a step to a `StreamingModel`."""
    lstm = keras.layers.LSTM(units, return_sequences=True)
    stream = serving.StreamingModel(tagger(lstm, units))
    states = [stream.start(1)]
    step = {"ids": tf.ones((1, 1), "int32")}

    def request() -> None:
        answer, states[0] = stream.step(step, states[0])
        answer["tags"].numpy()

    return request


def main(argv: Sequence[str] | None = None) -> None:
    """Measures and prints a table."""
    parser = timing.make_parser(__doc__, units=128, repeats=300)
    args = parser.parse_args(argv)

    def layers() -> dict[str, keras.Layer]:
        cell = keras.layers.LSTMCell(args.units)
        return {
            "LSTM": keras.layers.LSTM(args.units, return_sequences=True),
            f"ReceptiveFieldRNN, S = {MAX_SIZE}": ReceptiveFieldRNN(
                cell, MAX_SIZE, return_sequences=True
            ),
        }

    graph, eager = stateful(args.units)
    functions = {
        REFERENCE: graph,
        "stateful LSTM, eager": eager,
        "LSTM, `StreamingModel.step`": in_python(args.units),
    }
    for length in (1, CHUNK):
        for name, layer in layers().items():
            functions[f"{name}, chunks of {length}"] = requests(
                layer, args.units, length
            )
    found = timing.interleaved(functions, args.repeats)
    print(timing.environment())
    print()
    timing.print_table(
        ["what", "ms a step", "of the stateful LSTM"],
        [[name, *cells(found, name)] for name in found],
    )


def cells(seconds: dict[str, float], name: str) -> list[str]:
    """Milliseconds of a step, and their ratio to the reference."""
    step = seconds[name] / (CHUNK if name.endswith(f" {CHUNK}") else 1)
    return [f"{1000 * step:.3f}", f"{step / seconds[REFERENCE]:.2f}"]


if __name__ == "__main__":
    main()
