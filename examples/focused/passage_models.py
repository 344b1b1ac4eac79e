"""Models that answer questions about a passage: two LSTMs and a focused one.

A question is read into one vector, the context. `lstm1` and `lstm2` read the
passage with one or two LSTMs, `fhe` with a `FocusedHierarchicalEncoder` that
the context tells where to open its gates. An answer is written by an LSTM that
starts from the last state and the context, with a `PointerSoftmax` that
attends to all states, or to those at open gates; or it is one of a few labels.

Two models are `fhe` without one of its parts, as in the slides' ablation study,
which does not say what takes its place:

- `fhe_no_product`: the gate sees the state and the context, not their product;
- `fhe_fixed_gates`: gates are open at every second word, as many as the target
  of `fhe` allows, and not learned. Always open ones would make it `lstm2`.
"""

import argparse
from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from examples.focused.passage_words import END
from examples.focused.passage_words import PADDING
from examples.focused.passage_words import START
from examples.focused.passage_words import Encoded
from examples.focused.passage_words import Words
from keras_seqmech import DecisionPenalties
from keras_seqmech import FocusedHierarchicalEncoder
from keras_seqmech import PointerSoftmax
from keras_seqmech import PolicyGradientModel

MODELS = ("lstm1", "lstm2", "fhe")
NO_PRODUCT, FIXED_GATES = "fhe_no_product", "fhe_fixed_gates"
ABLATIONS = (NO_PRODUCT, FIXED_GATES)
# They learn gates, by their policy's gradient.
GATED = ("fhe", NO_PRODUCT)
DROPOUT, LEARNING_RATE = 0.3, 1e-3
# Target of the share of open gates; fixed ones are open at each n-th word.
OPENNESS = 0.5
EVERY = 2


class Network(NamedTuple):
    """A model, and parts of it that share its weights.

    `model` is what is trained: named inputs to probabilities, of labels, or of
    words at each step of an answer that is given. The writer maps a word and
    what the reader found to the probabilities of the next word and the new
    state.
    """

    model: keras.Model
    reader: keras.Model | None = None
    writer: keras.Model | None = None
    gates: keras.Model | None = None


class Passage(NamedTuple):
    """States to attend to, their mask, the last state, and the gates."""

    states: keras.KerasTensor
    mask: keras.KerasTensor
    last: list[keras.KerasTensor]
    decisions: dict[str, keras.KerasTensor] | None = None


def build_writer(
    name: str,
    matrix: np.ndarray,
    words: Words,
    extra_words: int,
    args: argparse.Namespace,
) -> Network:
    """Builds one of `MODELS` or `ABLATIONS` that writes answers.

    `matrix` holds the vectors of all words, and `extra_words` is the largest
    number of words beyond the vocabulary in a passage.
    """
    ids = {
        key: keras.Input((None,), dtype="int32", name=key)
        for key in ("question", "passage", "copies", "previous")
    }
    embedding = _embedding(matrix, args)
    context, passage = _read(name, ids, embedding, args)
    copies = ids["copies"]
    if passage.decisions is not None:
        steps = passage.decisions["indices"]
        copies = ops.take_along_axis(copies, steps, axis=1)
    start = [
        keras.layers.Dense(args.units, name=f"start_{part}")(
            ops.concatenate([state, context], axis=-1)
        )
        for part, state in zip("hc", passage.last)
    ]
    decoder = keras.layers.LSTM(
        args.units, return_sequences=True, return_state=True, name="decoder"
    )
    choose = PointerSoftmax(
        words.vocabulary_size, extra_words=extra_words, name="pointer"
    )

    def write(previous, states, mask, copies, h, c):
        x = embedding(previous)
        x, h, c = decoder(x, initial_state=[h, c])
        x = keras.layers.Dropout(DROPOUT)(x)
        p = choose(x, states, sequence_mask=mask, token_ids=copies)
        return p, h, c

    outputs, *_ = write(
        ids["previous"], passage.states, passage.mask, copies, *start
    )
    read = [passage.states, passage.mask, copies, *start]
    asked = {key: ids[key] for key in ("question", "passage", "copies")}
    inputs = [
        keras.Input(x.shape[1:], dtype=x.dtype)
        for x in (ids["previous"], *read)
    ]
    return Network(
        _compiled(name, ids, outputs, args),
        keras.Model(asked, read),
        keras.Model(inputs, write(*inputs)),
        _gates(asked, passage),
    )


def build_classifier(
    name: str, matrix: np.ndarray, labels: int, args: argparse.Namespace
) -> Network:
    """Builds one of `MODELS` or `ABLATIONS` that chooses a label."""
    ids = {
        key: keras.Input((None,), dtype="int32", name=key)
        for key in ("question", "passage")
    }
    context, passage = _read(name, ids, _embedding(matrix, args), args)
    x = ops.concatenate([passage.last[0], context], axis=-1)
    x = keras.layers.Dropout(DROPOUT)(x)
    outputs = keras.layers.Dense(labels, activation="softmax")(x)
    return Network(
        _compiled(name, ids, outputs, args), gates=_gates(ids, passage)
    )


def _embedding(matrix, args):
    """Vectors of words; those of a file stay as they are."""
    embedding = keras.layers.Embedding(
        *matrix.shape, trainable=not args.vectors, name="embedding"
    )
    embedding.build()
    embedding.embeddings.assign(matrix)
    return embedding


def _read(name, ids, embedding, args):
    """The context, and what reading the passage leaves."""
    masks = {
        key: ops.not_equal(ids[key], PADDING) for key in ("question", "passage")
    }
    dropout = keras.layers.Dropout(DROPOUT)
    asked = dropout(embedding(ids["question"]))
    context = keras.layers.LSTM(args.units, name="question_reader")(
        asked, mask=masks["question"]
    )
    x, mask = dropout(embedding(ids["passage"])), masks["passage"]
    if name in GATED:
        encoder = FocusedHierarchicalEncoder(
            args.units,
            estimator="reinforce",
            penalties=DecisionPenalties(
                target=OPENNESS,
                target_weight=0.6,
                target_of="row_above",
                entropy=1.0,
            ),
            return_focused=True,
            return_state=True,
            return_gates=True,
            track_statistics=True,
            name="reader",
        )
        *outputs, decisions = encoder(x, context, sequence_mask=mask)
        if name == NO_PRODUCT:
            kernel = encoder.gate.kernel
            kernel.constraint = WithoutProduct()
            kernel.assign(kernel.constraint(kernel))
        states, mask, _, _, *last = outputs
        return context, Passage(states, mask, last, decisions)
    if name == FIXED_GATES:
        return context, _read_fixed(x, mask, args)
    for i in range(int(name[-1])):
        x, *last = keras.layers.LSTM(
            args.units,
            return_sequences=True,
            return_state=True,
            name=f"reader_{i}",
        )(x, mask=mask)
    return context, Passage(x, mask, last)


class WithoutProduct(keras.constraints.Constraint):
    """Keeps the weights of the product at zero in the kernel of a gate.

    Of a `BoundaryGate`, whose $z_t$ is then $[h_t, q]$. They are the first
    third of its rows.
    """

    def __call__(self, kernel: keras.KerasTensor) -> keras.KerasTensor:
        product, *others = ops.split(kernel, 3, axis=0)
        return ops.concatenate([ops.zeros_like(product), *others])


def _read_fixed(x, mask, args):
    """What an encoder leaves whose gates are open at every n-th word."""
    chosen = slice(EVERY - 1, None, EVERY)
    lower = keras.layers.LSTM(args.units, return_sequences=True, name="lower")
    steps = ops.cumsum(ops.ones_like(mask, dtype="int32"), axis=1) - 1
    gates = ops.logical_and(ops.equal(steps % EVERY, EVERY - 1), mask)
    decisions = {
        "gates": ops.cast(gates, "float32"),
        "indices": steps[:, chosen],
    }
    focused = mask[:, chosen]
    states, *last = keras.layers.LSTM(
        args.units, return_sequences=True, return_state=True, name="upper"
    )(lower(x, mask=mask)[:, chosen], mask=focused)
    return Passage(states, focused, last, decisions)


def _compiled(name, inputs, outputs, args):
    model = keras.Model(inputs, outputs, name=name)
    if name in GATED:
        model = PolicyGradientModel(model, name=name)
    model.compile(
        keras.optimizers.Adam(LEARNING_RATE, clipnorm=1.0),
        # Of an answer of several words, the mean over them.
        loss=keras.losses.SparseCategoricalCrossentropy(
            reduction="mean_with_sample_weight"
        ),
    )
    return model


def _gates(inputs, passage):
    if passage.decisions is None:
        return None
    inputs = {key: inputs[key] for key in ("question", "passage")}
    return keras.Model(inputs, passage.decisions["gates"])


def write_answers(
    network: Network, encoded: Encoded, words: Words, batch_size: int
) -> list[str]:
    """Answers by the most probable word at each step, up to `END`.

    Targets are not looked at, but for the most words that an answer may have.
    """
    chosen = []
    asked = {k: v for k, v in encoded.inputs.items() if k != "previous"}
    for start in range(0, len(encoded.questions), batch_size):
        batch = {k: v[start : start + batch_size] for k, v in asked.items()}
        extras = encoded.extras[start : start + batch_size]
        chosen += _write_batch(
            network, batch, extras, words, encoded.targets.shape[1]
        )
    return [
        " ".join(words.word(i, extras) for i in answer)
        for answer, extras in zip(chosen, encoded.extras)
    ]


def _write_batch(network, batch, extras, words, length):
    """Ids of answers, without `END` and what follows it."""
    *memory, h, c = network.reader.predict_on_batch(batch)
    previous = np.full((len(h), 1), START, "int32")
    chosen = []
    for _ in range(length):
        p, h, c = network.writer.predict_on_batch([previous, *memory, h, c])
        p[:, 0, :END] = 0  # Answers have no special tokens.
        ids = p[:, 0].argmax(axis=-1)
        chosen.append(ids)
        read = [words.read([words.word(i, e)]) for i, e in zip(ids, extras)]
        previous = np.array(read, "int32")
    answers = np.stack(chosen, axis=1).tolist()
    return [a[: a.index(END)] if END in a else a for a in answers]


def openness(network: Network, encoded: Encoded, batch_size: int) -> float:
    """Share of the words of passages at which gates are open."""
    inputs = {key: encoded.inputs[key] for key in ("question", "passage")}
    gates = network.gates.predict(inputs, batch_size, verbose=0)
    return float(gates.sum() / (inputs["passage"] != PADDING).sum())
