r"""Is a title real, or was it made by a machine?

    python -m examples.titles.classify
    python -m examples.titles.classify --data-dir DATA --inputs characters \
        --read-out last --export-dir exported/titles \
        --title "On the entropy of black holes"

Trains a recurrent classifier as in "RNNs for arXiv/viXra title classification",
and baselines that know no order of words. Printed, and written to `--output`:
scores on the test titles, and for each `--title` the probability of being
machine-made after each word or character; with pictures of both. `--export-dir`
exports the classifier for TensorFlow Serving: strings in, probability and logit
out.
"""

import argparse
from pathlib import Path

import numpy as np
import tensorflow as tf

from examples.common import arguments
from examples.common import datasets
from examples.common import tables
from examples.titles import data as titles
from examples.titles import encoding
from examples.titles import figures
from examples.titles import models
from examples.titles import scores
from examples.titles import training


def score_table(
    labels: np.ndarray, probabilities: dict[str, np.ndarray]
) -> str:
    """Markdown table of the scores of several models."""
    lines = [["test titles, %", *scores.Scores._fields]]
    for name, found in probabilities.items():
        got = scores.score(labels, found)
        lines.append([name, *(f"{100 * value:.1f}" for value in got)])
    return tables.table(lines)


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = arguments.parser(__doc__)
    add = parser.add_argument
    judged = "a title to be judged, may be repeated; two of the test titles"
    add("--data-dir", type=arguments.folder, help="has titles/")
    add("--train-size", type=int, help="training titles; default all")
    add("--inputs", choices=list(encoding.LENGTHS), default="words")
    add("--units", type=int, default=64)
    add("--read-out", choices=list(models.READ_OUTS), default="max")
    add("--embedding-size", type=int, default=256, help="word vectors")
    add("--epochs", type=int, default=3)
    add("--batch-size", type=int, default=128)
    add("--learning-rate", type=float, default=2e-3)
    add("--seed", type=int, default=0)
    add("--title", action="append", default=[], help=judged)
    add("--output", type=Path, default=Path("runs/titles"))
    add("--export-dir", help="export the classifier to this folder")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> str:
    """Runs the example; returns what it prints in the end."""
    args = parse(argv)
    args.output.mkdir(parents=True, exist_ok=True)
    data = titles.load(args.data_dir)
    chosen = datasets.choose(data.train, args.train_size, args.seed)
    data = data._replace(train=chosen)
    settings = models.Settings(
        inputs=args.inputs,
        units=args.units,
        initial_state="learned",
        read_out=args.read_out,
        embedding_size=args.embedding_size,
    )
    fit = training.Fit(
        args.epochs, args.batch_size, args.seed, args.learning_rate
    )
    length = encoding.LENGTHS[args.inputs]
    trained = training.train(data, settings, fit, length)
    test = data.test
    probabilities = {"recurrent": trained.probabilities(test.texts)}
    for name in scores.NAMES:
        baseline = scores.fit_baseline(name, data.train, args.seed)
        found = scores.probabilities(baseline, test.texts)
        probabilities[name.replace("_", " ")] = found
    # By default the first real title, and the first machine-made one.
    judged = args.title or [
        test.texts[list(test.labels).index(label)] for label in (0, 1)
    ]
    read = [figures.read(trained, title) for title in judged]
    content = tables.publish(
        score_table(test.labels, probabilities),
        *(found.table() for found in read),
    )
    (args.output / "scores.md").write_text(content, encoding="utf8")
    drawn = {"roc": figures.draw_roc(test.labels, probabilities)}
    for number, found in enumerate(read, start=1):
        if found.tokens:
            drawn[f"title_{number}"] = figures.draw_answers(found)
            drawn[f"title_{number}_units"] = figures.draw_units(trained, found)
    for name, figure in drawn.items():
        figure.savefig(args.output / f"{name}.png", dpi=150)
    print("Pictures:", *(f"{args.output / name}.png" for name in drawn))
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
