"""The sounds of a word, of which none is told to which letter it belongs.

    python -m examples.subsampling.pronounce --models aligned ctc

Words of the CMU dictionary, of 7 to 16 letters and no more sounds, see
`examples.receptive_field.sounds`; words of one stem may be on both sides. All
models read a whole word by one bidirectional LSTM; they differ in how its
states become sounds, in order: `aligned`, a label for each letter, its sounds
by expectation maximization; `ctc`, a sound or none for each letter, learned by
`keras.losses.CTC`; and the letters that an `ExpectedSubsample` keeps, one sound
each, so that the x of "fox" has one of its two, then the end.
"""

import argparse
from collections.abc import Sequence
from typing import NamedTuple

import keras
import numpy as np
from keras import layers
from keras import ops

from examples.common import program
from examples.receptive_field import sounds
from keras_seqmech import EmissionProbabilities
from keras_seqmech import ExpectedSubsample

MODELS = ("aligned", "ctc", "straight_through", "expectation")
# Letters of a word; sounds of it at most, and the end.
SHORTEST, LONGEST = 7, 16
# Words up to this length count as short.
SHORT = 10


class Words(NamedTuple):
    """Words as ids, 0 as padding.

    Attributes:
        letters: `(n, LONGEST)`.
        sounds: `(n, LONGEST)`.
        labels: `(n, LONGEST)`, of each letter, its sounds.
    """

    letters: np.ndarray
    sounds: np.ndarray
    labels: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """Number of letters of each word."""
        return np.count_nonzero(self.letters, axis=1)


class Data(NamedTuple):
    """Words to train with and to test, and the sounds of each label."""

    train: Words
    test: Words
    meaning: list[Sequence[str]]
    names: list[str]
    letters: int  # How many there are, with the padding.


def load(args: argparse.Namespace) -> Data:
    """Words whose sounds CTC can tell in as many steps as there are letters."""
    found = [
        (word, parts)
        for word, parts in sounds.words(args.data_dir)
        if SHORTEST <= len(word) <= LONGEST
        and len(parts) + _repeats(parts) <= len(word)
    ][: args.texts + args.test_texts]
    words, parts = zip(*found)
    labels = sounds.align(found)
    meaning = [(), *sorted({tuple(x.split()) for word in labels for x in word})]
    names = ["", *sorted({x for word in parts for x in word})]
    letters = ["", *sorted(set("".join(words)))]
    splits = [[tuple(x.split()) for x in word_labels] for word_labels in labels]
    arrays = [
        _ids(words, letters),
        _ids(parts, names),
        _ids(splits, meaning),
    ]
    cut = len(words) - args.test_texts
    train, test = (
        Words(*(x[part] for x in arrays))
        for part in (slice(cut), slice(cut, None))
    )
    return Data(train, test, meaning, names, len(letters))


def _repeats(parts: Sequence[str]) -> int:
    """How many sounds are the one before again, which CTC needs a step for."""
    return sum(a == b for a, b in zip(parts, parts[1:]))


def _ids(rows: Sequence, known: list) -> np.ndarray:
    """Ids in the order of what is known, the first as padding."""
    ids = {name: n for n, name in enumerate(known)}
    rows = [[ids[x] for x in items] for items in rows]
    return keras.utils.pad_sequences(rows, LONGEST, padding="post")


def build(model: str, data: Data, units: int) -> keras.Model:
    """A compiled model of a word's letters."""
    letters = keras.Input((LONGEST,), dtype="int32", name="letters")
    mask = ops.not_equal(letters, 0)
    x = layers.Embedding(data.letters, units)(letters)
    states = layers.Bidirectional(layers.LSTM(units, return_sequences=True))(
        x, mask=mask
    )
    loss: keras.losses.Loss = keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction="mean_with_sample_weight"
    )
    classes = len(data.names)
    if model == "aligned":
        classes = len(data.meaning)
    elif model == "ctc":
        loss = keras.losses.CTC()
    else:
        emission = EmissionProbabilities(share=0.8)(states, mask=mask)
        states = ExpectedSubsample(LONGEST, estimator=model)(
            states, emission, mask=mask
        )
    logits = layers.Dense(classes)(states)
    if model == "ctc":
        # Nothing is said behind the word.
        silent = 100.0 * ops.one_hot(0, classes)
        logits = ops.where(mask[..., None], logits, silent)
    built = keras.Model(letters, logits)
    built.compile(keras.optimizers.Adam(2e-3), loss)
    return built


def targets(model: str, words: Words) -> tuple[np.ndarray, np.ndarray]:
    """What a model learns, and the weight of each step, or word."""
    if model == "aligned":
        return words.labels, (words.letters != 0).astype("float32")
    if model == "ctc":
        return words.sounds, np.ones(len(words.sounds), "float32")
    # Behind the last sound the end is learned, everywhere.
    return words.sounds, np.ones(words.sounds.shape, "float32")


def answers(model: str, logits: np.ndarray, data: Data) -> list[list[str]]:
    """The sounds of each word."""
    best = logits.argmax(axis=-1)
    if model == "aligned":
        real = data.test.letters != 0
        return [
            [x for label in row[here] for x in data.meaning[label]]
            for row, here in zip(best, real)
        ]
    if model == "ctc":
        new = np.diff(best, axis=1, prepend=0) != 0
        best = [row[is_new & (row != 0)] for row, is_new in zip(best, new)]
    else:
        ended = np.logical_or.accumulate(best == 0, axis=1)
        best = [row[~end] for row, end in zip(best, ended)]
    return [[data.names[x] for x in row] for row in best]


def distance(said: Sequence[str], right: Sequence[str]) -> int:
    """Sounds to insert, leave out or replace.

    >>> distance("kitten", "sitting")
    3
    """
    row = [*range(len(right) + 1)]
    for n, x in enumerate(said, 1):
        diagonal, row[0] = row[0], n
        for m, y in enumerate(right, 1):
            change = diagonal + (x != y)
            diagonal = row[m]
            row[m] = min(change, row[m - 1] + 1, row[m] + 1)
    return row[-1]


def run(own: program.Run) -> dict[str, str]:
    """Trains and tests a model."""
    kind, args, data = own.key["model"], own.args, own.data
    model = build(kind, data, args.units)
    wanted, weights = targets(kind, data.train)
    model.fit(
        data.train.letters,
        wanted,
        64,
        args.epochs,
        sample_weight=weights,
        verbose=0,
    )
    logits = model.predict(data.test.letters, 500, verbose=0)
    right = [
        [data.names[x] for x in row if x] for row in data.test.sounds.tolist()
    ]
    said = answers(kind, logits, data)
    same = np.array([a == b for a, b in zip(said, right)])
    wrong = sum(distance(a, b) for a, b in zip(said, right))
    short = data.test.lengths <= SHORT
    return {
        "words": f"{100 * same.mean():.2f}",
        "short": f"{100 * same[short].mean():.2f}",
        "long": f"{100 * same[~short].mean():.2f}",
        "sound_errors": f"{100 * wrong / sum(map(len, right)):.2f}",
    }


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--models", nargs="+", choices=MODELS, default=[*MODELS]
    )


def cases(args: argparse.Namespace) -> program.Cases:
    return program.grid(model=args.models)


PROGRAM = program.Program(
    doc=__doc__,
    output="runs/pronounce.csv",
    options=options,
    key=("model", "seed", "settings"),
    cases=cases,
    needs_data=lambda args: False,
    numbers={"texts": 30000, "test_texts": 4000, "epochs": 12, "units": 64},
    load=load,
    run=run,
)

if __name__ == "__main__":
    PROGRAM.main()
