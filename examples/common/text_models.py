"""Text classifiers with and without adaptive receptive fields."""

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from examples.common import datasets
from examples.common import word_vectors
from examples.common.arguments import positive
from keras_seqmech import ReceptiveFieldRNN

MODELS = ("rnn", "rnn+rf-", "rnn+rf", "lstm", "lstm+rf-", "lstm+rf")
# Tokens kept of a text: about the 95th percentile, less for long texts.
LENGTHS = {"mr": 40, "trec": 20, "sst5": 40, "ag": 64, "imdb": 200}


@keras.saving.register_keras_serializable(package="keras_seqmech_examples")
class Tokenizer(keras.layers.Layer):
    """Strings to word ids with TF Text: 0 is padding, 1 an unknown word.

    Texts are lower-cased and split at white space and around punctuation;
    apostrophes and hyphens inside words stay.

    Args:
        vocabulary: The known words; they get the ids from 2 on.
        max_length: Number of ids of each text; longer texts are cut.
    """

    def __init__(self, vocabulary: Sequence[str], max_length: int, **kwargs):
        super().__init__(**kwargs)
        self.vocabulary = list(vocabulary)
        self.max_length = max_length
        self.lookup = keras.layers.StringLookup(
            vocabulary=self.vocabulary, mask_token=""
        )

    def call(self, texts):
        words = split_words(texts)
        shape = [None, self.max_length]
        return self.lookup(words.to_tensor(default_value="", shape=shape))

    def compute_output_spec(self, texts):
        shape = (texts.shape[0], self.max_length)
        return keras.KerasTensor(shape, dtype="int64")

    def get_config(self):
        return {
            **super().get_config(),
            "vocabulary": self.vocabulary,
            "max_length": self.max_length,
        }


def split_words(texts) -> tf.RaggedTensor:
    """Words of texts, with `tensorflow_text.WhitespaceTokenizer`."""
    try:
        import tensorflow_text
    except ImportError as error:
        raise ImportError(
            "Tokenisation needs TF Text; install it with "
            "`pip install keras_seqmech[text]`."
        ) from error
    texts = tf.strings.lower(texts, encoding="utf-8")
    texts = tf.strings.regex_replace(texts, r"([^\pL\pN\s'\-])", r" \1 ")
    return tensorflow_text.WhitespaceTokenizer().tokenize(texts)


class Encoded(NamedTuple):
    """A data set as arrays: `(ids, labels)` for each part."""

    tokenizer: Tokenizer
    classes: tuple[str, ...]
    train: tuple[np.ndarray, np.ndarray]
    validation: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]


def encode(data: datasets.TextData, max_length: int) -> Encoded:
    """Makes a vocabulary of the training texts, and ids of all texts."""
    words = split_words(data.train.texts).flat_values.numpy()
    counts = Counter(word.decode("utf8") for word in words)
    tokenizer = Tokenizer([w for w, _ in counts.most_common()], max_length)
    parts = [
        (tokenizer(tf.constant(part.texts)).numpy(), part.labels)
        for part in (data.train, data.validation, data.test)
    ]
    return Encoded(tokenizer, data.classes, *parts)


def embedding_matrix(
    vocabulary: Sequence[str], vectors_path: str | None, size: int, seed: int
) -> np.ndarray:
    """Starting values of embeddings; known words get their vectors."""
    random = np.random.default_rng(seed)
    known, scale = {}, 0.1
    if vectors_path:
        words, vectors = word_vectors.load_vectors(vectors_path)
        known = {word: i for i, word in enumerate(words)}
        size, scale = vectors.shape[1], vectors.std()
    matrix = random.normal(0, scale, (len(vocabulary) + 2, size))
    matrix[:2] = 0
    for i, word in enumerate(vocabulary, start=2):
        if word in known:
            matrix[i] = vectors[known[word]]
    return matrix.astype("float32")


def build_model(
    model: str, matrix: np.ndarray, length: int, classes: int, args
) -> tuple[keras.Model, keras.Model | None]:
    """Builds one of `MODELS`.

    Returns:
        The classifier, word ids `(batch, length)` to class probabilities; and
        for models with receptive fields a model with the same weights that
        puts out the dict of `ReceptiveFieldRNN(return_field=True)`.
    """
    ids = keras.Input((length,), dtype="int64", name="ids")
    mask = ops.not_equal(ids, 0)
    embedding = keras.layers.Embedding(*matrix.shape)
    x = keras.layers.Dropout(args.dropout)(embedding(ids))
    embedding.embeddings.assign(matrix)
    penalty = keras.regularizers.L2(args.l2)
    unit, _, field = model.partition("+")
    result = None
    if field:
        cells = {
            "rnn": keras.layers.SimpleRNNCell,
            "lstm": keras.layers.LSTMCell,
        }
        x, result = ReceptiveFieldRNN(
            cells[unit](args.units, kernel_regularizer=penalty),
            max_size=1 if field == "rf-" else args.max_size,
            kernel_regularizer=penalty,
            return_field=True,
            jit_compile=True,
        )(x, mask=mask)
    else:
        layers = {"rnn": keras.layers.SimpleRNN, "lstm": keras.layers.LSTM}
        layer = layers[unit](args.units, kernel_regularizer=penalty)
        x = layer(x, mask=mask)
    x = keras.layers.Dropout(args.dropout)(x)
    outputs = keras.layers.Dense(
        classes, activation="softmax", kernel_regularizer=penalty
    )(x)
    fields = None if result is None else keras.Model(ids, result)
    return keras.Model(ids, outputs, name="classifier"), fields


def compile_model(model: keras.Model, args) -> None:
    # The receptive field's loop is compiled on its own; XLA on the whole
    # model was measured slower here on CPU.
    model.compile(
        keras.optimizers.Adam(args.learning_rate, clipnorm=1.0),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
        jit_compile=False,
    )


def serving_model(model: keras.Model, data: Encoded) -> keras.Model:
    """Puts the tokenizer before a classifier, and class names after it."""
    texts = keras.Input((), dtype="string", name="text")
    probabilities = model(data.tokenizer(texts))
    names = keras.layers.StringLookup(
        vocabulary=data.classes, num_oov_indices=0, invert=True
    )
    label = names(ops.argmax(probabilities, axis=-1))
    outputs = {"label": label, "probabilities": probabilities}
    return keras.Model({"text": texts}, outputs)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds what every example that trains these models can be told."""
    add = parser.add_argument
    add("--data-dir", required=True, help="see examples/common/datasets.py")
    add("--vectors", help="GloVe file; default: glove/*.npz of --data-dir")
    add("--embedding-size", type=positive, default=100, help="without vectors")
    add("--length", type=positive, help="tokens kept of a text")
    add("--units", type=positive, default=100)
    add("--max-size", type=positive, default=4, help="largest field size S")
    add("--dropout", type=float, default=0.5)
    add("--l2", type=float, default=1e-5)
    add("--learning-rate", type=float, default=1e-3)
    add("--batch-size", type=positive, default=64)
    add("--epochs", type=positive, default=30)
    add("--verbose", type=int, default=0, help="of model.fit")


def find_vectors(data_dir: str) -> str | None:
    """The GloVe file that comes with the data, if one does."""
    found = sorted(Path(data_dir, "glove").glob("*.npz"))
    return str(found[0]) if found else None
