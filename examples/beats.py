"""Which premature beats are more? Reads the few steps of a signal that matter.

    python -m examples.beats

Of 20 beats in 2,000 samples five are premature, of two shapes. Beside mean and
maximum of all steps of a convolution, and a GRU: those of steps worth keeping.
"""

import keras
import numpy as np
from keras import layers
from keras import ops

import keras_seqmech as seqmech

COUNT, TIME, random = 4000, np.arange(-30, 30), np.random.default_rng(0)
NORMAL = np.exp(-((TIME / 3) ** 2)) + 0.3 * np.exp(-(((TIME - 18) / 6) ** 2))
WIDE = np.exp(-((TIME / 8) ** 2)) - 0.7 * np.exp(-(((TIME - 14) / 8) ** 2))
x, y = 0.2 * random.normal(size=(COUNT, 2000, 1)), np.zeros(COUNT, "int32")
for i in range(COUNT):
    early = random.permutation([1] * 5 + [0] * 15)
    kinds = early * random.integers(1, 3, 20)
    gaps = random.normal(90, 5, 20) + 25 * (np.roll(early, 1) - early)
    for at, kind in zip(50 + np.cumsum(gaps).astype(int), kinds):
        x[i, at - 60 : at, 0] += (NORMAL, WIDE, WIDE[::-1])[kind]
    y[i] = np.sum(kinds == 2) > 2


def build(kind):
    """A model that says which of the two premature shapes is more frequent."""
    signal = keras.Input((2000, 1))
    steps = layers.Conv1D(16, 25, 5, "same", activation="relu")(signal)
    steps = layers.Conv1D(16, 9, padding="same", activation="relu")(steps)
    if kind == "GRU":
        summary = layers.GRU(32)(layers.MaxPooling1D(4)(steps))
    else:
        weights = ops.exp(layers.Dense(1, "tanh")(steps))
        terms = ops.concatenate([steps, weights * steps, weights], axis=-1)
        if kind == "subsample":
            kept = seqmech.EmissionProbabilities(0.05)(steps)
            target = seqmech.DecisionPenalties(target=0.02, target_weight=5.0)
            layer = seqmech.ExpectedSubsample(64, penalties=target)
            terms = layer(terms, kept)
        most, total = ops.max(terms[..., :16], 1), ops.sum(terms[..., 16:], 1)
        mean = total[:, :-1] / (total[:, -1:] + 1e-3)  # None may be kept.
        summary = layers.Dense(16, "relu")(ops.concatenate([most, mean], -1))
    return keras.Model(signal, layers.Dense(2, "softmax")(summary))


for kind in ("mean and maximum", "GRU", "subsample"):
    keras.utils.set_random_seed(0)
    model = build(kind)
    rate = keras.optimizers.schedules.CosineDecay(3e-3, 12 * 47)
    adam = keras.optimizers.Adam(rate, global_clipnorm=1.0)
    model.compile(adam, "sparse_categorical_crossentropy", metrics=["accuracy"])
    wait = {"commit_when": lambda logs: logs["accuracy"] > 0.8}
    explore = seqmech.ExploreThenCommit(**wait) if kind == "subsample" else []
    fit = model.fit(x, y, 64, 12, 0, explore, validation_split=0.25)
    print(f"{kind}: {fit.history['val_accuracy'][-1]:.1%} right")
