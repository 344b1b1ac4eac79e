"""Answers a question about a log: which number follows a name?

    python -m examples.focus

Of 48 words six are names, each followed by a number. What a user would write:
two LSTMs that get the question with each word, or attention. The question opens
gates of a `FocusedHierarchicalEncoder`, whose upper LSTM reads a few words.
"""

import keras
import numpy as np
from keras import layers

from keras_seqmech import ExploreThenCommit
from keras_seqmech import FocusedHierarchicalEncoder
from keras_seqmech import analysis

COUNT, TESTED, WORDS = 5000, 1000, np.array([*"ABCDEFGHIJKL0123456789.,:;-"])
random = np.random.default_rng(0)
logs = random.integers(22, len(WORDS), (COUNT, 48))
places = np.arange(0, 48, 8) + random.integers(7, size=(COUNT, 6))
names = random.permuted(np.tile(np.arange(12), (COUNT, 1)), axis=1)[:, :6]
numbers = random.integers(10, size=(COUNT, 6))
np.put_along_axis(logs, places, names, axis=1)
np.put_along_axis(logs, places + 1, 12 + numbers, axis=1)
rows, columns = np.arange(COUNT), random.integers(6, size=COUNT)
asked, answers = names[rows, columns], numbers[rows, columns]
train, test = [logs[TESTED:], asked[TESTED:]], [logs[:TESTED], asked[:TESTED]]


def build(kind):
    """A model of logs and questions."""
    inputs = log, question = [keras.Input(n, dtype="int32") for n in [[48], []]]
    word = layers.Embedding(len(WORDS), 32)(log)
    query = layers.Embedding(12, 32)(question)
    lower = layers.LSTM(32, return_sequences=True)
    if kind == "two LSTMs":
        both = layers.Concatenate()([word, layers.RepeatVector(48)(query)])
        state = layers.LSTM(32)(lower(both))
    elif kind == "attention":
        state = layers.Attention()([query[:, None], lower(word)])[:, 0]
    else:
        state = FocusedHierarchicalEncoder(32, name="focus")(word, query)
    return keras.Model(inputs, layers.Dense(10, activation="softmax")(state))


for kind in ("two LSTMs", "attention", "encoder"):
    keras.utils.set_random_seed(0)
    model = build(kind)
    adam = keras.optimizers.Adam(5e-3, global_clipnorm=1.0)
    model.compile(adam, "sparse_categorical_crossentropy")
    explore = [ExploreThenCommit()]
    callbacks = explore if kind == "encoder" else []
    model.fit(train, answers[TESTED:], 64, 16, verbose=0, callbacks=callbacks)
    right = model.predict(test, verbose=0).argmax(axis=-1) == answers[:TESTED]
    print(f"{kind}: {100 * np.mean(right):.1f} % right")

gates = analysis.decisions(model, test)["focus"]["gates"]
print(f"{gates.sum(axis=1).mean():.1f} of 48 gates are open, on average")
print(analysis.show(WORDS[logs[0]], gates={WORDS[asked[0]] + "?": gates[0]}))
