"""Weighs opinions: are more of five words within a long text good than bad?

    python -m examples.pool

Five of 300 words are "good" or "bad", the others say nothing. What a user would
write: the last state of an LSTM, the mean or the maximum of its states, or
attention to them. `MaxAttentionPooling` reads the states most like the maximum,
and says which.
"""

import keras
import numpy as np
from keras import layers

from keras_seqmech import MaxAttentionPooling
from keras_seqmech import analysis

COUNT, TESTED, LENGTH, WORDS = 2000, 1000, 300, 1000
random = np.random.default_rng(0)
texts = random.integers(2, WORDS, (COUNT, LENGTH))  # 0 is bad, 1 is good.
places = np.arange(75, 225, 30) + random.integers(30, size=(COUNT, 5))
opinions = random.integers(2, size=(COUNT, 5))
np.put_along_axis(texts, places, opinions, axis=1)
good = (opinions.sum(axis=1) > 2).astype(int)


def attention(states):
    """Keras' attention, whose query is the last state."""
    return layers.AdditiveAttention()([states[:, -1:], states])[:, 0]


POOLINGS = {
    "last state": lambda states: states[:, -1],
    "mean": layers.GlobalAveragePooling1D(),
    "maximum": layers.GlobalMaxPooling1D(),
    "attention": attention,
    "max-attention": MaxAttentionPooling(name="pooling"),
}
models = {}
for name, pooling in POOLINGS.items():
    keras.utils.set_random_seed(0)
    inputs = keras.Input((None,), dtype="int32")
    word = layers.Embedding(WORDS, 16)(inputs)
    states = layers.LSTM(32, return_sequences=True, name="states")(word)
    answer = layers.Dense(1, activation="sigmoid")(pooling(states))
    models[name] = model = keras.Model(inputs, answer)
    model.compile(keras.optimizers.Adam(5e-3), "binary_crossentropy")
    model.fit(texts[TESTED:], good[TESTED:], 32, 12, verbose=0)
    found = model.predict(texts[:TESTED], verbose=0)[:, 0] > 0.5
    print(f"{name}: {100 * np.mean(found == good[:TESTED]):.1f} % right")

scores = analysis.decisions(model, texts[:1])["pooling"]["attention_scores"][0]
near = slice(places[0, 0] - 3, places[0, 0] + 6)
shown = np.array(["bad", "good"] + ["..."] * WORDS)[texts[0, near]]
print(analysis.show(shown, attention=scores[near], title="Part of a text"))
