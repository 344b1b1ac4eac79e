"""Texts as arrays of word ids, split and numbered by TF Text."""

from collections import Counter
from types import ModuleType
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from examples.common import datasets
from keras_seqmech.typing import Tensor

# Tokens kept of a text: about the 95th percentile, less for long texts.
LENGTHS = {"mr": 40, "trec": 20, "sst5": 40, "ag": 64, "imdb": 200}


def make_tokenizer(
    vocabulary: list[str], max_length: int
) -> keras.layers.TextVectorization:
    """Strings to so many word ids: 0 is padding, 1 an unknown word."""
    return keras.layers.TextVectorization(
        standardize=None,
        split=split_words,
        output_sequence_length=max_length,
        vocabulary=vocabulary,
    )


def split_words(
    texts: Tensor | list[str], lower: bool = True
) -> tf.RaggedTensor:
    """Words of texts, with `tensorflow_text.WhitespaceTokenizer`.

    Texts are lower-cased, unless `lower` says otherwise, and split at white
    space and around punctuation; apostrophes and hyphens inside words stay.
    """
    tensorflow_text = import_tensorflow_text()
    if lower:
        texts = tf.strings.lower(texts, encoding="utf-8")
    texts = tf.strings.regex_replace(texts, r"([^\pL\pN\s'\-])", r" \1 ")
    return tensorflow_text.WhitespaceTokenizer().tokenize(texts)


def import_tensorflow_text() -> ModuleType:
    """TF Text, or an error that says how to install it."""
    try:
        import tensorflow_text
    except ImportError as error:
        raise ImportError(
            "Texts need TF Text; install it with `pip install '.[text]'`."
        ) from error
    return tensorflow_text


class Encoded(NamedTuple):
    """A data set as arrays: `(ids, labels)` for each part."""

    tokenizer: keras.layers.TextVectorization
    words: list[str]  # Their ids start with 2.
    classes: tuple[str, ...]
    train: tuple[np.ndarray, np.ndarray]
    validation: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]


def encode(data: datasets.TextData, max_length: int) -> Encoded:
    """Makes a vocabulary of the training texts, and ids of all texts."""
    words = split_words(data.train.texts).flat_values.numpy()
    counts = Counter(word.decode("utf8") for word in words)
    known = [word for word, _ in counts.most_common()]
    tokenizer = make_tokenizer(known, max_length)
    parts = [
        (tokenizer(tf.constant(part.texts)).numpy(), part.labels)
        for part in (data.train, data.validation, data.test)
    ]
    return Encoded(tokenizer, known, data.classes, *parts)


def keep_frequent(ids: np.ndarray, count: int) -> np.ndarray:
    """Ids below a count; rarer words become the unknown one.

    `encode` numbers words by how frequent they are.

    >>> keep_frequent(np.array([2, 7, 3, 0]), count=5).tolist()
    [2, 1, 3, 0]
    """
    return np.where(ids < count, ids, 1)


def frequent_words(
    data: datasets.TextData,
    sizes: tuple[int, int],
    max_length: int,
    count: int,
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """`(ids, labels)` of training and test texts, ids below a count.

    `sizes` are the largest numbers of texts of the two parts.
    """
    train = datasets.choose(data.train, sizes[0])
    test = datasets.choose(data.test, sizes[1])
    chosen = data._replace(train=train, validation=test, test=test)
    encoded = encode(chosen, max_length)
    return tuple(
        (keep_frequent(ids, count), labels)
        for ids, labels in (encoded.train, encoded.test)
    )
