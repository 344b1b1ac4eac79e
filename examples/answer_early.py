"""Which digit is drawn? Answers while the strokes still arrive.

    python -m examples.answer_early

An image of 8 x 8 pixels arrives half a row at a time. What a user would write:
the answer after a fixed number of steps. `EarlyPooling` gives the first that is
probable enough, or learns to stop, at a price that the request gives.
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
train, test = np.split(images, [TRAIN])
answers, expected = np.split(digits.target, [TRAIN])

keras.utils.set_random_seed(0)
pixels = keras.Input((None, 4), name="pixels")
price = keras.Input((), name="price")
states = layers.GRU(64, return_sequences=True)(pixels)
each = layers.Dense(10, activation="softmax", name="each")(states)
surest = ops.max(each, axis=-1, keepdims=True)
weight = ReadingWeight(0.003, 0.3)(price)
stop = EmissionProbabilities(share=0.05)(
    ops.stop_gradient(ops.log(surest)), weight=weight
)
early = EarlyPooling(return_attention_scores=True, name="early")
answer, shown = early(each, stop, weight=weight)
model = keras.Model([pixels, price], {"answer": answer, "each": each})
model.compile("adam", "sparse_categorical_crossentropy")
labels = {"answer": answers, "each": np.tile(answers[:, None], STEPS)}
inputs = [train, np.ones(TRAIN)]  # Training draws other prices.
model.fit(inputs, labels, 32, 60, 0, callbacks=[ExploreThenCommit()])

each_step = keras.Model(pixels, each).predict(test, verbose=0)
for count in (6, 8, 10, 12, 14, 16):
    right = each_step[:, count - 1].argmax(axis=-1) == expected
    print(f"after {count} steps: {np.mean(right):.1%} right")

confidence = keras.Input((), name="confidence")
sure = surest[..., 0] > ops.expand_dims(confidence, -1)
first = EarlyPooling(return_attention_scores=True)
found, size = first(each, ops.cast(sure, "float32"))
confident = keras.Model([pixels, confidence], [found, size["size"]])
learned = keras.Model([pixels, price], [answer, shown["size"]])
for early, settings in ((confident, (0.7, 0.9, 0.99)), (learned, (0.3, 0.1))):
    for x in settings:
        found, size = early.predict([test, np.full(len(test), x)], verbose=0)
        right, name = found.argmax(axis=-1) == expected, early.inputs[1].name
        print(f"{name} {x}: {np.mean(right):.1%} at {size.mean():.1f} steps")
