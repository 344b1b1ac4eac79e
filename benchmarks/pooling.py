"""Cost of the pooling layers over the BiLSTM before them.

    python -m benchmarks.pooling [--repeats 15] [--batch 32] [--time 400]

Prints, for each pooling and task, the milliseconds in a graph and with XLA, and
the ratio of either to the BiLSTM's in the same. The BiLSTM is
`keras.layers.Bidirectional(keras.layers.LSTM(units))`; training is forward and
backward, of the pooling with respect to the sequences too, and with the losses
that layers add. All read masked sequences of random lengths.
`keras.layers.GlobalMaxPooling1D`, which takes no mask, is shown for comparison.
"""

import keras
import numpy as np
import tensorflow as tf

import keras_seqmech
from benchmarks import timing


def measured(options):
    """A row for every pooling and task."""
    batch, time = options.batch, options.time
    inputs = timing.random_inputs(batch, time, 100)
    generator = np.random.default_rng(0)
    lengths = generator.integers(time // 2, time + 1, size=(batch, 1))
    mask = tf.constant(np.arange(time) < lengths)
    bilstm = keras.layers.Bidirectional(
        keras.layers.LSTM(options.units, return_sequences=True)
    )
    hidden = bilstm(inputs, mask=mask)
    layers = [
        keras_seqmech.MeanPooling(),
        keras_seqmech.MaxPooling(),
        keras_seqmech.LastPooling(bidirectional=True),
        keras_seqmech.ConcatPooling(),
        keras_seqmech.AttentionPooling(),
        keras_seqmech.MaxAttentionPooling(),
        keras_seqmech.LastAttentionPooling(),
        keras.layers.GlobalMaxPooling1D(),
    ]
    functions = {}
    for task, training in (("training", True), ("inference", False)):
        functions[task, "BiLSTM"] = timing.both(
            bilstm, inputs, training, mask=mask
        )
        for layer in layers:
            name = type(layer).__name__
            masked = {} if name.startswith("Global") else {"mask": mask}
            layer(hidden, **masked)
            functions[task, name] = timing.both(
                layer, hidden, training, of_inputs=True, **masked
            )
    found = timing.interleaved(functions, options.repeats)
    for (task, name), ms in found.items():
        row = {"task": task, "layer": name}
        for way, own in ms.items():
            share = 100 * own / found[task, "BiLSTM"][way]
            row[f"{way} (ms)"] = f"{own:.1f}"
            row[f"{way} of BiLSTM"] = f"{share:.1f} %"
        yield row


if __name__ == "__main__":
    timing.run(__doc__, measured, repeats=15, batch=32, time=400, units=256)
