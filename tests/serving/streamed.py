"""What tests of streaming share: models, and sequences in chunks."""

import functools

import keras
import numpy as np
from keras import layers

from keras_seqmech import AttentionPooling
from keras_seqmech import BoundaryGate
from keras_seqmech import EarlyPooling
from keras_seqmech import FocusedHierarchicalEncoder
from keras_seqmech import KeepMask
from keras_seqmech import LearnedInitialState
from keras_seqmech import LookAhead
from keras_seqmech import ReceptiveFieldRNN
from keras_seqmech import ReceptiveFieldWindows
from keras_seqmech import RFCell
from keras_seqmech.core import graph
from keras_seqmech.core.decisions.reports import recording
from keras_seqmech.serving import _fresh_process
from keras_seqmech.serving import signature

FEATURES, CONTEXT = 3, 4


def sequence(**kwargs):
    return keras.Input((None, FEATURES), name="sequence", **kwargs)


def tagger():
    """Fields over words, and paths of different delays that meet."""
    ids = keras.Input((None,), dtype="int32", name="ids")
    words = layers.Embedding(10, 6, mask_zero=True)(ids)
    first, field = ReceptiveFieldRNN(
        layers.LSTMCell(8),
        4,
        return_sequences=True,
        return_field=True,
        name="first",
    )(words)
    between = KeepMask(layers.LSTM(5, return_sequences=True))(first)
    # Behind a field, so that it is called before its first step arrives.
    convolution = layers.Conv1D(6, 3, padding="causal", dilation_rate=2)
    convolution.supports_masking = True
    between = convolution(between)
    second = ReceptiveFieldRNN(
        layers.GRUCell(8),
        3,
        size_from="field",
        zero_output_for_mask=True,
        return_sequences=True,
        name="second",
    )(between)
    padded = keras.ops.pad(words, [[0, 0], [1, 1], [0, 0]])
    both = [second, words, padded[:, :-2], padded[:, 2:]]
    # Masks that `Concatenate` merges have no free length before Keras 3.12.
    both = keras.ops.concatenate(both, axis=-1)
    tags = layers.Dense(4, activation="softmax", name="tags")(both)
    last = layers.GRU(3)(both, mask=keras.ops.not_equal(ids, 0))
    last = layers.Dense(2, name="answer")(last)
    return keras.Model(ids, {"tags": tags, "answer": last, **field})


def encoder(inference="threshold"):
    x, context = sequence(), keras.Input((CONTEXT,), name="context")
    mask = keras.Input((None,), dtype="bool", name="mask")
    layer = FocusedHierarchicalEncoder(
        6,
        return_sequences=True,
        return_gates=True,
        return_state=True,
        initial_openness=0.5,
        inference=inference,
        name="encoder",
    )
    states = [layers.Dense(6)(context) for _ in range(4)]
    outputs = layer(x, context, mask=mask, initial_state=states)
    return keras.Model([x, context, mask], outputs)


def cells():
    """A cell over windows, and two stacked ones from a learned state."""
    x, mask = sequence(), keras.Input((None,), dtype="bool", name="mask")
    windows = ReceptiveFieldWindows(3)(x, mask=mask)
    cell = RFCell(layers.SimpleRNNCell(5), 3)
    rnn = layers.RNN(cell, return_sequences=True)
    y = rnn(sequences=windows, mask=mask)
    cell = RFCell(layers.GRUCell(4), 2)
    y = KeepMask(layers.RNN(cell, return_sequences=True))(
        ReceptiveFieldWindows(2)(y)
    )
    stacked = ReceptiveFieldRNN(
        [layers.GRUCell(4), layers.LSTMCell(5)],
        2,
        return_sequences=True,
        return_state=True,
    )
    y = LearnedInitialState(stacked, state_initializer="random_normal")(y)
    return keras.Model([x, mask], y)


def convolutions():
    """A sequential model, whose last layer returns its last state."""
    return keras.Sequential(
        [
            sequence(),
            layers.Conv1D(4, 3, padding="causal", use_bias=False),
            layers.Conv1D(6, 2, padding="causal", dilation_rate=8, groups=2),
            layers.Conv1D(5, 1, activation="softmax"),
            layers.Conv1D(3, 9, padding="causal"),
            ReceptiveFieldRNN(layers.LSTMCell(5), 4, name="last"),
        ]
    )


def each_step():
    """Layers and operations that treat each step alone."""
    x, context = sequence(), keras.Input((CONTEXT,), name="context")
    y = layers.BatchNormalization()(layers.Dense(4)(x))
    y = layers.Dense(2, activation="softmax")(y)
    y = layers.Multiply()([layers.ReLU()(y), x[..., :2]])
    y = layers.Add()([layers.Dense(6)(y), layers.Dense(6)(context)])
    y = layers.GaussianNoise(0.1)(layers.Activation("gelu")(y))
    y = keras.ops.softmax(2 * y + keras.ops.tanh(x[:, :, :1]), axis=-1)
    y = y * keras.ops.mean(context, axis=-1)[:, None, None]
    mean = keras.ops.mean(y, axis=-1)
    y = layers.Concatenate()([y, keras.ops.expand_dims(mean, -1)])
    y = keras.ops.where(y > 0.1, y, keras.ops.max(y, axis=2, keepdims=True))
    return keras.Model([x, context], layers.LayerNormalization(name="y")(y))


def masked():
    """Masks of any pattern as an input, and states made of another one."""
    x, mask = sequence(), keras.Input((None,), dtype="bool", name="mask")
    context = keras.Input((CONTEXT,), name="context")
    y = ReceptiveFieldRNN(
        layers.GRUCell(5), 3, return_sequences=True, name="field"
    )(x, mask=mask, initial_state=[layers.Dense(5)(context)])
    states = [layers.Dense(6)(context) for _ in range(2)]
    y = layers.LSTM(6, return_sequences=True)(
        y, mask=mask, initial_state=states
    )
    y = layers.TimeDistributed(layers.Dense(2))(y)
    return keras.Model([x, mask, context], {"y": y, "state": states[0]})


def masked_beside():
    """Masks that come with a sequence, beside states made of another input."""
    ids = keras.Input((None,), dtype="int32", name="ids")
    context = keras.Input((CONTEXT,), name="context")
    words = layers.Embedding(10, 4, mask_zero=True)(ids)
    states = [layers.Dense(5)(context)]
    recurrent = [
        KeepMask(layers.GRU(5, return_sequences=True)),
        LearnedInitialState(layers.GRU(5, return_sequences=True)),
        ReceptiveFieldRNN(layers.GRUCell(5), 3, return_sequences=True),
        layers.GRU(5, return_sequences=True),
    ]
    both = [rnn(words, initial_state=states) for rnn in recurrent]
    return keras.Model([ids, context], {"y": layers.Concatenate()(both)})


def nested():
    """Functional and sequential models within a functional model."""
    x = sequence()
    inner = layers.LSTM(5, return_sequences=True)(x)
    inner = ReceptiveFieldRNN(layers.GRUCell(4), 4, return_sequences=True)(
        inner
    )
    inner = keras.Model(x, {"read": inner, "step": layers.Dense(4)(x)})
    last = keras.Sequential(
        [
            keras.Input((None, 4)),
            layers.LSTM(3, zero_output_for_mask=True),
            layers.Dense(2),
        ]
    )
    x = sequence()
    outputs = inner(x)
    both = layers.Add()([outputs["read"], outputs["step"]])
    again = ReceptiveFieldRNN(layers.GRUCell(3), 2, return_sequences=True)
    return keras.Model(x, {"tags": again(both), "answer": last(both)})


def looking():
    """Look-aheads of either kind, with a causal context and masks."""
    ids = keras.Input((None,), dtype="int32", name="ids")
    words = layers.Embedding(10, 6, mask_zero=True)(ids)
    mask = keras.ops.not_equal(ids, 0)
    before = layers.LSTM(5, return_sequences=True)(words)
    read, field = LookAhead(
        4,
        initial_stop=0.4,
        return_field=True,
        kernel_initializer=keras.initializers.RandomNormal(stddev=2.0),
    )(words, context=before)
    tags = layers.LSTM(5, return_sequences=True)(read, mask=mask)
    chosen, _ = LookAhead(3, size_from="input", return_field=True)(tags)
    last = layers.LSTM(3, return_sequences=True, name="last")(chosen)
    return keras.Model(ids, {"last": last, "size": field["size"]})


def strings():
    """Words in and out, one output of which waits for the other."""
    names = [f"word{i}" for i in range(9)]
    words = keras.Input((None,), dtype="string", name="words")
    ids = layers.StringLookup(vocabulary=names)(words)
    read = LookAhead(3, initial_stop=0.4)(layers.Embedding(10, 4)(ids))
    best = keras.ops.argmax(layers.Dense(9)(read), axis=-1)
    both = {"tags": best, "echo": ids}
    return keras.Model(
        words,
        {
            name: layers.StringLookup(vocabulary=names, invert=True, name=name)(
                x
            )
            for name, x in both.items()
        },
    )


def windows():
    """What comes and what was, in each way to write it; masks, a look-ahead."""
    ids = keras.Input((None,), dtype="int32", name="ids")
    mask = keras.ops.not_equal(ids, 0)
    words = layers.Embedding(10, 6, mask_zero=True)(ids)
    unmasked = keras.ops.tanh(words)
    padded = layers.ZeroPadding1D((0, 2))(unmasked)
    read = [padded[:, i : i - 2 or None] for i in range(3)]
    padded = keras.ops.pad(words, [[0, 0], [1, 1], [0, 0]])
    read += [padded[:, :-2], padded[:, 1:-1], padded[:, 1:, :4][:, 1:]]
    padded = layers.ZeroPadding1D((1, 3))(unmasked)
    read += [layers.Cropping1D(both)(padded) for both in ((3, 1), (1, 3))]
    read += [layers.ZeroPadding1D((3, 0))(unmasked)[:, :-3]]
    padding = [[0, 0], [0, 1], [0, 0]]
    read += [keras.ops.pad(words[:, 1:], padding, constant_values=0.5)]
    following = keras.ops.pad(ids, [[0, 0], [0, 1]], constant_values=9)[:, 1:]
    read += [layers.Embedding(10, 2)(following), words]
    read += [LookAhead(3, name="look", initial_stop=0.4)(words, mask=mask)]
    states = layers.LSTM(5, return_sequences=True)(
        keras.ops.concatenate(read, axis=-1), mask=mask
    )
    around = keras.ops.pad(states, padding)[:, 1:]
    both = layers.Concatenate(name="both")([around, states])
    return keras.Model(ids, {"both": both, "last": layers.GRU(3)(around)})


def gated():
    """Decisions of layers that treat each step alone, or know no steps."""
    x, table = sequence(), keras.Input((5, 4), name="table")
    context = AttentionPooling(name="pooling")(table)
    gate = BoundaryGate(4, initial_openness=0.5, name="gate")
    alone = ReceptiveFieldRNN(
        layers.GRUCell(3), 1, return_sequences=True, name="alone"
    )(x)
    gates = gate(LookAhead(2, name="look", initial_stop=0.4)(alone), context)
    return keras.Model([x, table], gates)


def answering():
    """One answer a row, early, behind a look-ahead; masks of any pattern."""
    x, mask = sequence(), keras.Input((None,), dtype="bool", name="mask")
    read = LookAhead(3, name="look", initial_stop=0.4)(x, mask=mask)
    states = layers.LSTM(6, return_sequences=True)(read, mask=mask)
    each = layers.Dense(4, activation="softmax")(states)
    stop = keras.ops.cast(keras.ops.max(each, axis=-1) > 0.3, "float32")
    early = EarlyPooling(return_attention_scores=True, name="early")
    answer, decided = early(each, stop, mask=mask)
    answer = layers.Dense(2, name="answer")(answer)
    by_row = {name: decided[name] for name in ("size", "answered")}
    return keras.Model([x, mask], {"answer": answer, **by_row})


MODELS = {
    "answering": (answering, 2),
    "strings": (strings, 2),
    "looking": (looking, 5),
    "tagger": (tagger, 5),
    "encoder": (encoder, 0),
    "running_sum": (functools.partial(encoder, "running_sum"), 0),
    "cells": (cells, 4),
    "convolutions": (convolutions, 3),
    "each_step": (each_step, 0),
    "masked_beside": (masked_beside, 2),
    "masked": (masked, 2),
    "nested": (nested, 4),
    "windows": (windows, 3),
    "gated": (gated, 1),
}


def example(specs, generator, batch_size, length):
    """Random inputs by name; ids end in zeros, of lengths that differ."""
    values = {}
    for name, spec in specs.items():
        shape = [batch_size, *spec.shape[1:]]
        if len(shape) > 1 and shape[1] is None:
            shape[1] = length
        if name == "ids":
            value = generator.integers(0, 10, shape)
            ends = generator.integers(0, length + 1, batch_size)
            value *= np.arange(length) < ends[:, None]
        elif name == "words":
            value = np.array([f"word{i}" for i in range(11)])
            values[name] = generator.choice(value, shape).astype(object)
            continue
        elif spec.dtype == bool:
            value = generator.random(shape) < 0.6
        else:
            value = generator.normal(size=shape)
        values[name] = value.astype(spec.dtype.as_numpy_dtype)
    return values


def random_cuts(generator, length):
    """Lengths of chunks, 0 among them, that add up."""
    cuts = []
    while sum(cuts) < length:
        cuts.append(int(generator.integers(0, 4)))
    cuts[-1] -= sum(cuts) - length
    return cuts + [0] * int(generator.integers(0, 2))


def run(stream, inputs, cuts):
    """What a `StreamingModel` returns for sequences in chunks, joined."""
    return run_counted(stream, inputs, cuts)[0]


def run_counted(stream, inputs, cuts):
    """The same, and how many steps each chunk gives to each row."""
    counts = []

    def step(chunk, state, end):
        outputs, state = stream.step(chunk, state, end)
        counts.append(outputs.get("count"))
        return outputs, state

    state = stream.start(len(next(iter(inputs.values()))))
    given, shown = stream.specs, stream.outputs
    found = _fresh_process.in_chunks(step, state, inputs, cuts, given, shown)
    return {name: x.numpy() for name, x in found.items()}, counts


def whole(stream, model, inputs):
    """What the model itself gives, and decides, for whole sequences."""
    leaves = [inputs[name] for name in stream.specs]
    packed = keras.tree.pack_sequence_as(graph.input_structure(model), leaves)
    with recording() as found:
        outputs = model(packed, training=False)
    decisions = found.by_layer() if found else None
    return signature.named_outputs(model, outputs, decisions)
