"""Answers to questions about a passage, with and without a focused encoder.

    python -m examples.focused.passage_questions --dataset xquad --data-dir DATA

Trains LSTMs and the focused hierarchical encoder of "Focused Hierarchical RNNs
for Conditional Sequence Processing" on one data set, and prints their test
scores, beside the source's where it has any. Answers are written word by word,
from a vocabulary or by pointing to the passage; those of PubMedQA are yes, no
or maybe. `--models` may also name the encoder without one of its parts, see
examples/focused/passage_models.py. Each finished run is a line of `--output`, a
CSV file; runs that are already there are not repeated.

XQuAD and PubMedQA have about a thousand questions: enough to see all parts at
work, far too few to compare models by. The source's data sets, SearchQA
(140,461 questions) and MS MARCO, are not shipped; see
examples/focused/passage_data.py for the files that are read.

The validation part picks the epoch; the test part is looked at once, at the
end of a run.
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np

from examples.common import results
from examples.common import tables
from examples.common import word_vectors
from examples.common.arguments import integer
from examples.common.arguments import positive
from examples.common.arguments import real
from examples.focused import answer_scores
from examples.focused import passage_data
from examples.focused import passage_models
from examples.focused import passage_words

SCORES = {
    "exact_match": "exact match %",
    "f1": "F1 %",
    "bleu1": "BLEU-1 %",
    "rouge_l": "ROUGE-L %",
    "accuracy": "accuracy %",
    "macro_f1": "macro F1 %",
}
# Test scores of the source, by data set and model.
PAPER = {
    "searchqa": {
        "lstm1": {"f1": 48.7, "exact_match": 39.7},
        "lstm2": {"f1": 51.9, "exact_match": 41.7},
        "fhe": {"f1": 53.4, "exact_match": 46.8},
    },
    "msmarco": {
        "lstm1": {"bleu1": 28.0, "rouge_l": 28.0},
        "lstm2": {"bleu1": 27.0, "rouge_l": 28.0},
        "fhe": {"bleu1": 30.0, "rouge_l": 30.0},
    },
}
TUNED = (
    "units",
    "dropout",
    "learning_rate",
    "batch_size",
    "epochs",
    "patience",
    "vocabulary",
    "question_length",
    "passage_length",
    "answer_length",
    "embedding_size",
    "openness_target",
    "sparsity_weight",
    "entropy_weight",
)
KEY = ("dataset", "model", "seed", "settings")
FIELDS = (
    *KEY,
    *SCORES,
    "openness",
    "validation_loss",
    "best_epoch",
    "epochs",
    "parameters",
    "seconds",
)
FEW = 10_000


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

    def without_copies(self) -> "Task":
        """The same, words of answers beyond the vocabulary being unknown."""

        def written(part: passage_words.Encoded) -> passage_words.Encoded:
            known = part.targets < self.words.vocabulary_size
            targets = np.where(known, part.targets, passage_words.UNKNOWN)
            return part._replace(targets=targets)

        return Task(self.words, *map(written, self[1:]))


def prepare(data: passage_data.PassageData, args: argparse.Namespace) -> Task:
    """Makes a vocabulary, and arrays of all parts."""
    vectors = ()
    if args.vectors:
        vectors, _ = word_vectors.load_vectors(args.vectors)
    words = passage_words.make_words(data, args.vocabulary, vectors)
    lengths = (args.question_length, args.passage_length, args.answer_length)
    return Task(
        words, *(passage_words.encode(part, words, *lengths) for part in data)
    )


def train_and_test(
    name: str, seed: int, task: Task, args: argparse.Namespace
) -> dict:
    """Trains and tests one model; returns its results."""
    keras.utils.clear_session()
    keras.utils.set_random_seed(seed)
    matrix = word_vectors.embedding_matrix(
        task.words.words[2:], args.vectors, args.embedding_size, seed
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
    if name == passage_models.NO_POINTER:
        task = task.without_copies()
    data = label_arrays if is_labels else arrays
    inputs, targets, weights = data(task.train)
    start = time.perf_counter()
    history = network.model.fit(
        inputs,
        targets,
        sample_weight=weights,
        validation_data=data(task.validation),
        batch_size=args.batch_size,
        epochs=args.epochs,
        verbose=args.verbose,
        callbacks=[
            keras.callbacks.EarlyStopping(
                patience=args.patience, restore_best_weights=True
            )
        ],
    ).history
    seconds = time.perf_counter() - start
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
        **{field: scores.get(field, "") for field in (*SCORES, "openness")},
        "validation_loss": round(history["val_loss"][best], 4),
        "best_epoch": best + 1,
        "epochs": len(history["loss"]),
        "parameters": network.model.count_params(),
        "seconds": round(seconds, 1),
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


def settings(args: argparse.Namespace) -> str:
    """What a result depends on besides data set, model and seed."""
    vectors = Path(args.vectors).name if args.vectors else "none"
    return results.describe(args, TUNED, vectors=vectors)


def table(dataset: str, rows: Sequence[dict]) -> str:
    """Markdown table of mean and standard deviation over seeds."""
    scores = [s for s in SCORES if any(row[s] for row in rows)]
    paper = PAPER.get(dataset, {})
    header = [dataset]
    for score in scores:
        header.append(SCORES[score])
        header += ["paper"] * any(score in own for own in paper.values())
    header += ["gates open %", "seeds", "s per run"]
    lines = [header]
    for name in (*passage_models.MODELS, *passage_models.ABLATIONS):
        own = [row for row in rows if row["model"] == name]
        if not own:
            continue
        line = [name]
        for score in scores:
            line.append(tables.spread([float(row[score]) for row in own]))
            if score in paper.get(name, {}):
                line.append(f"{paper[name][score]:.1f}")
        gates = [100 * float(r["openness"]) for r in own if r["openness"]]
        line += [tables.spread(gates), str(len(own))]
        line.append(f"{np.mean([float(row['seconds']) for row in own]):.0f}")
        lines.append(line)
    return tables.table(lines)


def notes(
    data: passage_data.PassageData, task: Task, args: argparse.Namespace
) -> str:
    """Notes on the table: what bounds the scores, how small the data are."""
    lines = []
    if args.dataset == "pubmedqa":
        _, labels, _ = label_arrays(task.test)
        counts = np.bincount(labels, minlength=len(passage_data.LABELS))
        most = int(counts.argmax())
        lines.append(
            f"Always answering {passage_data.LABELS[most]!r} has an accuracy "
            f"of {100 * counts[most] / len(labels):.1f} %."
        )
    else:
        share = 100 * passage_words.reachable(task.test)
        lines.append(
            f"Vocabulary and passages, as they are cut, have the words of "
            f"{share:.1f} % of the test answers."
        )
    if len(data.train) < FEW:
        # Of a share near one half, where it is largest.
        error = 100 * 0.5 / np.sqrt(len(data.test))
        lines.append(
            f"Small data: {len(data.train):,} questions to train on, "
            f"{len(data.test):,} to test. The scores show that the parts work; "
            "they do not rank the models: the standard error of a share of "
            f"test questions alone is up to {error:.1f} points."
        )
    return "\n".join(lines)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("--data-dir", required=True, help="see passage_data.py")
    add("--dataset", choices=passage_data.DATASETS, required=True)
    models, ablations = passage_models.MODELS, passage_models.ABLATIONS
    names = {"choices": (*models, *ablations), "default": list(models)}
    add("--models", nargs="+", **names)
    add("--seeds", nargs="+", type=integer(0), default=[1, 2, 3])
    add(
        "--output",
        type=Path,
        default=Path("runs/passage_questions.csv"),
    )
    add("--epochs", type=positive, default=30)
    add("--patience", type=positive, default=4, help="epochs without progress")
    add("--units", type=positive, default=128)
    add("--dropout", type=real("[0, 1)"), default=0.3)
    add("--learning-rate", type=real("(0, inf)"), default=1e-3)
    add("--batch-size", type=positive, default=32)
    add("--vocabulary", type=positive, default=5000, help="words to write with")
    add("--question-length", type=positive, default=40, help="tokens kept")
    add("--passage-length", type=positive, default=400, help="tokens kept")
    add("--answer-length", type=positive, default=12, help="with its end")
    add("--vectors", help="GloVe file; default: glove/*.npz of --data-dir")
    add("--embedding-size", type=positive, default=100, help="without vectors")
    share = real("(0, 1]")
    add("--openness-target", type=share, default=0.5, help="of fhe's gates")
    weight, step = real("[0, inf)"), "a step too many"
    add("--sparsity-weight", type=weight, default=0.002, help=step)
    mean = "of the mean entropy of fhe's gates"
    add("--entropy-weight", type=weight, default=1.0, help=mean)
    add("--verbose", type=int, default=0, help="of model.fit")
    args = parser.parse_args(argv)
    if args.dataset == "pubmedqa" and passage_models.NO_POINTER in args.models:
        parser.error(
            "--models: no answers are written for --dataset pubmedqa. "
            f"Received: {passage_models.NO_POINTER}"
        )
    args.vectors = args.vectors or word_vectors.find_vectors(args.data_dir)
    return args


def keys(args: argparse.Namespace) -> list[results.Key]:
    """The `KEY` of each run."""
    return [
        (args.dataset, name, str(seed), settings(args))
        for seed in args.seeds
        for name in args.models
    ]


def main(argv: Sequence[str] | None = None) -> str:
    """Runs the example; returns the table it prints, with its notes."""
    args = parse(argv)
    data = passage_data.load(args.dataset, args.data_dir)
    print(f"{args.dataset}: {passage_data.describe(data)}", flush=True)
    task = prepare(data, args)
    rows = results.ResultsFile(args.output, FIELDS, KEY).do_missing(
        keys(args),
        lambda key, line: train_and_test(
            key["model"], int(key["seed"]), task, args
        ),
    )
    report = f"{table(args.dataset, rows)}\n\n{notes(data, task, args)}"
    print(report)
    return report


if __name__ == "__main__":
    main()
