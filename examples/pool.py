"""Weighs opinions: are more of five words within a long text good than bad?

    python -m examples.pool

Five of 300 words are "good" or "bad", the others say nothing. What a user would
write: the last state of an LSTM, or the mean or the maximum of its states. A
`MaxAttentionPooling` reads the states that are like the maximum; it has no
weights to learn, and says which states these were.
"""

import keras
import numpy as np
from keras import layers

from keras_seqmech import MaxAttentionPooling

COUNT, LENGTH, WORDS = 2000, 300, 1000
FIT = {"epochs": 8, "batch_size": 32, "validation_split": 0.5, "verbose": 0}
random = np.random.default_rng(0)
texts = random.integers(2, WORDS, (COUNT, LENGTH))  # 0 is bad, 1 is good.
places = np.arange(75, 225, 30) + random.integers(30, size=(COUNT, 5))
opinions = random.integers(2, size=(COUNT, 5))
np.put_along_axis(texts, places, opinions, axis=1)
good = (opinions.sum(axis=1) > 2).astype(int)

POOLINGS = {
    "last state": lambda states: states[:, -1],
    "mean": layers.GlobalAveragePooling1D(),
    "maximum": layers.GlobalMaxPooling1D(),
    "max-attention": MaxAttentionPooling(return_attention_scores=True),
}
models = {}
for name, pooling in POOLINGS.items():
    keras.utils.set_random_seed(0)
    inputs = keras.Input((None,), dtype="int32")
    word = layers.Embedding(WORDS, 16)(inputs)
    pooled = pooling(
        layers.LSTM(32, return_sequences=True, name="states")(word)
    )
    if name == "max-attention":
        pooled, decisions = pooled
    answer = layers.Dense(1, activation="sigmoid")(pooled)
    models[name] = keras.Model(inputs, answer)
    adam = keras.optimizers.Adam(5e-3)
    models[name].compile(adam, "binary_crossentropy", metrics=["accuracy"])
    fit = models[name].fit(texts, good, **FIT)
    print(f"{name:13} {100 * fit.history['val_accuracy'][-1]:.1f} % right")

shown = keras.Model(inputs, decisions["attention_scores"])
(scores,) = shown.predict(texts[-1:], verbose=0)
