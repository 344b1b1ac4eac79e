"""How a BiLSTM's states are pooled, and where in a text the words are.

    python -m examples.pooling.compare --data-dir DATA --sizes 1000 10000

Reproduces table 1.3 of "Analyzing the Learnability and Representability of
Recurrent Architectures", its IMDb part or any other data set of
`examples/common/datasets.py`. In the settings left, mid and right a text keeps
that place between random Wikipedia sentences, which are `--share` of all
tokens in training, validation and test texts. The sentences of the three
parts differ.

In standard a text is cut to `--max-length` tokens, 400. With noise it is cut
first, to 136, so that with its noise it has no more than 400: a part of what
accuracy loses is what the cut takes away. The setting short is the control:
the same 136 tokens without noise. The paper has no numbers for it.

The authors' public code starts the forget gates of pooled models with a bias
about 0 and those of a plain BiLSTM with 2 (`--forget-bias`), and trains with
`--learning-rate 0.001`; the defaults are Keras' 1 and the thesis' 0.002.

The seed draws training texts, weights, noise of the training texts and the
order of batches. The best epoch on the validation part is tested. Each finished
run is a line of `--output`, a CSV file, and is not repeated; a run that was
killed starts again. `--markdown` writes the table of all runs with the same
settings.
"""

import argparse
import csv
import time
from collections.abc import Sequence
from pathlib import Path

import keras
import numpy as np

from examples.common import results
from examples.common import word_vectors
from examples.common.arguments import integer
from examples.common.arguments import real
from examples.common.epoch_line import EpochLine
from examples.pooling import classifiers
from examples.pooling import experiments
from examples.pooling import noisy_texts
from examples.pooling import thesis
from keras_seqmech.analysis import gradients

PAPER_NAME = "tables 1.2, 1.3 and 1.6 (5 seeds)"
KEY = experiments.KEY
FIELDS = (
    *KEY,
    *experiments.RESULTS,
    "vanishing_ratio",
    *experiments.COSTS,
)
CURVE = ("step", "vanishing_ratio", "accuracy", "val_accuracy")
PROBE = 32
FITTED = 0.95


def train_and_test(
    name: str,
    seed: int,
    data: noisy_texts.StudyData,
    args: argparse.Namespace,
    line: str,
    curve: Path | None = None,
) -> tuple[dict, keras.Model]:
    """Trains and tests one model.

    Args:
        name: One of `classifiers.BILSTMS`.
        seed: Of weights and of the order of texts.
        data: Texts.
        args: Of the command line.
        line: What the lines of progress start with.
        curve: CSV file for the vanishing ratio over steps.

    Returns:
        The results of the run, and the model with its best weights.
    """
    keras.utils.clear_session()
    keras.utils.set_random_seed(seed)
    matrix = word_vectors.embedding_matrix(
        data.words, args.vectors, args.embedding_size, seed
    )
    model = classifiers.bilstm_classifier(
        name, matrix, len(data.classes), args.units, args.forget_bias
    )
    classifiers.compile_classifier(model, args.learning_rate)
    callbacks: list[keras.callbacks.Callback] = [EpochLine(line)]
    if args.vanishing or args.vanishing_every:
        ratio = vanishing_callback(data, args.vanishing_every)
        callbacks.insert(0, ratio)  # Its value is in the line.
    start = time.perf_counter()
    history = classifiers.fit(
        model,
        data,
        seed,
        args.epochs,
        args.batch_size,
        args.patience,
        callbacks,
    )
    row = {
        **experiments.summary(history),
        "test_accuracy": experiments.percent(
            classifiers.accuracy(model, data.test)
        ),
        "vanishing_ratio": fitted_ratio(history),
        "parameters": model.count_params(),
        "seconds": round(time.perf_counter() - start, 1),
    }
    if curve and args.vanishing_every:
        write_curve(curve, ratio.history, history)
    return row, model


def vanishing_callback(
    data: noisy_texts.StudyData, every: int
) -> gradients.VanishingRatio:
    """Measures the vanishing ratio on texts that are always the same."""
    probe = data.train.take(range(min(PROBE, len(data.train.ids))))
    ids = noisy_texts.pad(probe.ids)
    return gradients.VanishingRatio(
        ids, probe.labels, layer="rnn", mask=ids != 0, every=every or None
    )


def fitted_ratio(history: dict[str, list[float]]) -> str:
    """The vanishing ratio once training accuracy is 95 %, "" if unknown."""
    fitted = np.flatnonzero(np.array(history["accuracy"]) >= FITTED)
    if "vanishing_ratio" not in history or not fitted.size:
        return ""
    return f"{history['vanishing_ratio'][fitted[0]]:.3g}"


def write_curve(path: Path, ratios: dict, history: dict) -> None:
    """Writes ratios by step, and accuracies where an epoch ends.

    Args:
        path: A CSV file.
        ratios: `VanishingRatio.history`.
        history: Of `fit`.
    """
    epochs = len(history["accuracy"])
    ends = ratios["step"][-1] // epochs * np.arange(1, epochs + 1)
    accuracies = dict(
        zip(ends.tolist(), zip(history["accuracy"], history["val_accuracy"]))
    )
    rows = [
        (step, ratio, *accuracies.get(step, ("", "")))
        for step, ratio in zip(ratios["step"], ratios["vanishing_ratio"])
    ]
    with open(path, "w", newline="", encoding="utf8") as file:
        csv.writer(file).writerows([CURVE, *rows])


def vanishing_table(
    dataset: str, rows: Sequence[dict], names: Sequence[str]
) -> str:
    """Markdown table of vanishing ratios, as table 1.2; "" if there are none.

    Ratios are those at the end of the first epoch whose training accuracy was
    95 %; of several seeds their geometric mean is shown.
    """
    rows = [row for row in rows if row["vanishing_ratio"]]

    def cell(own):
        ratios = [float(row["vanishing_ratio"]) for row in own]
        mean = f"{np.exp(np.mean(np.log(ratios))):.2g}" if ratios else ""
        return f"{mean} ({len(own)})" if own else ""

    def paper(*column_and_name):
        return thesis.vanishing_ratio(dataset, *column_and_name)

    return (
        experiments.grid("vanishing ratio", rows, names, cell, paper)
        if rows
        else ""
    )


def note_missing_ratios(args: argparse.Namespace) -> None:
    """Warns about finished runs that lack the requested ratio."""
    file = results.ResultsFile(Path(args.output), FIELDS, KEY)
    rows = experiments.rows_like(file, args.dataset, settings_of(args))
    missing = [row for row in rows if not row["vanishing_ratio"]]
    if missing:
        print(
            f"{args.output}: {len(missing)} of {len(rows)} finished runs have "
            "no vanishing ratio. They are not repeated: they ran without "
            f"--vanishing, or never reached {FITTED:.0%} training accuracy.",
            flush=True,
        )


def settings_of(args: argparse.Namespace) -> str:
    """Settings as text; files from before `--forget-bias` do not name it."""
    names = list(experiments.TUNED)
    if args.forget_bias != 1:
        names.append("forget_bias")
    return experiments.describe_settings(args, names)


def keys(args: argparse.Namespace) -> list[results.Key]:
    """The `KEY` of each run that the command line asks for."""
    return experiments.keys(args, args.models, settings_of(args))


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    experiments.add_arguments(parser)
    add(
        "--models",
        nargs="+",
        choices=classifiers.BILSTMS,
        default=list(thesis.MODELS),
    )
    add("--forget-bias", type=real("[-10, 10]"), default=1.0, help="at first")
    add("--output", default="runs/pooling_compare.csv")
    add("--vanishing", action="store_true", help="ratio at ends of epochs")
    add("--vanishing-every", type=integer(0), default=0, help="steps; 0: never")
    args = parser.parse_args(argv)
    args.vectors = args.vectors or word_vectors.find_vectors(args.data_dir)
    return args


def main(argv: Sequence[str] | None = None) -> str:
    """Runs the study; returns the table it prints."""
    args = parse(argv)
    if args.vanishing or args.vanishing_every:
        note_missing_ratios(args)
    rows = experiments.do_runs(args, keys(args), FIELDS, train_and_test)
    names = classifiers.BILSTMS

    def paper(*column_and_name):
        return thesis.pooling_accuracy(args.dataset, *column_and_name)

    accuracies = experiments.table(rows, names, paper)
    ratios = vanishing_table(args.dataset, rows, names)
    content = "\n\n".join(filter(None, [accuracies, ratios]))
    return experiments.report(
        args, settings_of(args), rows, content, PAPER_NAME
    )


if __name__ == "__main__":
    main()
