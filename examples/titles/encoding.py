"""Titles as ids: of their characters or of their words.

All of it is ops of TensorFlow and TF Text, so a served model takes strings.
Before anything else, bytes that are no UTF-8 become U+FFFD, text is brought to
one form (NFKC, case folded), and white space of any kind and length is one
space.
"""

from collections import Counter
from string import ascii_lowercase
from string import digits
from string import punctuation

import keras
import numpy as np
import tensorflow as tf

from examples.common import text_encoding
from keras_seqmech.typing import Tensor

CHARACTERS = (*ascii_lowercase, *digits, *punctuation, " ")
# Steps kept of a title: about the 95th percentile, and the 99th.
LENGTHS = {"characters": 112, "words": 20}
# The id of what is no character or word, and of one that is not known.
PADDING, UNKNOWN = 0, 1


def normalize(texts: Tensor) -> Tensor:
    """Valid UTF-8 in form NFKC, case folded, without repeated white space."""
    tensorflow_text = text_encoding.import_tensorflow_text()
    texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8")
    texts = tensorflow_text.normalize_utf8(texts, "NFKC")
    texts = tensorflow_text.case_fold_utf8(texts)
    return tf.strings.strip(tf.strings.regex_replace(texts, r"[\s\pZ]+", " "))


def vocabulary(texts: list[str]) -> list[str]:
    """Words of normalised texts, the most frequent first."""
    words = text_encoding.split_words(normalize(tf.constant(texts)))
    counts = Counter(words.flat_values.numpy())
    return [word.decode("utf8") for word, _ in counts.most_common()]


def make_encoder(
    length: int, words: list[str] | None = None
) -> keras.layers.TextVectorization:
    """A layer from strings `(batch,)` to ids `(batch, length)`.

    Of words, whose ids start with 2, or of characters.
    """
    return keras.layers.TextVectorization(
        standardize=normalize,
        split="character" if words is None else text_encoding.split_words,
        output_sequence_length=length,
        vocabulary=CHARACTERS if words is None else words,
    )


def encode(encoder: keras.layers.Layer, texts: list[str | bytes]) -> np.ndarray:
    """Ids of many texts."""
    batches = tf.data.Dataset.from_tensor_slices(list(texts)).batch(1024)
    return np.concatenate([encoder(batch).numpy() for batch in batches])


def tokens(inputs: str, text: str | bytes, length: int) -> list[str]:
    """What each step of a title reads, as text to be shown."""
    normalized = normalize(tf.constant([text]))
    if inputs == "characters":
        parts = tf.strings.unicode_split(normalized, "UTF-8")
    else:
        parts = text_encoding.split_words(normalized)
    return [part.decode("utf8") for part in parts[0].numpy()][:length]
