"""Ten labelled texts a class: BiLSTMs over contextual vectors and over GloVe.

    python -m examples.pooling.contextual_vectors --data-dir DATA
    python -m examples.pooling.few_labels --data-dir DATA

The IMDb part of table 1.9 of "Analyzing the Learnability and Representability
of Recurrent Architectures", with vectors of a small sentence encoder, from the
files that the first program writes, or GloVe (`--inputs`). Both are fixed and
read the same texts; a word that GloVe lacks is a vector of zeros. `logistic` is
logistic regression on the mean vector of a text, with the regularisation that
is best on the validation part.

The best epoch on the validation part is tested. As that part has many more
labels than the training part, `last_accuracy` is the test accuracy that needs
none of them: after the last epoch, and of `logistic` without a choice.
"""

import argparse
import functools
from collections.abc import Sequence
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf
from sklearn.linear_model import LogisticRegression

from examples.common import datasets
from examples.common import program
from examples.common import text_encoding
from examples.common import word_vectors
from examples.pooling import classifiers
from examples.pooling import contextual_vectors
from examples.pooling import experiments
from examples.pooling import noisy_texts

INPUTS = ("glove", "contextual")
MODELS = (*classifiers.POOLINGS, "logistic")
# Tokens of a text.
MAX_LENGTH = 512
# Texts of a batch that is not trained on: steps cost more than texts.
EVALUATED = 200
# Inverse strengths of regularisation that `logistic` tries.
STRENGTHS = (0.01, 0.1, 1.0, 10.0, 100.0)


class TokenVectors(NamedTuple):
    """Texts as arrays `(tokens, width)`, and their labels."""

    rows: list[np.ndarray]
    labels: np.ndarray


class FewData(NamedTuple):
    """What one run reads."""

    train: TokenVectors
    validation: TokenVectors
    test: TokenVectors


# A study calls `main` for each run, and these take longer than some of them.
_load_texts = functools.lru_cache(maxsize=1)(datasets.load)
_load_vectors = functools.lru_cache(maxsize=1)(word_vectors.load_vectors)


@functools.lru_cache(maxsize=1)
def load(inputs: str, seed: int, data_dir: str) -> FewData:
    """Reads the texts of a run as vectors; the seed draws those of training."""
    data = _load_texts("imdb", data_dir)
    parts = (
        contextual_vectors.draw(data.train, seed),
        *contextual_vectors.held_out(data),
    )
    if inputs == "contextual":
        found = [contextual_vectors.read_vectors(part.texts) for part in parts]
    else:
        path = word_vectors.find_vectors(data_dir)
        if path is None:
            raise FileNotFoundError(f"No vectors of words in {data_dir}/glove")
        words, vectors = _load_vectors(path)
        found = [look_up(part.texts, words, vectors) for part in parts]
    vectors = (
        TokenVectors([row[:MAX_LENGTH] for row in rows], part.labels)
        for rows, part in zip(found, parts)
    )
    return FewData(*vectors)


def look_up(
    texts: Sequence[str], words: Sequence[str], vectors: np.ndarray
) -> list[np.ndarray]:
    """Texts as word vectors; a word that has none is zeros."""
    ids = {word: i for i, word in enumerate(words)}
    table = np.concatenate([vectors, np.zeros_like(vectors[:1])])
    split = text_encoding.split_words(texts)
    flat = [
        ids.get(word.decode("utf8"), len(words))
        for word in split.flat_values.numpy()
    ]
    return np.split(table[flat], split.row_splits.numpy()[1:-1])


def batches(
    texts: TokenVectors,
    batch_size: int,
    random: np.random.Generator | None = None,
) -> tf.data.Dataset:
    """Batches `({"vectors", "mask"}, labels)`; see `noisy_texts.batches`."""
    width = texts.rows[0].shape[1]

    def make(indices):
        rows = [texts.rows[i] for i in indices]
        vectors = keras.utils.pad_sequences(rows, None, "float32", "post")
        lengths = np.array([[len(row)] for row in rows])
        mask = np.arange(vectors.shape[1]) < lengths
        return {"vectors": vectors, "mask": mask}, texts.labels[indices]

    inputs = {
        "vectors": tf.TensorSpec((None, None, width), "float32"),
        "mask": tf.TensorSpec((None, None), "bool"),
    }
    return noisy_texts.batches_by_length(
        [len(row) for row in texts.rows], make, inputs, batch_size, random
    )


class LastWeights(keras.callbacks.Callback):
    """Keeps the weights of the last epoch, which others may replace."""

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        self.weights = self.model.get_weights()


def train_and_test(
    name: str,
    seed: int,
    data: FewData,
    args: argparse.Namespace,
    callbacks: Sequence[keras.callbacks.Callback] = (),
) -> dict:
    """Trains and tests a BiLSTM of `classifiers.POOLINGS`."""
    width = data.train.rows[0].shape[1]
    model = classifiers.vector_classifier(
        name, width, args.units, args.forget_bias
    )
    classifiers.compile_classifier(model, args.learning_rate)
    last = LastWeights()
    order = np.random.default_rng([seed, 2])
    history = classifiers.fit(
        model,
        batches(data.train, args.batch_size, order),
        batches(data.validation, EVALUATED),
        args.epochs,
        callbacks=[last, *callbacks],
    )
    test = batches(data.test, EVALUATED)
    row = experiments.summary(history)
    accuracy = last_accuracy = classifiers.accuracy(model, test)
    if row["best_epoch"] < row["epochs"]:
        model.set_weights(last.weights)
        last_accuracy = classifiers.accuracy(model, test)
    return {
        **row,
        "test_accuracy": experiments.percent(accuracy),
        "last_accuracy": experiments.percent(last_accuracy),
        "parameters": model.count_params(),
    }


def fit_logistic(data: FewData) -> dict:
    """Fits logistic regression to mean vectors; without seed and epochs.

    Its `last_accuracy` is that of scikit-learn's own strength of
    regularisation, 1, which no validation text has chosen.
    """
    means = [
        np.stack([row.mean(axis=0, dtype="float32") for row in part.rows])
        for part in data
    ]
    train, validation, test = zip(means, (part.labels for part in data))
    found = [
        LogisticRegression(C=strength, max_iter=1000).fit(*train)
        for strength in STRENGTHS
    ]
    best = max(found, key=lambda model: model.score(*validation))
    plain = found[STRENGTHS.index(1.0)]
    return {
        "train_accuracy": experiments.percent(best.score(*train)),
        "validation_accuracy": experiments.percent(best.score(*validation)),
        "test_accuracy": experiments.percent(best.score(*test)),
        "last_accuracy": experiments.percent(plain.score(*test)),
        "parameters": best.coef_.size + best.intercept_.size,
    }


def options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--inputs", nargs="+", choices=INPUTS, default=list(INPUTS))
    add("--models", nargs="+", choices=MODELS, default=list(MODELS))


def run(own: program.Run) -> dict:
    """Trains and tests one of `MODELS`."""
    data = load(own.key["inputs"], own.seed, own.args.data_dir)
    if own.key["model"] == "logistic":
        return fit_logistic(data)
    return train_and_test(own.key["model"], own.seed, data, own.args)


PROGRAM = program.Program(
    doc=__doc__,
    output="runs/pooling_few_labels.csv",
    options=options,
    seeds=(0, 1, 2, 3, 4),
    key=("inputs", "model", "seed", "settings"),
    cases=lambda args: program.grid(inputs=args.inputs, model=args.models),
    needs_data=lambda args: True,
    numbers={
        "units": 32,
        "learning_rate": 5e-3,
        "batch_size": 5,
        "epochs": 8,
        "forget_bias": 1.0,
    },
    run=run,
)

if __name__ == "__main__":
    PROGRAM.main()
