"""Answers to questions about a passage, with and without a focused encoder.

    python -m examples.focused.passage_questions --dataset xquad --data-dir DATA

Trains LSTMs and the focused hierarchical encoder of "Focused Hierarchical RNNs
for Conditional Sequence Processing" on one data set, and prints their test
scores. Answers are written word by word, from a vocabulary or by pointing to
the passage; those of PubMedQA are yes, no or maybe. `--models` may also name
the encoder without one of its parts, see examples/focused/passage_models.py.
Words start from the GloVe vectors of `--data-dir`, if there are any.

XQuAD and PubMedQA have about a thousand questions: enough to see all parts at
work, far too few to compare models by. The validation part picks the epoch.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np

from examples.common import arguments
from examples.common import results
from examples.common import tables
from examples.common import word_vectors
from examples.focused import answer_scores
from examples.focused import passage_data
from examples.focused import passage_models
from examples.focused import passage_words

SETTINGS = ("units", "batch_size", "epochs")
KEY = ("dataset", "model", "seed", "settings")
# Words of the vocabulary that answers are written with, at most.
VOCABULARY = 5000
# Tokens kept of a question, a passage, and an answer with its end.
LENGTHS = 40, 400, 12
# Size of word vectors that are learned.
EMBEDDING_SIZE = 100
# Epochs without progress, after which training ends.
PATIENCE = 4


class Task(NamedTuple):
    """A data set as the models take it."""

    words: passage_words.Words
    train: passage_words.Encoded
    validation: passage_words.Encoded
    test: passage_words.Encoded

    @property
    def extra_words(self) -> int:
        """Most words beyond the vocabulary in a passage."""
        return max(len(e) for part in self[1:] for e in part.extras)


def prepare(data: passage_data.PassageData, args: argparse.Namespace) -> Task:
    """Makes a vocabulary, and arrays of all parts."""
    vectors = ()
    if args.vectors:
        vectors, _ = word_vectors.load_vectors(args.vectors)
    words = passage_words.make_words(data, VOCABULARY, vectors)
    return Task(
        words, *(passage_words.encode(part, words, *LENGTHS) for part in data)
    )


def train_and_test(
    name: str, seed: int, task: Task, args: argparse.Namespace
) -> dict:
    """Trains and tests one model; returns its results."""
    keras.utils.clear_session()
    keras.utils.set_random_seed(seed)
    matrix = word_vectors.embedding_matrix(
        task.words.words[2:], args.vectors, EMBEDDING_SIZE, seed
    )
    is_labels = args.dataset == "pubmedqa"
    if is_labels:
        network = passage_models.build_classifier(
            name, matrix, len(passage_data.LABELS), args
        )
    else:
        network = passage_models.build_writer(
            name, matrix, task.words, task.extra_words, args
        )
    data = label_arrays if is_labels else arrays
    inputs, targets, weights = data(task.train)
    stopping = keras.callbacks.EarlyStopping(
        patience=PATIENCE, restore_best_weights=True
    )
    history = network.model.fit(
        inputs,
        targets,
        sample_weight=weights,
        validation_data=data(task.validation),
        batch_size=args.batch_size,
        epochs=args.epochs,
        verbose=0,
        callbacks=[stopping],
    ).history
    if is_labels:
        inputs, labels, _ = label_arrays(task.test)
        p = network.model.predict(inputs, args.batch_size, verbose=0)
        count = len(passage_data.LABELS)
        scores = answer_scores.score_labels(p.argmax(-1), labels, count)
    else:
        scores = answer_scores.score_texts(
            passage_models.write_answers(
                network, task.test, task.words, args.batch_size
            ),
            [question.answers for question in task.test.questions],
        )
    if network.gates is not None:
        scores["openness"] = round(
            passage_models.openness(network, task.test, args.batch_size), 4
        )
    best = int(np.argmin(history["val_loss"]))
    return {
        **scores,
        "validation_loss": round(history["val_loss"][best], 4),
        "best_epoch": best + 1,
        "epochs": len(history["loss"]),
        "parameters": network.model.count_params(),
    }


def arrays(encoded: passage_words.Encoded) -> tuple:
    """Inputs, words of answers, and which of them count."""
    return encoded.inputs, encoded.targets, encoded.weights


def label_arrays(encoded: passage_words.Encoded) -> tuple:
    """Inputs and labels; all count."""
    labels = [
        passage_data.LABELS.index(q.answers[0]) for q in encoded.questions
    ]
    inputs = {key: encoded.inputs[key] for key in ("question", "passage")}
    return inputs, np.array(labels), None


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    add = parser.add_argument
    add("--data-dir", type=arguments.folder, required=True)
    add("--dataset", choices=passage_data.DATASETS, required=True)
    models, ablations = passage_models.MODELS, passage_models.ABLATIONS
    names = {"choices": (*models, *ablations), "default": list(models)}
    add("--models", nargs="+", **names)
    add("--seeds", nargs="+", type=int, default=[1, 2, 3])
    add("--output", type=Path, default=Path("runs/passage_questions.csv"))
    add("--epochs", type=int, default=30, help="at most")
    add("--units", type=int, default=128)
    add("--batch-size", type=int, default=32)
    args = parser.parse_args(argv)
    args.vectors = word_vectors.find_vectors(args.data_dir)
    return args


def keys(args: argparse.Namespace) -> list[results.Key]:
    """The `KEY` of each run."""
    vectors = Path(args.vectors).name if args.vectors else "none"
    settings = results.describe(args, SETTINGS, vectors=vectors)
    return [
        (args.dataset, name, str(seed), settings)
        for seed in args.seeds
        for name in args.models
    ]


def main(argv: Sequence[str] | None = None) -> str:
    """Runs the example; returns the table it prints."""
    args = parse(argv)
    data = passage_data.load(args.dataset, args.data_dir)
    task = prepare(data, args)
    rows = results.ResultsFile(args.output, KEY).do_missing(
        keys(args),
        lambda key: train_and_test(key["model"], int(key["seed"]), task, args),
    )
    columns = results.measured(rows, KEY)
    return tables.publish(tables.by_kind(rows, ("dataset", "model"), columns))


if __name__ == "__main__":
    main()
