"""Lets a costly layer read only the steps at which a gate is open.

    python -m examples.skip

Of 16 pictures, what does that show whose word is of the kind asked for? What a
user would write: a costly layer reads all, then attention over words chooses.
"""

import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from keras_seqmech import BoundaryGate
from keras_seqmech import ExploreThenCommit

COUNT, TESTED, random = 5000, 1000, np.random.default_rng(0)
kinds = random.permuted(np.tile(np.arange(16), (COUNT, 1)), axis=1)
words = kinds + 16 * random.integers(2, size=kinds.shape)  # Two of a kind.
shown = random.integers(10, size=kinds.shape)
pictures = random.normal(random.normal(size=(10, 32))[shown])
asked = random.integers(16, size=(COUNT, 1))
data = words, pictures, asked, shown[kinds == asked]
*train, answers = [x[TESTED:] for x in data]
*test, expected = [x[:TESTED] for x in data]


class ReadOpen(layers.Wrapper):
    """Adds up what a layer makes of the steps whose gates are open."""

    def call(self, steps, gates, training=False):
        places = tf.where((gates > 0.5) | training)  # Training reads all.
        read = self.layer(tf.gather_nd(steps, places))
        read *= tf.gather_nd(gates, places)[:, None]
        return keras.ops.segment_sum(read, places[:, 0], tf.shape(gates)[0])


for kind in ("all", "gate"):
    keras.utils.set_random_seed(0)
    word, picture, question = inputs = [keras.Input(x.shape[1:]) for x in train]
    keys = layers.Embedding(32, 32)(word)
    query = layers.Embedding(16, 32)(question)
    costly = keras.Sequential([layers.Dense(512, "relu") for _ in range(2)])
    if kind == "gate":
        costly.build((None, 32))
        read = ReadOpen(costly)(picture, BoundaryGate(32)(keys, query[:, 0]))
    else:
        read = layers.Attention()([query, costly(picture), keys])[:, 0]
    model = keras.Model(inputs, layers.Dense(10, "softmax")(read))
    adam = keras.optimizers.Adam(5e-3, global_clipnorm=1.0)
    model.compile(adam, "sparse_categorical_crossentropy", metrics=["acc"])
    explore = [ExploreThenCommit(reading=0.3)] * (kind == "gate")
    model.fit(train, answers, 64, 16, verbose=0, callbacks=explore)
    for _ in range(2):
        start = time.perf_counter()
        _, right = model.evaluate(test, expected, 200, verbose=0)
        ms = 1000 * (time.perf_counter() - start) / TESTED
    print(f"{kind}: {100 * right:.1f} % right, {ms:.2f} ms an answer")
