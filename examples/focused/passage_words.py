"""Words of questions, passages and answers as ids.

One list holds all words: padding, the unknown word, the start and the end of an
answer, the vocabulary that answers are written with, and words that are only
read. A word of a passage outside the vocabulary gets an id after the
vocabulary, numbered within each passage, so any word can be copied.
"""

import re
from collections import Counter
from collections.abc import Iterable
from collections.abc import Sequence
from typing import NamedTuple

import keras
import numpy as np

from examples.focused.passage_data import PassageData
from examples.focused.passage_data import Question

PADDING, UNKNOWN, START, END = range(4)
SPECIALS = ("[padding]", "[unknown]", "[start]", "[end]")
# Punctuation inside a word belongs to it: "1,500", "u.s", "half-hour".
WORD = re.compile(r"\w+(?:[^\w\s]+\w+)*|[^\w\s]")


def split_words(text: str) -> list[str]:
    """Lower-case words and marks of a text.

    >>> split_words("It's $1,500 (or so)!")
    ["it's", '$', '1,500', '(', 'or', 'so', ')', '!']
    """
    return WORD.findall(text.lower())


class Words:
    """Ids of words: those that answers are written with, and others read."""

    def __init__(self, written: Iterable[str], read: Iterable[str] = ()):
        self.words = [*SPECIALS, *written]
        self.vocabulary_size = len(self.words)
        self.words += read
        self.ids = {word: i for i, word in enumerate(self.words)}

    def read(self, words: Sequence[str]) -> list[int]:
        """Ids of words that are read."""
        return [self.ids.get(word, UNKNOWN) for word in words]

    def copied(self, words: Sequence[str]) -> tuple[list[int], list[str]]:
        """Ids of the words of a passage, and the words beyond the vocabulary.

        >>> Words(["who"]).copied(["who", "is", "bo", "is"])
        ([4, 5, 6, 5], ['is', 'bo'])
        """
        extras = {}
        ids = []
        for word in words:
            i = self.ids.get(word, self.vocabulary_size)
            if i >= self.vocabulary_size:
                extras.setdefault(word, len(extras))
                i = self.vocabulary_size + extras[word]
            ids.append(i)
        return ids, list(extras)

    def written(self, words: Sequence[str], extras: Sequence[str]) -> list[int]:
        """Ids of the words of an answer to a passage with these extras."""
        ids = {w: self.vocabulary_size + i for i, w in enumerate(extras)}
        known = self.ids
        for word in words:
            i = known.get(word, self.vocabulary_size)
            ids.setdefault(word, i if i < self.vocabulary_size else UNKNOWN)
        return [ids[word] for word in words]

    def word(self, i: int, extras: Sequence[str]) -> str:
        """The word of an id of `written`."""
        if i < self.vocabulary_size:
            return self.words[i]
        return extras[i - self.vocabulary_size]


class Encoded(NamedTuple):
    """Questions as arrays, 0 where padded.

    Models get `question` and `passage` as they are read; and to write answers,
    `copies`, the passage as it is copied from, and `previous`, the answer as
    it is read while it is written.
    """

    inputs: dict[str, np.ndarray]
    targets: np.ndarray  # Ids of answers, `END` last.
    weights: np.ndarray  # 1 where there is a word.
    extras: list[list[str]]  # Words beyond the vocabulary.
    questions: list[Question]


def make_words(
    data: PassageData, vocabulary_size: int, vectors: Iterable[str] = ()
) -> Words:
    """Words of a data set.

    The most frequent ones of its training part are written; those in any part
    that have vectors are read.
    """
    counts, all_words = Counter(), set()
    for part in data:
        for question in part:
            words = split_words(" ".join((*question[:2], *question.answers)))
            all_words.update(words)
            if part is data.train:
                counts.update(words)
    written = [word for word, _ in counts.most_common(vocabulary_size)]
    return Words(written, sorted(all_words & set(vectors) - set(written)))


def encode(
    questions: Sequence[Question],
    words: Words,
    question_length: int,
    passage_length: int,
    answer_length: int,
) -> Encoded:
    """Arrays of some questions; what is longer than these lengths is cut."""
    rows = {name: [] for name in ("question", "passage", "copies", "previous")}
    targets, extras = [], []
    for question in questions:
        asked = split_words(question.question)[:question_length]
        passage = split_words(question.passage)[:passage_length]
        answer = split_words(question.answers[0])
        copies, extra = words.copied(passage)
        target = [*words.written(answer, extra), END][:answer_length]
        rows["question"].append(words.read(asked))
        rows["passage"].append(words.read(passage))
        rows["copies"].append(copies)
        previous = [START, *words.read(answer)]
        rows["previous"].append(previous[:answer_length])
        targets.append(target)
        extras.append(extra)
    lengths = {
        "question": question_length,
        "passage": passage_length,
        "copies": passage_length,
        "previous": answer_length,
    }
    inputs = {n: _padded(rows[n], length) for n, length in lengths.items()}
    targets = _padded(targets, answer_length)
    weights = (targets != PADDING).astype("float32")
    return Encoded(inputs, targets, weights, extras, list(questions))


def _padded(rows, length):
    return keras.utils.pad_sequences(rows, length, padding="post")
