"""Colours Python while it is typed: keywords, called names, other names.

    python -m examples.read_ahead

Whether `in` is a keyword or begins `input(` shows later. A user would write an
LSTM over the next characters, too; a `LookAhead` waits only where it has to.
"""

import keyword
import re
from pathlib import Path

import keras
import numpy as np
from keras import layers

from keras_seqmech import ExploreThenCommit
from keras_seqmech import LookAhead
from keras_seqmech import analysis

COUNT, LENGTH, TESTED = 5000, 64, 500
files = sorted(Path(keyword.__file__).parent.glob("*.py"))[:30]
text = re.sub(r"\s+", " ", "".join(x.read_text("utf8") for x in files))
colours = np.zeros(len(text), int)
for word in re.finditer(r"[^\W\d]\w*", text):
    kind = 2 + (text[word.end()] == "(")
    colours[slice(*word.span())] = 1 if keyword.iskeyword(word[0]) else kind
text = np.resize(np.array([*text]), (COUNT, LENGTH))
x, y = text.view("int32").clip(max=127), np.resize(colours, text.shape)


def build(ahead):
    ids = keras.Input((None,), dtype="int32")
    character = layers.Embedding(128, 32)(ids)
    before = layers.LSTM(32, return_sequences=True)(character)
    if ahead is None:
        read = [LookAhead(8, name="look")(character, context=before)]
    else:
        padded = layers.ZeroPadding1D((0, ahead))(character)
        read = [padded[:, k : k - ahead or None] for k in range(ahead + 1)]
    both = layers.Concatenate()([*read, before])
    states = layers.LSTM(64, return_sequences=True)(both)
    return keras.Model(ids, layers.Dense(4, "softmax", name="colour")(states))


for ahead in (0, 1, 3, None):
    keras.utils.set_random_seed(0)
    model = build(ahead)
    adam = keras.optimizers.Adam(5e-3)
    model.compile(adam, "sparse_categorical_crossentropy")
    explore = [ExploreThenCommit()] if ahead is None else []
    model.fit(x[TESTED:], y[TESTED:], 64, 6, verbose=0, callbacks=explore)
    right = model.predict(x[:TESTED], verbose=0).argmax(axis=-1) == y[:TESTED]
    sizes = np.full(right.shape, 1 + (ahead or 0))
    if ahead is None:
        sizes = analysis.decisions(model, x[:TESTED])["look"]["size"]
    delay = analysis.emission_delay(sizes).mean()
    name = "LookAhead" if ahead is None else f"window of {ahead}"
    print(f"{name}: {100 * right.mean():.1f} % right, {delay:.2f} steps later")
print(analysis.show(text[0, :30], sizes=sizes[0, :30]))
