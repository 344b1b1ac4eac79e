"""Taggers of characters whose text is still arriving: models, training, F1.

What users write: an LSTM (`lstm`); an LSTM over the embeddings of this
character and the k after it (`window`), also with a lower LSTM beside them
(`window+lower`), and with a hidden layer over them, too (`window+dense`);
targets `shifted` by k; a `convolution` over k + 1 characters, then an LSTM; a
`bilstm`, which waits for the end. What this package adds: `ReceptiveFieldRNN`
with fields of k + 1 characters (`field`) and of as many as they choose
(`adaptive field`), and `LookAhead` in front of an LSTM (`look_ahead`), its
decisions made beside a lower LSTM, whose outputs the upper one reads, too, as
in `window+lower`; `look_ahead+dense` is the same of `window+dense`. The setting
of a model is k, or the weight of what is read; `one_look_ahead+dense` has the
weight as an input, so that one training serves all its settings. So does one of
`one_confident+dense`: it reads on until its tag is probable enough; and one of
`one_limit+dense`, whose setting is the longest wait, at a weight of `PRICE`.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf
from keras import layers
from keras import ops
from keras.utils import pad_sequences

import keras_seqmech as seqmech
from examples.receptive_field import streams
from examples.receptive_field import taggers
from examples.receptive_field.confident import ConfidentTagger

AHEAD = (1, 2, 3)
WEIGHTS = (0.05, 0.02, 0.01)
# Settings of each model.
MODELS: dict[str, Sequence[float]] = {
    "lstm": (0,),
    "window": AHEAD,
    "window+lower": AHEAD,
    "window+dense": AHEAD,
    "shifted": AHEAD,
    "convolution": AHEAD,
    "field": AHEAD,
    "bilstm": (math.inf,),
    "adaptive field": WEIGHTS,
    "look_ahead": WEIGHTS,
    "look_ahead+dense": WEIGHTS,
    "one_look_ahead+dense": (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002),
    "one_confident+dense": (0.5, 0.7, 0.8, 0.9, 0.95, 0.99),
    "one_limit+dense": (0, 1, 2, 3),
}
LEARNED = tuple(x for x in MODELS if re.search("look_ahead|adaptive|limit", x))
ADAPTIVE = (*LEARNED, "one_confident+dense")
# The input that is the setting of a model for all of them.
INPUTS = {
    "one_look_ahead+dense": "weight",
    "one_confident+dense": "confidence",
    "one_limit+dense": "limit",
}
# The weight of what is read where the longest wait is given.
PRICE = 0.01
EMBEDDING, LOWER, BATCH = 64, 48, 64
LEARNING_RATE = 5e-3
# 0 is padding, 1 stands for unknown characters.
PADDING, FIRST = 0, 2


class Arrays(NamedTuple):
    """Texts as ids and tags, `(texts, length)`, zeros behind their ends."""

    ids: np.ndarray
    tags: np.ndarray

    @property
    def mask(self) -> np.ndarray:
        """True at characters."""
        return self.ids != PADDING


def encode(
    texts: Sequence[streams.Tagged],
    vocabulary: Sequence[str],
    tags: Sequence[str],
) -> Arrays:
    """Ids of characters, 1 where one is unknown, and of tags."""
    id_of = {x: i for i, x in enumerate(vocabulary, FIRST)}
    number_of = {x: i for i, x in enumerate(tags)}
    ids = [[id_of.get(x, 1) for x in text] for text, _ in texts]
    numbers = [[number_of[x] for x in own] for _, own in texts]
    padded = (pad_sequences(x, padding="post") for x in (ids, numbers))
    return Arrays(*padded)


class Tagger(NamedTuple):
    """A trained model, and the texts to test it on."""

    name: str  # One of `MODELS`.
    setting: float
    model: keras.Model
    vocabulary: list[str]
    texts: streams.Texts
    tests: Arrays

    def test(self) -> tuple[float, np.ndarray]:
        """F1 in %, and how long each character of all test texts waits."""
        inputs = self.tests.ids
        if self.name in INPUTS:
            given = np.full(len(inputs), self.setting)
            inputs = {"ids": inputs, INPUTS[self.name]: given}
        found = self.model.predict(inputs, batch_size=256, verbose=0)
        tags = np.argmax(found["tags"], axis=-1)
        delays = delays_of(self.name, self.setting, found, self.tests.mask)
        return f1(tags, self.tests, self.texts), delays[self.tests.mask]


def train(
    name: str,
    setting: float,
    texts: streams.Texts,
    epochs: int,
    seed: int,
    units: int = 64,
    max_size: int = 12,
    verbose: str | int = 0,
    drawn: tuple[float, float] | None = None,
) -> Tagger:
    """Trains one of `MODELS`.

    The weights of `one_look_ahead+dense` are drawn from a range, that of
    `ReadingWeight` if None.
    """
    counts = Counter(x for text, _ in texts.train for x in text)
    vocabulary = sorted(x for x, count in counts.items() if count > 1)
    keras.utils.clear_session()
    keras.utils.set_random_seed(seed)
    size = len(vocabulary) + FIRST
    model = build(name, setting, size, len(texts.tags), units, max_size, drawn)
    # Of a weight that is an input, the scheduled one is a factor.
    reading = 1.0 if name == "one_look_ahead+dense" else setting
    reading = PRICE if name == "one_limit+dense" else reading
    explore = seqmech.ExploreThenCommit(reading=reading)
    callbacks = [explore] if name in LEARNED else []
    arrays = encode(texts.train, vocabulary, texts.tags)
    fit(model, arrays, epochs, seed, callbacks, verbose)
    tests = encode(texts.test, vocabulary, texts.tags)
    return Tagger(name, setting, model, vocabulary, texts, tests)


def build(
    name: str,
    setting: float,
    vocabulary_size: int,
    classes: int,
    units: int,
    max_size: int,
    drawn: tuple[float, float] | None = None,
) -> keras.Model:
    """A tagger: ids `(batch, time)` in, probabilities of tags out.

    Adaptive ones return `"size"`, `(batch, time)`, too; one for all settings
    takes it, `(batch,)`, as named in `INPUTS`.
    """
    ids = keras.Input((None,), dtype="int32", name="ids")
    inputs, given, weight, limit = ids, None, None, None
    if name in INPUTS:
        given = keras.Input((), name=INPUTS[name])
        inputs = {"ids": ids, INPUTS[name]: given}
    if name == "one_look_ahead+dense":
        weight = seqmech.ReadingWeight(*(drawn or ()))(given)
    if name == "one_limit+dense":
        limit = seqmech.ReadingLimit(max_size - 1)(given)
    mask = ops.not_equal(ids, PADDING)
    x = layers.Embedding(vocabulary_size, EMBEDDING)(ids)
    x = x * ops.cast(ops.expand_dims(mask, -1), x.dtype)
    ahead = 0 if name in (*ADAPTIVE, "bilstm") else int(setting)
    outputs = {}

    def lstm(x: keras.KerasTensor, width: int = units) -> keras.KerasTensor:
        return layers.LSTM(width, return_sequences=True)(x)

    def upper(
        read: keras.KerasTensor, before: keras.KerasTensor
    ) -> keras.KerasTensor:
        parts = [read, before]
        if name.endswith("+dense"):
            parts.append(layers.Dense(units, activation="relu")(read))
        return lstm(ops.concatenate(parts, axis=-1))

    if name == "bilstm":
        both = layers.Bidirectional(layers.LSTM(units, return_sequences=True))
        y = both(x, mask=mask)
    elif name in ("window", "window+lower", "window+dense"):
        read = ops.concatenate([shift(x, i) for i in range(ahead + 1)], axis=-1)
        y = lstm(read) if name == "window" else upper(read, lstm(x, LOWER))
    elif name == "shifted":
        padded = ops.pad(x, [[0, 0], [0, ahead], [0, 0]])
        y = lstm(padded)[:, ahead:]
    elif name == "convolution":
        padded = ops.pad(x, [[0, 0], [0, ahead], [0, 0]])
        y = lstm(layers.Conv1D(units, ahead + 1, activation="relu")(padded))
    elif "look_ahead" in name or limit is not None:
        before = lstm(x, LOWER)
        look = seqmech.LookAhead(max_size, return_field=True, name="look")
        given = {"weight": weight, "limit": limit}
        read, field = look(x, context=before, mask=mask, **given)
        outputs["size"] = field["size"]
        y = upper(read, before)
    elif name == "one_confident+dense":
        windows = ops.stack([shift(x, i) for i in range(max_size)], axis=2)
        found = ConfidentTagger(units, classes)(windows, lstm(x, LOWER), given)
        return keras.Model(inputs, found)
    elif name in ("field", "adaptive field"):
        size = max_size if name in ADAPTIVE else ahead + 1
        held = seqmech.DecisionPenalties(target=size, target_weight=10.0)
        y, field = seqmech.ReceptiveFieldRNN(
            layers.LSTMCell(units),
            size,
            gated="output",
            penalties=None if name in ADAPTIVE else held,
            return_field=True,
            return_sequences=True,
        )(x, mask=mask)
        if name in ADAPTIVE:
            outputs["size"] = field["size"]
    else:
        y = lstm(x)
    tags = layers.Dense(classes, activation="softmax", name="tags")(y)
    return keras.Model(inputs, {"tags": tags, **outputs})


def shift(x: keras.KerasTensor, steps: int) -> keras.KerasTensor:
    """What comes some steps later, zeros behind the end."""
    return ops.pad(x, [[0, 0], [0, steps], [0, 0]])[:, steps:]


def fit(
    model: keras.Model,
    train: Arrays,
    epochs: int,
    seed: int,
    callbacks: Sequence[keras.callbacks.Callback],
    verbose: str | int,
) -> None:
    """Trains with Adam, the learning rate falling along a cosine."""
    batches = len(train.ids) // BATCH
    steps = epochs * batches
    rate = keras.optimizers.schedules.CosineDecay(LEARNING_RATE, steps)
    data = alike(train, seed).repeat()
    if isinstance(model.input, dict):
        (given,) = set(model.input) - {"ids"}

        def add_setting(ids, *rest):
            # Training draws settings in place of these.
            return {"ids": ids, given: tf.ones(tf.shape(ids)[:1])}, *rest

        data = data.map(add_setting)
    tagger = keras.Model(model.input, model.output["tags"])
    taggers.trainable(tagger, rate).fit(
        data,
        epochs=epochs,
        steps_per_epoch=batches,
        shuffle=False,
        callbacks=callbacks,
        verbose=verbose,
    )


def alike(train: Arrays, seed: int) -> tf.data.Dataset:
    """Batches of texts of similar length, shuffled, with weights."""
    lengths = train.mask.sum(axis=1)
    generator = np.random.default_rng(seed)

    def batches():
        order = generator.permutation(len(lengths))
        pools = np.array_split(order, -(-len(order) // (16 * BATCH)))
        chosen = []
        for pool in pools:
            pool = pool[np.argsort(lengths[pool], kind="stable")]
            count = len(pool) // BATCH
            chosen += np.array_split(pool[: count * BATCH], count)
        for i in generator.permutation(len(chosen)):
            own = slice(lengths[chosen[i]].max())
            ids, tags, mask = (
                x[chosen[i]][:, own] for x in (*train, train.mask)
            )
            yield ids, tags, mask.astype("float32")

    types = ("int32", "int32", "float32")
    signature = tuple(tf.TensorSpec((None, None), x) for x in types)
    return tf.data.Dataset.from_generator(batches, output_signature=signature)


def delays_of(
    name: str, setting: float, found: dict[str, Any], mask: np.ndarray
) -> np.ndarray:
    """How long each character waits for its tag, `(texts, length)`."""
    if name in ADAPTIVE:
        return seqmech.analysis.emission_delay(found["size"], mask)
    # All that is waited for, at most to the end of the text.
    ends = mask.sum(axis=1, keepdims=True)
    left = np.maximum(ends - 1 - np.arange(mask.shape[1]), 0)
    return np.minimum(left, setting).astype(int)


def f1(found: np.ndarray, test: Arrays, texts: streams.Texts) -> float:
    """F1 of words, or of tokens with their kinds, in %."""
    right = total = 0
    names = np.array(texts.tags)
    for tags, expected, real in zip(found, test.tags, test.mask):
        a, b = (texts.spans(names[x[real]]) for x in (tags, expected))
        right, total = right + len(a & b), total + len(a) + len(b)
    return 100 * 2 * right / total
