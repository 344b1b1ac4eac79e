"""Pixel-by-pixel questions: is this image, read a pixel at a time, a 7?

Source: "Focused Hierarchical RNNs for Conditional Sequence Processing",
pixel-by-pixel MNIST QA task.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import tensorflow as tf
from sklearn import datasets

from examples.tasks import stream
from examples.tasks.stream import Seed

CLASSES = 10
TEST_DIGITS = 360

Examples = tuple[dict[str, np.ndarray], np.ndarray]
Images = tuple[np.ndarray, np.ndarray]


def load_digits() -> tuple[Images, Images]:
    """The 1,797 digits of 8x8 pixels that scikit-learn ships.

    Returns training and test part: float32 `(N, 8, 8)` in [0, 1] and int32
    `(N,)`; 360 of them, always the same, are the test part.
    """
    digits = datasets.load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    images = (digits.images[order] / 16.0).astype("float32")
    labels = digits.target[order].astype("int32")
    train, test = slice(TEST_DIGITS, None), slice(TEST_DIGITS)
    return (images[train], labels[train]), (images[test], labels[test])


def load_mnist(data_dir: str | Path) -> tuple[Images, Images]:
    """MNIST from `mnist/mnist.npz`, as `load_digits`."""
    with np.load(Path(data_dir, "mnist", "mnist.npz")) as arrays:
        train, test = (
            (
                arrays[f"x_{part}"].astype("float32") / 255,
                arrays[f"y_{part}"].astype("int32"),
            )
            for part in ("train", "test")
        )
    return train, test


def examples(
    images: np.ndarray, labels: np.ndarray, seed: Seed = 0
) -> Examples:
    """One question for each image, and 1 for yes, 0 for no.

    Half of the images, rounded to whole ones, are asked for their own digit,
    the others for another. Pixels come row by row.
    """
    generator = np.random.default_rng(seed)
    count = len(labels)
    positive = generator.permutation(np.arange(count) < round(count / 2))
    others = (labels + generator.integers(1, CLASSES, size=count)) % CLASSES
    asked = {
        "pixels": images.reshape(count, -1, 1),
        "digit": np.where(positive, labels, others).astype("int32"),
    }
    return asked, positive.astype("int32")


def dataset(
    images: np.ndarray,
    labels: np.ndarray,
    batch_size: int,
    seed: int = 0,
    start: int = 0,
) -> tf.data.Dataset:
    """Batches without an end; each epoch has a new order and new questions.

    An epoch depends on `seed` and its number alone, which `start` is for the
    first one; its last batch may be smaller.
    """

    def draw(generator: np.random.Generator, epoch: int) -> Iterator[Examples]:
        order = generator.permutation(len(labels))
        asked, answers = examples(images[order], labels[order], generator)
        for i in range(0, len(labels), batch_size):
            part = {key: x[i : i + batch_size] for key, x in asked.items()}
            yield part, answers[i : i + batch_size]

    return stream.dataset(draw, seed, start)
