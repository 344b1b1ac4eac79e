"""Shortens a sequence to the steps that matter, for the layers above.

    python -m examples.subsample

Of 48 numbers two are marked; the answer is their sum. A GRU is to read four
steps in place of 48. What a user would write: each twelfth step, or a strided
convolution. `ExpectedSubsample` learns which steps to keep.
"""

import keras
import numpy as np
from keras import layers

from keras_seqmech import DecisionPenalties
from keras_seqmech import EmissionProbabilities
from keras_seqmech import ExpectedSubsample
from keras_seqmech import ExploreThenCommit

COUNT, LENGTH, SHARE = 5000, 48, 4 / 48
FIT = {"epochs": 12, "batch_size": 64, "verbose": 0, "validation_split": 0.2}
random = np.random.default_rng(0)
numbers = random.uniform(-0.5, 0.5, (COUNT, LENGTH))
marks = random.permuted(np.tile([1, 1] + [0] * 46, (COUNT, 1)), axis=1)
x, y = np.stack([numbers, marks], axis=-1), (numbers * marks).sum(axis=1)


def build(kind, inference="expectation"):
    """Inputs, their sum, and the probability of each step to be kept."""
    inputs, kept = keras.Input((LENGTH, 2)), None
    steps = layers.Dense(16, activation="relu")(inputs)
    if kind == "each twelfth":
        steps = steps[:, 11::12]
    elif kind == "convolution":
        steps = layers.Conv1D(16, 12, 12, activation="relu")(steps)
    elif kind == "subsample":
        kept = EmissionProbabilities(SHARE)(steps)
        target = DecisionPenalties(target=SHARE, target_weight=1.0)
        steps = ExpectedSubsample(4, inference, penalties=target)(steps, kept)
    return inputs, layers.Dense(1)(layers.GRU(16)(steps)), kept


for kind in ("all steps", "each twelfth", "convolution", "subsample"):
    keras.utils.set_random_seed(0)
    inputs, answer, kept = build(kind)
    model = keras.Model(inputs, answer)
    model.compile(keras.optimizers.Adam(5e-3, global_clipnorm=1.0), "mse")
    explore = [ExploreThenCommit()] if kind == "subsample" else []
    fit = model.fit(x, y, callbacks=explore, **FIT)
    found = model.predict(x[-1000:], verbose=0)[:, 0]
    print(f"{kind:12} {np.mean((found - y[-1000:]) ** 2):.5f} squared error")

hard = keras.Model(*build("subsample", inference="threshold")[:2])
hard.set_weights(model.get_weights())
found = hard.predict(x[-1000:], verbose=0)[:, 0]
print(
    f"{'served hard':12} {np.mean((found - y[-1000:]) ** 2):.5f} squared error"
)
keep = keras.Model(inputs, kept).predict(x[-1:], verbose=0)[0]
print("marked", np.flatnonzero(marks[-1]), "kept", np.flatnonzero(keep > 0.5))
