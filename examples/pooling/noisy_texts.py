"""Texts of the pooling studies: words, noise around them, ids, batches.

Source: "Analyzing the Learnability and Representability of Recurrent
Architectures", sections 1.4, 1.7 and 1.8, which takes sentences of noise from
Wikipedia.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from examples.common import datasets
from examples.common import text_encoding
from examples.common import text_files
from examples.pooling import positions

SETTINGS = ("standard", *positions.PLACES)
PARTS = ("train", "validation", "test")
# Shares of the sentences of noise in each part.
NOISE_SHARES = (0.6, 0.2, 0.2)
# Share of noise among the tokens of a text, in settings that have any.
SHARE = 0.66
# Only longer texts are read.
MIN_WORDS = 100
MAX_WORDS = 25_000
# Batches sorted by length together, and what lengths are rounded up to.
CHUNK = 16
STEP = 40


class Texts(NamedTuple):
    """Texts as arrays of ids, and their labels."""

    ids: list[np.ndarray]
    labels: np.ndarray

    def take(self, indices: Iterable[int] | np.ndarray) -> "Texts":
        """Some of the texts."""
        return Texts([self.ids[i] for i in indices], self.labels[indices])


class Corpus(NamedTuple):
    """IMDb and noise, each word as its index in `words`.

    The noise of the three parts has no sentence in common.
    """

    words: list[str]
    train: Texts
    validation: Texts
    test: Texts
    noise: dict[str, list[list[int]]]


class StudyData(NamedTuple):
    """What one run reads: 0 is padding, 1 unknown, 2 the first of `words`."""

    words: list[str]
    train: Texts
    validation: Texts
    test: Texts


def load(
    data_dir: str | Path,
    validation_size: int | None = None,
    test_size: int | None = None,
    lower: bool = True,
) -> Corpus:
    """Reads IMDb, and sentences of `wiki/sentences.jsonl.gz`.

    Validation and test part are random subsets of these sizes that are always
    the same, all if None; the other validation texts become training texts.
    """
    data = datasets.load("imdb", data_dir)
    path = Path(data_dir, "wiki", "sentences.jsonl.gz")
    sentences = [row["text"] for row in text_files.json_lines(path)]
    numbers: dict[bytes, int] = {}
    train, validation, test = (
        _long_texts(part, numbers, lower)
        for part in (data.train, data.validation, data.test)
    )
    validation, rest = _subset(validation, validation_size)
    train = Texts(
        train.ids + rest.ids, np.concatenate([train.labels, rest.labels])
    )
    test, _ = _subset(test, test_size)
    noise = split_noise(_word_numbers(sentences, numbers, lower))
    words = [word.decode("utf8") for word in numbers]
    return Corpus(words, train, validation, test, noise)


def split_noise(sentences: Sequence[np.ndarray]) -> dict[str, list[list[int]]]:
    """Sentences by part, always the same ones.

    Equal sentences count once, so the parts have none in common.
    """
    unique = list(dict.fromkeys(tuple(s.tolist()) for s in sentences if s.size))
    order = np.random.default_rng(datasets.SPLIT_SEED).permutation(len(unique))
    ends = np.cumsum(NOISE_SHARES)[:-1] * len(unique)
    groups = np.split(order, ends.astype(int).clip(1))
    return {
        part: [list(unique[i]) for i in group]
        for part, group in zip(PARTS, groups)
    }


def prepare(
    corpus: Corpus, setting: str, size: int, seed: int, max_length: int = 400
) -> StudyData:
    """Makes the texts of one run.

    The seed draws the training texts, smaller sizes from larger ones, and
    their noise; validation and test texts and noise are always the same. The
    vocabulary is that of the training texts with their noise.
    """
    count = len(corpus.train.ids)
    _check(size, count)
    random = np.random.default_rng([seed, 1])
    drawn = random.permutation(count)[:size]
    parts = (corpus.train.take(drawn), corpus.validation, corpus.test)
    # Seeds that no part shares, whatever the run's own seed.
    seeds = (seed + 2, 0, 1)
    arranged = [
        arrange(part.ids, corpus.noise[name], setting, max_length, own)
        for name, part, own in zip(PARTS, parts, seeds)
    ]
    training = np.concatenate(arranged[0])
    counts = np.bincount(training, minlength=len(corpus.words))
    frequent = np.argsort(-counts, kind="stable")[:MAX_WORDS]
    words = [corpus.words[i] for i in frequent if counts[i] > 0]
    encoded = (
        Texts(encode(corpus, texts, words), part.labels)
        for texts, part in zip(arranged, parts)
    )
    return StudyData(words, *encoded)


def encode(
    corpus: Corpus, texts: Sequence[np.ndarray], words: Sequence[str]
) -> list[np.ndarray]:
    """Indices of a corpus' words to a model's ids: 1 where it has none."""
    ids = {word: i for i, word in enumerate(words, start=2)}
    lookup = [ids.get(word, 1) for word in corpus.words]
    lookup = np.array(lookup, dtype="int32")
    return [lookup[text] for text in texts]


def arrange(
    texts: Sequence[np.ndarray],
    noise: Sequence[Sequence[int]],
    setting: str,
    max_length: int,
    seed: int,
) -> list[np.ndarray]:
    """Cuts texts, and puts noise around them if the setting has a place.

    Texts are cut before the noise is added, so that no more than `max_length`
    tokens are left and `SHARE` of them is noise.
    """
    if setting not in positions.PLACES:
        return [text[:max_length] for text in texts]
    kept = int(max_length * (1 - SHARE) + 1e-9)
    arranged = positions.surround_with_noise(
        (text[:kept].tolist() for text in texts), noise, setting, SHARE, seed
    )
    return [np.array(text, dtype="int32") for text in arranged]


def batches(
    texts: Texts,
    batch_size: int,
    random: np.random.Generator | None = None,
) -> tf.data.Dataset:
    """Batches `(ids, labels)` of texts; see `batches_by_length`."""

    def make(indices):
        ids, labels = texts.take(indices)
        return pad(ids), labels

    lengths = [len(text) for text in texts.ids]
    ids = tf.TensorSpec((None, None), "int32")
    return batches_by_length(lengths, make, ids, batch_size, random)


def batches_by_length(
    lengths: Sequence[int],
    make: Callable,
    inputs: Any,
    batch_size: int,
    random: np.random.Generator | None = None,
) -> tf.data.Dataset:
    """Batches `(inputs, labels)` of sequences of similar lengths.

    `make(indices)` is the batch of some sequences, and `inputs` the signature
    of its inputs. `random` shuffles anew for each epoch; without it, sequences
    come by length.
    """
    count = len(lengths)
    lengths = np.array(lengths)
    chunk = CHUNK * batch_size if random else count

    def groups():
        order = random.permutation(count) if random else np.arange(count)
        found = []
        for start in range(0, count, chunk):
            own = order[start : start + chunk]
            own = own[np.argsort(lengths[own], kind="stable")]
            found += np.split(own, range(batch_size, len(own), batch_size))
        if random:
            random.shuffle(found)
        return found

    data = tf.data.Dataset.from_generator(
        lambda: map(make, groups()),
        output_signature=(inputs, tf.TensorSpec((None,), "int32")),
    )
    size = -(-count // batch_size)
    return data.apply(tf.data.experimental.assert_cardinality(size)).prefetch(2)


def pad(ids: Sequence[np.ndarray]) -> np.ndarray:
    """Texts as one array, padded by 0 on the right."""
    length = -(-max(map(len, ids)) // STEP) * STEP
    return keras.utils.pad_sequences(ids, length, padding="post")


def _word_numbers(texts, numbers, lower):
    """Texts as arrays; new words get the next numbers."""
    found = []
    for start in range(0, len(texts), 1000):
        own = list(texts[start : start + 1000])
        words = text_encoding.split_words(own, lower)
        flat = [
            numbers.setdefault(word, len(numbers))
            for word in words.flat_values.numpy()
        ]
        ends = words.row_splits.numpy()[1:-1]
        found += np.split(np.array(flat, dtype="int32"), ends)
    return found


def _long_texts(part, numbers, lower):
    texts = Texts(_word_numbers(part.texts, numbers, lower), part.labels)
    long = [i for i, text in enumerate(texts.ids) if len(text) > MIN_WORDS]
    return texts.take(long)


def _check(size, count):
    """Rows must not say that there were more texts than there are."""
    if size > count:
        raise ValueError(
            f"Only {count} texts are long enough. Received: {size}"
        )


def _subset(texts, size):
    """A random subset that is always the same, and the other texts."""
    generator = np.random.default_rng(datasets.SPLIT_SEED)
    order = generator.permutation(len(texts.ids))
    _check(size or 0, len(order))
    chosen = order[:size]
    return texts.take(chosen), texts.take(order[len(chosen) :])
