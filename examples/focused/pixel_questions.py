"""Pixel-by-pixel questions: is this image of a digit, read row by row, a 7?

    python -m examples.focused.pixel_questions
    python -m examples.focused.pixel_questions --mnist --data-dir DATA \
        --start-size 14

Trains one and two stacked LSTMs and the focused hierarchical encoder on
questions about the 8x8 digits of scikit-learn, or with `--mnist` about those
of `mnist/mnist.npz`, half of them to be answered yes. Prints test accuracies
beside those of "Focused Hierarchical RNNs for Conditional Sequence
Processing" on MNIST, openness and times: `--markdown` writes the table.

With `--start-size` training begins with small images, whose pixels are means of
squares of pixels, and goes on with the whole ones after `--growing-share` of
the steps: a few hundred pixels teach a model what to look for sooner, and gates
that are already worth their cost do not close. Tests and
the time of inference are always on the whole images; the median time of a
training step is over both.

Models (`examples/focused/models.py`; here the result of attention is also
multiplied with the question), what open gates cost, `--output` and the handling
of killed runs are as in `examples/focused/picking.py`. The test questions are
fixed, `--test-size` of them at most; the training ones are new in each pass
over the images.
"""

import argparse
import functools
import sys
from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from examples.common import results
from examples.common import tables
from examples.common.arguments import positive
from examples.common.arguments import real
from examples.focused import experiments
from examples.focused import models
from keras_seqmech.tasks import pixel_question

KEY = experiments.KEY
GROWTH_SETTINGS = ("start_size", "growing_share")
PAPER_MNIST = {"lstm1": 97.3, "lstm2": 98.4, "fhe": 99.1}
ANSWERS = 2
TEST_SEED = 10**6


def build(
    name: str, estimator: str, size: int, args: argparse.Namespace
) -> keras.Model:
    """A model that is given `pixels`, `size` of them, and a `digit`.

    With `--start-size` there may be fewer pixels.
    """
    pixels = None if args.start_size else size
    inputs = {
        "pixels": keras.Input((pixels, 1), name="pixels"),
        "digit": keras.Input((), dtype="int32", name="digit"),
    }
    asked = keras.layers.Embedding(
        pixel_question.CLASSES,
        args.units,
        # Small random vectors take long to tell one digit from another.
        keras.initializers.RandomUniform(-1, 1),
        name="question",
    )
    return models.build(
        name,
        inputs,
        inputs["pixels"],
        asked(inputs["digit"]),
        ANSWERS,
        size,
        estimator,
        args,
        compare=True,
    )


def batches(
    images: np.ndarray,
    labels: np.ndarray,
    args: argparse.Namespace,
    seed: int,
    step: int,
) -> tf.data.Dataset:
    """Training batches from a step on, endless: first of small images."""

    def whole(images, step):
        epoch, skipped = divmod(step, -(-len(labels) // args.batch_size))
        return pixel_question.dataset(
            images, labels, args.batch_size, seed, start=epoch
        ).skip(skipped)

    start = round(args.growing_share * args.steps) if args.start_size else 0
    if step >= start:
        return whole(images, step)
    small = whole(averaged(images, args.start_size), step)
    return small.take(start - step).concatenate(whole(images, start))


def averaged(images: np.ndarray, size: int) -> np.ndarray:
    """Images `(N, size, size)`, their pixels means of squares of pixels.

    Args:
        images: `(N, H, H)`.
        size: A divisor of H.

    >>> averaged(np.arange(16.0).reshape(1, 4, 4), 2).tolist()
    [[[2.5, 4.5], [10.5, 12.5]]]
    """
    count, height, width = images.shape
    parts = images.reshape(count, size, height // size, size, width // size)
    return parts.mean(axis=(2, 4))


def check_start_size(size: int | None, images: np.ndarray) -> None:
    """Ends the program if images cannot be made that small."""
    height, width = images.shape[1:]
    if size and (height % size or width % size):
        sys.exit(
            f"--start-size: must divide the size of the images, {height} x "
            f"{width}. Received: {size}"
        )


def own_settings(args: argparse.Namespace) -> tuple[str, ...]:
    """Names of this task's settings, none without a start of its own."""
    return GROWTH_SETTINGS if args.start_size else ()


def keys(args: argparse.Namespace) -> list[results.Key]:
    """The `KEY` of each run."""
    task = "mnist" if args.mnist else "digits"
    return experiments.keys(args, task, own_settings(args))


def runs_table(rows: Sequence[dict], args: argparse.Namespace) -> str:
    """Markdown table of what was trained."""
    lines = [
        f"{'MNIST' if args.mnist else '8x8 digits'} | accuracy % "
        "| slides, MNIST % | drawn % | openness % | steps | training ms a step "
        "| inference ms a batch | seeds".split(" | ")
    ]
    for kind, own in experiments.kinds(rows).items():
        lines.append(
            [
                experiments.kind_name(kind),
                tables.mean(own, "accuracy"),
                PAPER_MNIST[kind[0].removesuffix("_last")],
                tables.mean(own, "drawn_accuracy"),
                tables.mean(own, "openness"),
                tables.mean(own, "steps", ".0f"),
                tables.mean(own, "train_ms", ".0f"),
                tables.mean(own, "inference_ms", ".0f"),
                len(own),
            ]
        )
    return tables.table(lines)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    experiments.add_arguments(parser, "pixel_questions")
    parser.set_defaults(learning_rate=2e-3, steps=8000)
    parser.set_defaults(sparsity_weight=1.0, indecision_weight=2.0)
    add("--mnist", action="store_true", help="28x28 digits of --data-dir")
    add("--data-dir", help="holds mnist/mnist.npz")
    small = "height of the images at first; default: whole ones"
    add("--start-size", type=positive, help=small)
    share = "of the steps, with --start-size"
    add("--growing-share", type=real("(0, 1)"), help=f"{share}; default: 0.5")
    args = experiments.complete(parser, parser.parse_args(argv))
    if args.growing_share is not None and not args.start_size:
        parser.error(
            f"--growing-share: needs --start-size. Received: "
            f"{args.growing_share}"
        )
    args.growing_share = args.growing_share or 0.5
    if args.mnist and not args.data_dir:
        parser.error("--mnist: needs --data-dir")
    return args


def main(argv: Sequence[str] | None = None) -> str:
    """Does the runs; returns the table it prints."""
    args = parse(argv)
    train, test = (
        pixel_question.load_mnist(args.data_dir)
        if args.mnist
        else pixel_question.load_digits()
    )
    check_start_size(args.start_size, train[0])
    test = [array[: args.test_size] for array in test]
    rows = experiments.do_runs(
        args,
        keys(args),
        experiments.Task(
            functools.partial(build, size=train[0][0].size, args=args),
            functools.partial(batches, *train, args),
            pixel_question.examples(*test, TEST_SEED),
        ),
    )
    return experiments.report(
        args, [runs_table(rows, args)], own_settings(args)
    )


if __name__ == "__main__":
    main()
