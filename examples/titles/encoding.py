"""Titles as ids: of their characters or of their words.

All of it is layers with ops of TensorFlow and TF Text, so a served model takes
strings. Before anything else, bytes that are no UTF-8 become U+FFFD, text is
brought to one form (NFKC, case folded), and white space of any kind and length
is one space.
"""

from collections import Counter
from collections.abc import Sequence
from string import ascii_lowercase
from string import digits
from string import punctuation
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from examples.common import text_encoding
from keras_seqmech.typing import Tensor

CHARACTERS = (*ascii_lowercase, *digits, *punctuation, " ")
# Steps kept of a title: about the 95th percentile, and the 99th.
LENGTHS = {"characters": 112, "words": 20}
# What is not a character or word at all, and one that is not known.
PADDING, UNKNOWN = 0, 1


@keras.saving.register_keras_serializable(package="keras_seqmech_examples")
class Normalization(keras.layers.Layer):
    """Strings `(batch,)` to strings in one form, as `normalize` does it."""

    def call(self, texts: Tensor) -> Tensor:
        return normalize(texts)

    def compute_output_spec(
        self, texts: keras.KerasTensor
    ) -> keras.KerasTensor:
        return keras.KerasTensor(texts.shape, dtype="string")


@keras.saving.register_keras_serializable(package="keras_seqmech_examples")
class CharacterIds(keras.layers.Layer):
    """Strings to ids of `CHARACTERS`: 0 is padding, 1 any other character.

    Args:
        max_length: Number of ids of each text; longer texts are cut.
    """

    def __init__(self, max_length: int, **kwargs: Any):
        super().__init__(**kwargs)
        self.max_length = max_length
        self.lookup = keras.layers.StringLookup(
            vocabulary=list(CHARACTERS), mask_token=""
        )

    def call(self, texts: Tensor) -> Tensor:
        characters = tf.strings.unicode_split(texts, "UTF-8")
        shape = [None, self.max_length]
        return self.lookup(characters.to_tensor(default_value="", shape=shape))

    def compute_output_spec(
        self, texts: keras.KerasTensor
    ) -> keras.KerasTensor:
        shape = (texts.shape[0], self.max_length)
        return keras.KerasTensor(shape, dtype="int64")

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "max_length": self.max_length}


def normalize(texts: Tensor) -> Tensor:
    """Valid UTF-8 in form NFKC, case folded, without repeated white space."""
    try:
        import tensorflow_text
    except ImportError as error:
        raise ImportError(
            "Normalisation needs TF Text; install it with "
            "`pip install 'keras_seqmech[text]'`."
        ) from error
    texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8")
    texts = tensorflow_text.normalize_utf8(texts, "NFKC")
    texts = tensorflow_text.case_fold_utf8(texts)
    return tf.strings.strip(tf.strings.regex_replace(texts, r"[\s\pZ]+", " "))


def vocabulary(texts: Sequence[str]) -> list[str]:
    """Words of normalised texts, the most frequent first."""
    words = text_encoding.split_words(normalize(tf.constant(texts)))
    counts = Counter(words.flat_values.numpy())
    return [word.decode("utf8") for word, _ in counts.most_common()]


def make_encoder(
    inputs: str, length: int, words: Sequence[str] | None = None
) -> keras.Model:
    """A model of strings `(batch,)` to ids `(batch, length)`.

    Args:
        inputs: `"characters"` or `"words"`.
        length: Longer titles are cut.
        words: The vocabulary, of words alone; its ids start with 2.
    """
    titles = keras.Input((), dtype="string", name="title")
    normalized = Normalization(name="normalization")(titles)
    if inputs == "characters":
        layer = CharacterIds(length, name="characters")
    else:
        layer = text_encoding.Tokenizer(words, length, name="words")
    return keras.Model(titles, layer(normalized), name="encoder")


def encode(encoder: keras.Model, texts: Sequence[str | bytes]) -> np.ndarray:
    """Ids of many texts."""
    texts = [_as_bytes(text) for text in texts]
    batches = tf.data.Dataset.from_tensor_slices(texts).batch(1024)
    return np.concatenate([encoder(batch).numpy() for batch in batches])


def tokens(inputs: str, text: str | bytes, length: int) -> list[str]:
    """What each step of a title reads, as text to be shown."""
    normalized = normalize(tf.constant([_as_bytes(text)]))
    if inputs == "characters":
        parts = tf.strings.unicode_split(normalized, "UTF-8")
    else:
        parts = text_encoding.split_words(normalized)
    return [part.decode("utf8") for part in parts[0].numpy()][:length]


def _as_bytes(text):
    """Also of a command line, where bytes that are no UTF-8 are escaped."""
    return (
        text
        if isinstance(text, bytes)
        else text.encode("utf8", "surrogateescape")
    )
