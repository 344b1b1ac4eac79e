r"""Is a title real, or was it made by a machine?

    python -m examples.titles.classify
    python -m examples.titles.classify --data-dir DATA --inputs characters \
        --read-out last --truncate 28 --export-dir exported/titles \
        --title "On the entropy of black holes"

Trains a recurrent classifier as in "RNNs for arXiv/viXra title classification",
and baselines that know no order of words. Without `--data-dir` it reads first
lines of docstrings and imitations of them, see `docstrings.py`; with it,
titles, see `data.py`.

Printed, and written to `--output`: accuracy, precision and recall of both
classes, area under the ROC curve and calibration error on the test titles; and
for each `--title` the probability of being machine-made after each word or
character. There are pictures of the ROC curve, calibration, the confusion
matrix at 0.5, accuracy over training, and for each title of the probability and
of the hidden units over its words. `--export-dir` exports the classifier for
TensorFlow Serving: strings in, probability and logit out.

The source's classifiers are `--units 512 --embedding-size 256 --initial-state
drawn --read-padding`.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from examples.common import datasets
from examples.common import tables
from examples.common.arguments import integer
from examples.common.arguments import positive
from examples.common.arguments import real
from examples.common.epoch_line import EpochLine
from examples.titles import baselines
from examples.titles import data as titles
from examples.titles import encoding
from examples.titles import figures
from examples.titles import models
from examples.titles import reading
from examples.titles import scores
from examples.titles import training


def score_table(
    labels: np.ndarray, probabilities: dict[str, np.ndarray]
) -> str:
    """Markdown table of the scores of several models."""
    header = (
        "test titles | accuracy % | AUC | real: precision, recall % | "
        "machine-made: precision, recall % | calibration error %"
    )
    lines = [header.split(" | ")]
    for name, found in probabilities.items():
        got = scores.score(labels, found)
        lines.append(
            [
                name,
                f"{100 * got.accuracy:.1f}",
                f"{got.auc:.3f}",
                f"{100 * got.precision_real:.1f}, {100 * got.recall_real:.1f}",
                f"{100 * got.precision_made:.1f}, {100 * got.recall_made:.1f}",
                f"{100 * got.calibration_error:.1f}",
            ]
        )
    return tables.table(lines)


def describe(trained: training.Trained, title: str) -> str:
    """What a classifier says of a title, step by step."""
    found = reading.read(trained, title)
    return (
        f"{reading.shorten(title, 80)!r}: machine-made with probability "
        f"{found.probability:.3f}\n{found.table()}"
    )


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--data-dir", help="with titles/; default: docstrings")
    add("--train-size", type=positive, help="training titles; default all")
    add("--inputs", choices=list(encoding.LENGTHS), default="words")
    add("--units", type=positive, default=64)
    add("--initial-state", choices=models.INITIAL_STATES, default="learned")
    add("--read-out", choices=models.READ_OUTS, default="max")
    add("--embedding-size", type=positive, default=256, help="of words")
    add(
        "--read-padding",
        action="store_true",
        help="read the padding as real steps",
    )
    add("--epochs", type=positive, default=3)
    add("--batch-size", type=positive, default=128)
    add("--learning-rate", type=real("(0, inf)"), default=2e-3)
    add(
        "--truncate",
        type=positive,
        metavar="N",
        help="backpropagate through chunks of N steps; read-out last",
    )
    add("--seed", type=integer(0), default=0)
    add(
        "--title",
        action="append",
        default=[],
        help="a title to be judged, may be repeated; two of the test titles",
    )
    add("--output", type=Path, default=Path("runs/titles"))
    add("--export-dir", help="export the classifier to this folder")
    args = parser.parse_args(argv)
    if args.truncate and args.read_out != "last":
        parser.error(
            "--truncate needs --read-out last. "
            f"Received: --read-out {args.read_out}"
        )
    return args


def train(
    args: argparse.Namespace, data: datasets.TextData
) -> training.Trained:
    """Trains the classifier that the command line asks for."""
    settings = models.Settings(
        inputs=args.inputs,
        units=args.units,
        initial_state=args.initial_state,
        read_out=args.read_out,
        embedding_size=args.embedding_size,
        read_padding=args.read_padding,
    )
    fit = training.Fit(
        epochs=args.epochs,
        batch_size=args.batch_size,
        learning_rate=args.learning_rate,
        seed=args.seed,
        chunk_length=args.truncate,
    )
    length = encoding.LENGTHS[args.inputs]
    return training.train(data, settings, fit, length, [EpochLine("gru")])


def main(argv: Sequence[str] | None = None) -> str:
    """Runs the example; returns what it prints in the end."""
    args = parse(argv)
    for folder in filter(None, (args.output, args.export_dir)):
        Path(folder).mkdir(parents=True, exist_ok=True)
    data = titles.limit(titles.load(args.data_dir), args.train_size, args.seed)
    print(datasets.describe(data), flush=True)
    trained = train(args, data)
    test = data.test
    probabilities = {"recurrent": trained.probabilities(test.texts)}
    for name in baselines.NAMES:
        baseline = baselines.fit_baseline(name, data.train, args.seed)
        probabilities[name.replace("_", " ")] = baselines.probabilities(
            baseline, test.texts
        )
    # By default the first real title, and the first machine-made one.
    judged = args.title or [
        test.texts[list(test.labels).index(label)] for label in (0, 1)
    ]
    content = tables.publish(
        [
            score_table(test.labels, probabilities),
            *(describe(trained, title) for title in judged),
        ],
        args.output / "scores.md",
    )
    paths = [
        *figures.draw_scores(test.labels, probabilities, args.output),
        *figures.draw_training(trained.history, args.output),
        *figures.draw_titles(trained, judged, args.output),
    ]
    print("Pictures:", *paths, sep="\n  ")
    if args.export_dir:
        from keras_seqmech import serving

        path = serving.export_model(
            training.serving_model(trained),
            args.export_dir,
            example_inputs={"title": tf.constant([judged[0], ""])},
        )
        print("Exported to", path)
    return content


if __name__ == "__main__":
    main()
