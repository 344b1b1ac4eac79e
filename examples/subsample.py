"""Reads the capitals of a text: shortens it to them, for the layers above.

    python -m examples.subsample

Of 48 letters four are capitals, the answer, in their order. What a user would
write: a GRU over all steps, each twelfth step, or a strided convolution. An
`ExpectedSubsample` learns which four steps to keep.
"""

import keras
import numpy as np
from keras import layers

from keras_seqmech import DecisionPenalties
from keras_seqmech import EmissionProbabilities
from keras_seqmech import ExpectedSubsample
from keras_seqmech import ExploreThenCommit
from keras_seqmech import analysis

COUNT, TESTED, LETTERS = 5000, 1000, np.array([*"abcdefghABCDEFGH"])
random = np.random.default_rng(0)
letters = random.integers(8, size=(COUNT, 48))
capital = random.permuted(np.tile([1] * 4 + [0] * 44, (COUNT, 1)), axis=1)
x, y = letters + 8 * capital, letters[capital == 1].reshape(COUNT, 4)


def build(kind):
    """A model that reads a text and writes four letters."""
    inputs = keras.Input((48,), dtype="int32")
    steps = layers.Dense(16, activation="relu")(keras.ops.one_hot(inputs, 16))
    if kind == "each twelfth":
        steps = steps[:, 11::12]
    elif kind == "convolution":
        steps = layers.Conv1D(16, 12, strides=12, activation="relu")(steps)
    elif kind == "subsample":
        kept = EmissionProbabilities(4 / 48)(steps)
        target = DecisionPenalties(target=4 / 48, target_weight=1.0)
        layer = ExpectedSubsample(4, penalties=target, name="kept")
        steps = layer(steps, kept)
    else:
        steps = layers.RepeatVector(4)(layers.GRU(32)(steps))
    written = layers.GRU(32, return_sequences=True)(steps)
    return keras.Model(inputs, layers.Dense(8, activation="softmax")(written))


for kind in ("all steps", "each twelfth", "convolution", "subsample"):
    keras.utils.set_random_seed(0)
    model = build(kind)
    adam = keras.optimizers.Adam(5e-3, global_clipnorm=1.0)
    model.compile(adam, "sparse_categorical_crossentropy")
    explore = [ExploreThenCommit()] if kind == "subsample" else []
    model.fit(x[TESTED:], y[TESTED:], 64, 12, verbose=0, callbacks=explore)
    right = model.predict(x[:TESTED], verbose=0).argmax(axis=-1) == y[:TESTED]
    print(f"{kind}: {100 * right.mean():.1f} % of the letters are right")

kept = analysis.decisions(model, x[:1])["kept"]["emission"].sum(axis=1)[0]
print(analysis.show(LETTERS[x[0]], kept=kept))
