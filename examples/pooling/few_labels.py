"""Ten labelled texts a class: BiLSTMs over contextual vectors and over GloVe.

    python -m examples.pooling.contextual_vectors --data-dir DATA
    python -m examples.pooling.few_labels --data-dir DATA

Reproduces the IMDb part of table 1.9 of "Analyzing the Learnability and
Representability of Recurrent Architectures", where max-attention reads vectors
of BERT. Here they are those of a much smaller sentence encoder, from the file
that the first program writes (`--contextual`), with GloVe beside them
(`--inputs`). Both are fixed and read the same texts, at most `--max-length`
tokens of each; a word that GloVe lacks is a vector of zeros.

`logistic` is the plain baseline: logistic regression on the mean vector of a
text, with the regularisation that is best on the validation part.

The seed draws the training texts, weights and the order of batches. The best
epoch on the validation part is tested. As that part has many more labels than
the training part, `last_accuracy` is the test accuracy that needs none of them:
after the last epoch, and of `logistic` without a choice of regularisation.

Each finished run is a line of `--output`, a CSV file, and is not repeated.
`--markdown` writes the table.
"""

import argparse
import functools
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from examples.common import datasets
from examples.common import results
from examples.common import tables
from examples.common import text_encoding
from examples.common import word_vectors
from examples.common.arguments import positive
from examples.common.arguments import real
from examples.common.epoch_line import EpochLine
from examples.pooling import classifiers
from examples.pooling import experiments
from examples.pooling import few_texts
from examples.pooling import noisy_texts
from examples.pooling import thesis
from examples.pooling import vector_files

INPUTS = ("glove", "contextual")
MODELS = (*thesis.MODELS, "logistic")
KEY = ("dataset", "per_class", "inputs", "model", "seed", "settings")
FIELDS = (*KEY, *experiments.RESULTS, "last_accuracy", *experiments.COSTS)
TUNED = (
    "units",
    "learning_rate",
    "batch_size",
    "epochs",
    "forget_bias",
    "max_length",
    "validation_size",
    "test_size",
)
# Texts of a batch that is not trained on: steps cost more than texts.
EVALUATED = 200
# Inverse strengths of regularisation that `logistic` tries.
STRENGTHS = (0.01, 0.1, 1.0, 10.0, 100.0)


class FewData(NamedTuple):
    """What one run reads."""

    train: vector_files.TokenVectors
    validation: vector_files.TokenVectors
    test: vector_files.TokenVectors


# A study calls `main` for each run, and these take longer than some of them.
_load_texts = functools.lru_cache(maxsize=1)(datasets.load)
_read_encoded = functools.lru_cache(maxsize=1)(vector_files.read)
_load_vectors = functools.lru_cache(maxsize=1)(word_vectors.load_vectors)


def load(inputs: str, seed: int, args: argparse.Namespace) -> FewData:
    """Reads the texts of a run as vectors.

    Args:
        inputs: One of `INPUTS`.
        seed: That draws the training texts.
        args: Of the command line.

    Raises:
        FileNotFoundError: If a file is missing.
        ValueError: If a file is malformed or has other texts, or if there
            are no GloVe vectors.
    """
    data = _load_texts(args.dataset, args.data_dir)
    train = few_texts.draw(data.train, args.per_class, seed)
    held_out = few_texts.held_out(data, args.validation_size, args.test_size)
    parts = dict(zip(vector_files.PARTS, (train, *held_out)))
    if inputs == "glove":
        if not args.vectors:
            raise ValueError(
                "--vectors: must be given where --data-dir has no "
                f"glove/*.npz. Received: {args.vectors}"
            )
        words, vectors = _load_vectors(args.vectors)
        found = {
            name: look_up(part, words, vectors) for name, part in parts.items()
        }
    else:
        encoded = _read_encoded(args.contextual)
        try:
            found = {
                name: encoded.find(part.texts, part.labels, name)
                for name, part in parts.items()
            }
        except ValueError as error:
            raise ValueError(f"{args.contextual}: {error}") from None
    return FewData(
        **{name: cut(part, args.max_length) for name, part in found.items()}
    )


def look_up(
    part: datasets.Part, words: Sequence[str], vectors: np.ndarray
) -> vector_files.TokenVectors:
    """Texts as word vectors; a word that has none is zeros."""
    ids = {word: i for i, word in enumerate(words)}
    table = np.concatenate([vectors, np.zeros_like(vectors[:1])])
    split = text_encoding.split_words(part.texts)
    flat = [
        ids.get(word.decode("utf8"), len(words))
        for word in split.flat_values.numpy()
    ]
    rows = np.split(table[flat], split.row_splits.numpy()[1:-1])
    return vector_files.TokenVectors(rows, part.labels)


def cut(
    texts: vector_files.TokenVectors, length: int
) -> vector_files.TokenVectors:
    """The first tokens of each text."""
    return texts._replace(rows=[row[:length] for row in texts.rows])


def batches(
    texts: vector_files.TokenVectors,
    batch_size: int,
    random: np.random.Generator | None = None,
) -> tf.data.Dataset:
    """Batches `({"vectors", "mask"}, labels)`; see `noisy_texts.batches`."""
    width = texts.rows[0].shape[1]

    def make(indices):
        rows = [texts.rows[i] for i in indices]
        lengths = np.array([len(row) for row in rows])
        vectors = np.zeros((len(rows), lengths.max(), width), "float32")
        for padded, row in zip(vectors, rows):
            padded[: len(row)] = row
        mask = np.arange(lengths.max()) < lengths[:, np.newaxis]
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
    name: str, seed: int, data: FewData, args: argparse.Namespace, line: str
) -> dict:
    """Trains and tests one of `thesis.MODELS`.

    Args:
        name: The model.
        seed: Of weights and of the order of texts.
        data: Texts.
        args: Of the command line.
        line: What the lines of progress start with.

    Returns:
        The results of the run.
    """
    keras.utils.clear_session()
    keras.utils.set_random_seed(seed)
    width = data.train.rows[0].shape[1]
    classes = len(datasets.CLASSES[args.dataset])
    model = classifiers.vector_classifier(
        name, width, classes, args.units, args.forget_bias
    )
    classifiers.compile_classifier(model, args.learning_rate)
    last = LastWeights()
    order = np.random.default_rng([seed, 2])
    history = classifiers.fit_batches(
        model,
        batches(data.train, args.batch_size, order),
        batches(data.validation, EVALUATED),
        args.epochs,
        callbacks=[last, EpochLine(line)],
    )
    test = batches(data.test, EVALUATED)
    row = experiments.summary(history)
    accuracy = last_accuracy = classifiers.share_right(model, test)
    if row["best_epoch"] < row["epochs"]:
        model.set_weights(last.weights)
        last_accuracy = classifiers.share_right(model, test)
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
    try:
        from sklearn.linear_model import LogisticRegression
    except ImportError as error:
        raise ImportError(
            "The model logistic needs scikit-learn; install it with "
            "`pip install 'keras_seqmech[examples]'`."
        ) from error
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


def keys(args: argparse.Namespace) -> list[results.Key]:
    """The `KEY` of each run that the command line asks for."""
    settings = settings_of(args)
    return [
        (args.dataset, str(args.per_class), inputs, name, str(seed), settings)
        for seed in args.seeds
        for inputs in args.inputs
        for name in args.models
    ]


def do_runs(args: argparse.Namespace) -> list[results.Row]:
    """Does the runs that have no row; returns all rows of the settings."""

    @functools.lru_cache(maxsize=1)
    def load_once(inputs, seed):
        return load(inputs, seed, args)

    def run(key, line):
        name, seed = key["model"], int(key["seed"])
        data = load_once(key["inputs"], seed)
        start = time.perf_counter()
        if name == "logistic":
            row = fit_logistic(data)
        else:
            row = train_and_test(name, seed, data, args, line)
        return {**row, "seconds": round(time.perf_counter() - start, 1)}

    file = results.ResultsFile(Path(args.output), FIELDS, KEY)
    file.do_missing(keys(args), run)
    return experiments.rows_like(file, args.dataset, settings_of(args))


def table(rows: Sequence[dict[str, str]], args: argparse.Namespace) -> str:
    """Markdown table of test accuracies, as table 1.9.

    Args:
        rows: Finished runs of the data set and the settings.
        args: Of the command line.
    """
    rows = [row for row in rows if row["per_class"] == str(args.per_class)]
    inputs = [x for x in INPUTS if x in {row["inputs"] for row in rows}]
    lines = [["test accuracy %", *inputs, "paper"]]
    for name in MODELS:
        own = [row for row in rows if row["model"] == name]
        if own:
            cells = [
                experiments.mean_and_spread(
                    [
                        float(row["test_accuracy"])
                        for row in own
                        if row["inputs"] == x
                    ]
                )
                for x in inputs
            ]
            paper = thesis.few_labels_accuracy(
                args.dataset, args.per_class, name
            )
            lines.append([name, *cells, paper])
    if (args.dataset, args.per_class) == ("imdb", thesis.FEW_LABELS_PER_CLASS):
        lines += [
            [name, *[""] * len(inputs), paper]
            for name, paper in thesis.FEW_LABELS.items()
            if name not in MODELS
        ]
    return tables.table(lines)


def settings_of(args: argparse.Namespace) -> str:
    """What a result depends on besides the other columns of `KEY`."""
    vectors = Path(args.vectors).name if args.vectors else "none"
    contextual = Path(args.contextual).name
    return results.describe(args, TUNED, vectors=vectors, contextual=contextual)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    few_texts.add_arguments(parser)
    add = parser.add_argument
    add("--inputs", nargs="+", choices=INPUTS, default=list(INPUTS))
    add("--models", nargs="+", choices=MODELS, default=list(MODELS))
    add("--epochs", type=positive, default=8)
    add("--units", type=positive, default=32, help="of each direction")
    add("--learning-rate", type=real("(0, inf)"), default=5e-3)
    add("--batch-size", type=positive, default=5, help="in training")
    add("--forget-bias", type=real("[-10, 10]"), default=1.0, help="at first")
    add("--max-length", type=positive, default=512, help="tokens of a text")
    add(
        "--contextual",
        help="file of contextual_vectors.py; default: of the data set",
    )
    add("--vectors", help="GloVe file; default: glove/*.npz of --data-dir")
    add("--output", default="runs/pooling_few_labels.csv")
    add("--markdown", help="file for the table")
    args = parser.parse_args(argv)
    args.contextual = args.contextual or vector_files.default_path(args.dataset)
    args.vectors = args.vectors or word_vectors.find_vectors(args.data_dir)
    return args


def main(argv: Sequence[str] | None = None) -> str:
    """Does the runs; returns the table it prints."""
    args = parse(argv)
    rows = do_runs(args)
    notes = (
        f"Data set: {args.dataset}, {args.per_class} labelled texts a class. "
        "In brackets the number of seeds, after ± their standard deviation. "
        'Paper: table 1.9 of "Analyzing the Learnability and Representability '
        'of Recurrent Architectures", where max-attention reads vectors of '
        "BERT; the models without numbers of ours are its comparisons."
    )
    parts = [table(rows, args), notes, f"Settings: `{settings_of(args)}`."]
    return tables.publish(parts, args.markdown)


if __name__ == "__main__":
    main()
