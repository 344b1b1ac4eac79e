"""Cost of `ReceptiveFieldRNN(LSTMCell)` over `keras.layers.LSTM`.

    python -m benchmarks.receptive_field [--repeats 15] [--rows uniform]
    python -m benchmarks.receptive_field --scaling

Prints, for each shape, rows and task, the milliseconds with and without XLA of
both layers under the same mask, the ratio in graphs, and that of the better of
the two on either side. `--rows` says how long the rows are: all steps without
a mask ("unmasked"), all steps with one ("full"), "uniform" from 1 to all of
them, or "geometric" with a mean of a fifth of them. `--no-plain` leaves out the
cell in `keras.layers.RNN`; `--scaling` prints the growth with T and S.
"""

import itertools

import keras
import tensorflow as tf

from benchmarks import timing
from keras_seqmech import ReceptiveFieldRNN
from keras_seqmech import ReceptiveFieldWindows
from keras_seqmech import RFCell

# Batch, time, features, units, largest size of a field.
SHAPES = {"A": (64, 50, 300, 300, 4), "B": (32, 100, 64, 64, 4)}


def mechanism(units, size, estimator):
    """The layer under test."""
    cell = keras.layers.LSTMCell(units)
    return ReceptiveFieldRNN(
        cell, size, estimator=estimator, return_sequences=True
    )


def plain_cell(units, size):
    """The straightforward way: the cell in `keras.layers.RNN`."""
    cell = RFCell(keras.layers.LSTMCell(units), size)
    rnn = keras.layers.RNN(cell, return_sequences=True)
    return keras.Sequential([ReceptiveFieldWindows(size), rnn])


def measured(options):
    """A row for every shape, kind of rows and task."""
    if options.scaling:
        yield from scaling(options.repeats)
        return
    for shape, rows in itertools.product(options.shapes, options.rows):
        batch, time, features, units, size = SHAPES[shape]
        inputs = timing.random_inputs(batch, time, features)
        masked = {}
        if rows != "unmasked":
            masked["mask"] = tf.constant(timing.row_mask(rows, batch, time))
        lstm = keras.layers.LSTM(units, return_sequences=True)
        tasks = {
            f"training, {estimator}": mechanism(units, size, estimator)
            for estimator in options.estimators
        }
        tasks["inference"] = mechanism(units, size, "relaxed")
        if not options.no_plain:
            for task in ("training", "inference"):
                name = f"{task}, RFCell in keras.layers.RNN"
                tasks[name] = plain_cell(units, size)
        tasks |= {"training": lstm, "inference, LSTM": lstm}
        functions = {}
        for task, layer in tasks.items():
            layer(inputs)
            training = task.startswith("training")
            functions[task] = timing.both(layer, inputs, training, **masked)
        found = timing.interleaved(functions, options.repeats)
        lstms = [found.pop(x) for x in ("inference, LSTM", "training")]
        for task, ms in found.items():
            theirs = lstms[task.startswith("training")]
            beside = timing.beside(ms, theirs, "LSTM")
            yield {"shape": shape, "rows": rows, "task": task, **beside}


def scaling(repeats):
    """Rows that show how the time grows with T and S (XLA, shape B)."""
    batch, _, features, units, _ = SHAPES["B"]
    cases = [("T", n, n, 4) for n in (100, 200, 400, 800, 1600)]
    cases += [("S", n, 100, n) for n in (1, 2, 4, 8, 16)]
    functions = []
    for _, _, time, size in cases:
        inputs = timing.random_inputs(batch, time, features)
        layer = mechanism(units, size, "relaxed")
        layer(inputs)
        for training in (True, False):
            functions.append(timing.compiled(layer, inputs, training, True))
    found = timing.interleaved(functions, repeats)
    for (label, value, *_), *ms in zip(cases, found[::2], found[1::2]):
        names = ("training, relaxed (ms)", "inference (ms)")
        shown = {name: f"{x:.1f}" for name, x in zip(names, ms)}
        yield {"": label, "size": value, **shown}


if __name__ == "__main__":
    timing.run(
        __doc__,
        measured,
        repeats=15,
        shapes=list(SHAPES),
        rows=["unmasked"],
        estimators=["relaxed", "straight_through"],
        no_plain=False,
        scaling=False,
    )
