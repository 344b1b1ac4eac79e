"""Finds words in English text without spaces that arrives letter by letter.

    python -m examples.read_ahead

An LSTM over the next letters always waits, a `LookAhead` where it has to.
"""

import re
from pydoc_data import topics

import keras
import numpy as np
from keras import layers

from keras_seqmech import ExploreThenCommit
from keras_seqmech import LookAhead
from keras_seqmech import analysis

COUNT, LENGTH = 5000, 60
FIT = {"epochs": 8, "batch_size": 64, "validation_split": 0.1, "verbose": 0}
words = re.findall("[a-z]+", " ".join(topics.topics.values()).lower())
text = np.array([*"".join(words)])[: COUNT * LENGTH].reshape(COUNT, LENGTH)
ids = text.view("int32") - ord("a")
ends = np.concatenate([[0] * (len(word) - 1) + [1] for word in words])
ends = ends[: COUNT * LENGTH].reshape(COUNT, LENGTH, 1)


def build(ahead):
    """Inputs, word ends, and how many letters are read."""
    inputs = keras.Input((None,), dtype="int32")
    letter = layers.Embedding(26, 32)(inputs)
    before = layers.LSTM(32, return_sequences=True)(letter)
    if ahead == "LookAhead":
        read, field = LookAhead(8, return_field=True)(letter, context=before)
        size = field["size"]
    else:
        after = layers.ZeroPadding1D((0, ahead))(letter)
        window = [after[:, k : k - ahead or None] for k in range(ahead + 1)]
        read = keras.ops.concatenate(window, axis=-1)
        size = keras.ops.ones_like(inputs) + ahead
    both = layers.Concatenate()([read, before])
    state = layers.LSTM(64, return_sequences=True)(both)
    return inputs, layers.Dense(1, "sigmoid", name="end")(state), size


for ahead in (0, 1, 2, "LookAhead"):
    keras.utils.set_random_seed(0)
    inputs, end, size = build(ahead)
    model, shown = keras.Model(inputs, end), keras.Model(inputs, [end, size])
    model.compile(keras.optimizers.Adam(5e-3), "binary_crossentropy")
    explore = [ExploreThenCommit()] if ahead == "LookAhead" else []
    model.fit(ids, ends, callbacks=explore, **FIT)
    found, sizes = shown.predict(ids[-500:], verbose=0)
    right = 100 * np.mean((found > 0.5) == ends[-500:])
    delay = analysis.emission_delay(sizes).mean()
    print(f"{ahead:9} {right:.1f} % right, {delay:.2f} letters later")

print(*text[-1])
print(*sizes[-1].astype(int))
print(*np.where(found[-1, :, 0] > 0.5, "|", " "))
