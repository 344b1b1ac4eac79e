"""Pixel-by-pixel questions: is this image of a digit, read row by row, a 7?

    python -m examples.focused.pixel_questions
    python -m examples.focused.pixel_questions --mnist --data-dir DATA \
        --start-size 14

Trains LSTMs and the focused hierarchical encoder on questions about the 8x8
digits of scikit-learn, or with `--mnist` about those of `mnist/mnist.npz`, half
of them to be answered yes. The training questions are new in each pass over the
images. With `--start-size` training begins with small images, whose pixels are
means of squares of pixels, and goes on with the whole ones after half of the
steps.

Models, gates and `--output` are as in `examples/focused/picking.py`; here the
result of attention is also multiplied with the question.
"""

import argparse
import functools

import keras
import numpy as np
import tensorflow as tf

from examples.focused import experiments
from examples.focused import models
from examples.tasks import pixel_question

# Of the steps, with `--start-size`.
SMALL_SHARE = 0.5
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
    # Small random vectors take long to tell one digit from another.
    uniform = keras.initializers.RandomUniform(-1, 1)
    questions = keras.layers.Embedding(
        pixel_question.CLASSES, args.units, uniform, name="question"
    )
    read = inputs["pixels"], questions(inputs["digit"])
    asked = models.Asked(inputs, *read, ANSWERS, compare=True)
    return models.build(name, estimator, asked, args)


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

    start = round(SMALL_SHARE * args.steps) if args.start_size else 0
    if step >= start:
        return whole(images, step)
    small = whole(averaged(images, args.start_size), step)
    return small.take(start - step).concatenate(whole(images, start))


def averaged(images: np.ndarray, size: int) -> np.ndarray:
    """Images `(N, size, size)`, their pixels means of squares of pixels.

    `size` divides the images' own.

    >>> averaged(np.arange(16.0).reshape(1, 4, 4), 2).tolist()
    [[[2.5, 4.5], [10.5, 12.5]]]
    """
    count, height, width = images.shape
    parts = images.reshape(count, size, height // size, size, width // size)
    return parts.mean(axis=(2, 4))


def options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    experiments.options(parser)
    parser.set_defaults(learning_rate=2e-3, steps=8000)
    parser.set_defaults(sparsity_weight=1.0, indecision_weight=2.0)
    add("--mnist", action="store_true", help="28x28 digits of --data-dir")
    small = "height of the images at first; default: whole ones"
    add("--start-size", type=int, help=small)


def check(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    if args.mnist:
        args.indecision_weight = 0.5
    experiments.check(parser, args)


def load(args: argparse.Namespace) -> experiments.Task:
    train, test = (
        pixel_question.load_mnist(args.data_dir)
        if args.mnist
        else pixel_question.load_digits()
    )
    height, width = train[0].shape[1:]
    test = [array[: args.test_size] for array in test]
    return experiments.Task(
        functools.partial(build, size=height * width, args=args),
        functools.partial(batches, *train, args),
        pixel_question.examples(*test, TEST_SEED),
    )


PROGRAM = experiments.study(
    lambda args: "mnist" if args.mnist else "digits",
    doc=__doc__,
    output="runs/pixel_questions.csv",
    options=options,
    check=check,
    needs_data=lambda args: args.mnist,
    settings=("start_size",),
    load=load,
)

if __name__ == "__main__":
    PROGRAM.main()
