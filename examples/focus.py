"""Answers a question about a log: which number was written last to a name?

    python -m examples.focus

Of 48 words eight are names, each followed by a number. What a user would write:
two LSTMs that get the question with each word, or attention. The question opens
gates of a `FocusedHierarchicalEncoder`, whose upper LSTM reads a few words.
"""

import keras
import numpy as np
from keras import layers

from keras_seqmech import ExploreThenCommit
from keras_seqmech import FocusedHierarchicalEncoder

COUNT = 5000
FIT = {"epochs": 16, "batch_size": 64, "verbose": 0, "validation_split": 0.2}
WORDS = np.array([*"ABCDEF", *"0123456789", "and", "of", "so", "the", "then"])
random = np.random.default_rng(0)
logs = random.integers(16, len(WORDS), (COUNT, 48))
places = np.arange(0, 48, 6) + random.integers(5, size=(COUNT, 8))
names, numbers = (random.integers(n, size=(COUNT, 8)) for n in (6, 10))
np.put_along_axis(logs, places, names, axis=1)
np.put_along_axis(logs, places + 1, 6 + numbers, axis=1)
asked = names[:, 0]
answers = np.array([y[x == x[0]][-1] for x, y in zip(names, numbers)])


def build(kind):
    """Inputs, the answer, and an encoder's decisions."""
    inputs = log, question = keras.Input((48,)), keras.Input(())
    word = layers.Embedding(len(WORDS), 32)(log)
    query = layers.Embedding(6, 32)(question)
    lower, decisions = layers.LSTM(32, return_sequences=True), {}
    if kind == "two LSTMs":
        state = layers.LSTM(32)(lower(word + query[:, None]))
    elif kind == "attention":
        state = layers.Attention()([query[:, None], lower(word)])[:, 0]
    else:
        encoder = FocusedHierarchicalEncoder(32, return_gates=True)
        state, decisions = encoder(word, query)
    return inputs, layers.Dense(10, activation="softmax")(state), decisions


for kind in ("two LSTMs", "attention", "encoder"):
    keras.utils.set_random_seed(0)
    inputs, answer, decisions = build(kind)
    model = keras.Model(inputs, answer)
    adam = keras.optimizers.Adam(5e-3, global_clipnorm=1.0)
    model.compile(adam, "sparse_categorical_crossentropy", metrics=["accuracy"])
    explore = [ExploreThenCommit(entropy=0.5, reading=0.2)] if decisions else []
    fit = model.fit([logs, asked], answers, callbacks=explore, **FIT)
    print(f"{kind:9} {100 * fit.history['val_accuracy'][-1]:.1f} % right")

shown = keras.Model(inputs, decisions["gates"])
gates = shown.predict([logs[-1000:], asked[-1000:]], verbose=0)
print(f"Open gates: {gates.sum(axis=1).mean():.1f} of 48. {WORDS[asked[-1]]}?")
print(*WORDS[logs[-1]])
print(*np.where(gates[-1] > 0.5, WORDS[logs[-1]], "-"))
