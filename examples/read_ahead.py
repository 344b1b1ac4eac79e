"""Colours Python while it is typed: keywords, called names, other names.

    python -m examples.read_ahead

Whether `in` is a keyword or begins `input(` shows later. A user would write an
LSTM over the next characters, too; a `LookAhead` waits only where it has to,
the less the larger the weight that it is given.
"""

import keyword
import re
from pathlib import Path

import keras
import numpy as np
from keras import layers

from keras_seqmech import ExploreThenCommit
from keras_seqmech import LookAhead
from keras_seqmech import ReadingWeight
from keras_seqmech import analysis

COUNT, LENGTH, TESTED = 5000, 64, 500
WEIGHTS = (0.1, 0.02, 0.005)
files = sorted(Path(keyword.__file__).parent.glob("*.py"))[:30]
text = re.sub(r"\s+", " ", "".join(x.read_text("utf8") for x in files))
colours = np.zeros(len(text), int)
for word in re.finditer(r"[^\W\d]\w*", text):
    kind = 2 + (text[word.end()] == "(")
    colours[slice(*word.span())] = 1 if keyword.iskeyword(word[0]) else kind
text = np.resize(np.array([*text]), (COUNT, LENGTH))
x, y = text.view("int32").clip(max=127), np.resize(colours, text.shape)


def build(ahead):
    inputs = [keras.Input((None,), dtype="int32"), keras.Input(())]
    character = layers.Embedding(128, 32)(inputs[0])
    before = layers.LSTM(32, return_sequences=True)(character)
    if ahead is None:
        weight = ReadingWeight(0.004, 0.15)(inputs[1])
        look = LookAhead(8, name="look")
        read = [look(character, context=before, weight=weight)]
    else:
        padded = layers.ZeroPadding1D((0, ahead))(character)
        read = [padded[:, k : k - ahead or None] for k in range(ahead + 1)]
    x = layers.Concatenate()([*read, before])
    x = layers.LSTM(64, return_sequences=True)(x)
    colour = layers.Dense(4, "softmax", name="colour")(x)
    return keras.Model(inputs[: 2 if ahead is None else 1], colour)


for ahead in (0, 1, 3, None):
    keras.utils.set_random_seed(0)
    model, one = build(ahead), ahead is None
    adam = keras.optimizers.Adam(5e-3)
    model.compile(adam, "sparse_categorical_crossentropy")
    # Training draws weights in place of these.
    inputs = [x[TESTED:], np.ones(COUNT - TESTED)] if one else x[TESTED:]
    explore = [ExploreThenCommit()] if one else []
    model.fit(inputs, y[TESTED:], 64, 6, verbose=0, callbacks=explore)
    for weight in WEIGHTS if one else [0]:
        inputs, name = x[:TESTED], f"window of {ahead}"
        sizes = np.full((TESTED, LENGTH), 1 + (ahead or 0))
        if one:
            inputs, name = [inputs, np.full(TESTED, weight)], f"weight {weight}"
            sizes = analysis.decisions(model, inputs)["look"]["size"]
        tags = model.predict(inputs, verbose=0).argmax(axis=-1)
        right, delay = tags == y[:TESTED], analysis.emission_delay(sizes)
        right, delay = 100 * right.mean(), delay.mean()
        print(f"{name}: {right:.1f} % right, {delay:.2f} steps later")
print(analysis.show(text[0, :30], sizes=sizes[0, :30]))
