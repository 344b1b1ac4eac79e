"""Which digit is drawn? Answers while the strokes still arrive.

    python -m examples.answer_early

An image of 8 x 8 pixels arrives four pixels at a time. What a user would write:
an answer after a fixed number of steps, or the first that is confident enough.
`EarlyPooling` makes the second a layer, which streams; and it learns to stop,
at a price of each step that the request gives.
"""

import keras
import numpy as np
from keras import layers
from keras import ops
from sklearn.datasets import load_digits

from keras_seqmech import EarlyPooling
from keras_seqmech import EmissionProbabilities
from keras_seqmech import ExploreThenCommit
from keras_seqmech import ReadingWeight

STEPS, TRAIN = 16, 1300
digits = load_digits()
images = digits.images.reshape(-1, STEPS, 4).astype("float32") / 16
answers = digits.target
each_step = np.repeat(answers[:, None], STEPS, axis=1)

keras.utils.set_random_seed(0)
pixels = keras.Input((None, 4), name="pixels")
price = keras.Input((), name="price")
confidence = keras.Input((), name="confidence")
states = layers.GRU(64, return_sequences=True)(pixels)
each = layers.Dense(10, activation="softmax", name="each")(states)
weight = ReadingWeight(0.003, 0.3)(price)
surest = ops.stop_gradient(ops.log(ops.max(each, axis=-1, keepdims=True)))
stop = EmissionProbabilities(share=0.05)(surest, weight=weight)
learned = EarlyPooling(name="answer")(each, stop, weight=weight)
model = keras.Model([pixels, price], {"answer": learned, "each": each})
model.compile("adam", "sparse_categorical_crossentropy")
model.fit(
    {"pixels": images[:TRAIN], "price": np.ones(TRAIN)},
    {"answer": answers[:TRAIN], "each": each_step[:TRAIN]},
    epochs=60,
    verbose=0,
    callbacks=[ExploreThenCommit()],
)

sure = ops.cast(ops.max(each, -1) > ops.expand_dims(confidence, -1), "float32")
first = EarlyPooling(return_attention_scores=True)
pooled = {"confidence": first(each, sure)}
again = EarlyPooling(return_attention_scores=True)
pooled["price"] = again(each, stop, weight=weight)


def table(name, given, settings):
    """Prints what is right, and the steps read, at some settings."""
    answer, shown = pooled[name]
    early = keras.Model([pixels, given], [answer, shown["size"]])
    for setting in settings:
        own = np.full(len(images) - TRAIN, setting, "float32")
        found, size = early.predict([images[TRAIN:], own], verbose=0)
        right = np.mean(found.argmax(axis=-1) == answers[TRAIN:])
        print(f"{name} {setting}: {right:.1%} after {size.mean():.1f} steps")
    return early


found = model.predict([images[TRAIN:], np.ones(len(images) - TRAIN)], verbose=0)
for count in (6, 8, 10, 12, 14, 16):
    right = found["each"][:, count - 1].argmax(axis=-1) == answers[TRAIN:]
    print(f"fixed {count}: {np.mean(right):.1%}")
table("confidence", confidence, (0.5, 0.7, 0.9, 0.95, 0.99, 0.999))
early = table("price", price, (0.3, 0.1, 0.05, 0.03, 0.01, 0.003))
