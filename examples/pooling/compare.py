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
from keras_seqmech.analysis import gradients

MODELS = ("bilstm", "meanpool", "maxpool", "att", "maxatt")
# IMDb in tables 1.3 and 1.6, in % with 5 seeds: 1K, 2K, 5K, 10K and 20K texts.
PAPER_SIZES = (1000, 2000, 5000, 10000, 20000)
PAPER = {
    "standard": {
        "bilstm": "64.7±2.3 75.0±0.4 83.2±0.4 86.6±0.8 88.7±0.6",
        "meanpool": "73.0±3.0 81.7±0.7 85.4±0.1 87.1±0.6 88.6±0.3",
        "maxpool": "69.0±3.9 80.1±0.5 85.7±0.2 87.8±0.6 89.9±0.3",
        "att": "75.7±2.6 82.8±0.8 86.9±0.7 89.0±0.3 90.3±0.2",
        "maxatt": "75.9±2.2 82.5±0.4 86.1±0.8 88.5±0.5 89.9±0.2",
    },
    "left": {
        "bilstm": "67.6±1.1 74.7±1.2 80.6±0.3 84.5±0.4 87.2±0.4",
        "meanpool": "69.7±3.4 76.6±0.9 81.7±0.7 83.6±1.0 86.5±0.8",
        "maxpool": "68.8±1.2 76.8±1.7 82.2±0.8 86.9±0.9 88.4±0.5",
        "att": "76.5±1.5 79.6±1.1 82.6±0.6 86.9±0.8 88.9±0.5",
        "maxatt": "75.8±1.5 80.6±1.0 84.1±1.5 87.1±0.6 89.1±0.2",
    },
    "mid": {
        "bilstm": "49.6±0.7 49.9±0.5 50.2±0.3 50.3±0.3 50.1±0.3",
        "meanpool": "69.8±2.1 76.2±1.0 82.2±0.7 84.1±0.7 86.5±0.8",
        "maxpool": "64.5±1.8 77.2±2.0 82.9±1.2 86.0±0.8 88.4±0.6",
        "att": "75.0±0.8 79.4±0.8 83.4±1.0 86.7±1.4 88.8±0.2",
        "maxatt": "75.4±2.4 80.9±1.8 84.7±1.3 86.8±0.5 88.7±0.4",
    },
    "right": {
        "bilstm": "53.5±2.5 64.7±2.8 79.7±4.3 85.9±0.5 88.5±0.2",
        "meanpool": "70.0±1.1 76.8±1.0 81.8±0.5 84.8±0.9 87.1±0.3",
        "maxpool": "65.9±4.6 77.8±0.9 84.9±0.8 87.2±0.6 89.3±0.3",
        "att": "74.7±1.4 80.2±1.8 84.7±1.1 87.1±1.0 89.4±0.3",
        "maxatt": "77.9±0.9 81.9±0.5 85.2±0.8 87.2±0.5 89.4±0.3",
    },
}
# Vanishing ratios of table 1.2, in the standard setting.
PAPER_RATIO_SIZES = (1000, 5000, 20000)
PAPER_RATIOS = {
    "bilstm": (3e-4, 0.03, 0.06),
    "meanpool": (1.09, 0.84, 1.02),
    "maxpool": (0.43, 0.46, 0.50),
    "att": (0.58, 0.61, 0.91),
    "maxatt": (0.68, 0.56, 0.72),
}
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

    def paper(setting, size, name):
        known = dataset == "imdb" and setting == "standard"
        if not known or size not in PAPER_RATIO_SIZES:
            return ""
        ratios = PAPER_RATIOS.get(name)
        return f"{ratios[PAPER_RATIO_SIZES.index(size)]:g}" if ratios else ""

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


def paper_accuracy(dataset: str, setting: str, size: int, name: str) -> str:
    """The thesis' number, where it has one."""
    numbers = PAPER.get(setting, {}).get(name)
    if dataset != "imdb" or size not in PAPER_SIZES or not numbers:
        return ""
    number = numbers.split()[PAPER_SIZES.index(size)]
    return number.replace("±", " ± ")


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
        default=list(MODELS),
    )
    add("--forget-bias", type=real("[-10, 10]"), default=1.0, help="at first")
    add("--output", default="results/pooling_compare.csv")
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
        return paper_accuracy(args.dataset, *column_and_name)

    accuracies = experiments.table(rows, names, paper)
    ratios = vanishing_table(args.dataset, rows, names)
    content = "\n\n".join(filter(None, [accuracies, ratios]))
    return experiments.report(
        args, settings_of(args), rows, content, PAPER_NAME
    )


if __name__ == "__main__":
    main()
