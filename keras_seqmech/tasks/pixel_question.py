"""Pixel-by-pixel questions: is this image, read a pixel at a time, a 7?

Source: "Focused Hierarchical RNNs for Conditional Sequence Processing",
pixel-by-pixel MNIST QA task.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from keras_seqmech.core import checks
from keras_seqmech.tasks import stream
from keras_seqmech.tasks.stream import check_integers

CLASSES = 10
TEST_DIGITS = 360

Examples = tuple[dict[str, np.ndarray], np.ndarray]
Images = tuple[np.ndarray, np.ndarray]


def load_digits() -> tuple[Images, Images]:
    """The 1,797 digits of 8x8 pixels that scikit-learn ships.

    Returns:
        `(x_train, y_train), (x_test, y_test)`: float32 `(N, 8, 8)` in [0, 1]
        and int32 `(N,)`; 360 of them, always the same, are the test part.

    Raises:
        ImportError: If scikit-learn is missing.
    """
    try:
        from sklearn import datasets
    except ImportError as error:
        raise ImportError(
            "`load_digits` needs scikit-learn; install it with "
            "`pip install '.[examples]'` in the checkout of keras_seqmech."
        ) from error
    digits = datasets.load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    images = (digits.images[order] / 16.0).astype("float32")
    labels = digits.target[order].astype("int32")
    train, test = slice(TEST_DIGITS, None), slice(TEST_DIGITS)
    return (images[train], labels[train]), (images[test], labels[test])


def load_mnist(data_dir: str | Path) -> tuple[Images, Images]:
    """MNIST from `mnist/mnist.npz` in a directory of data sets.

    Args:
        data_dir: The directory. The file has the arrays `x_train`, `y_train`,
            `x_test` and `y_test`, pixels from 0 to 255.

    Returns:
        As `load_digits`, `(N, 28, 28)`; 60,000 and 10,000 images if the file
        is whole.

    Raises:
        FileNotFoundError: If the file is missing.
        ValueError: If it lacks an array.
    """
    path = Path(data_dir, "mnist", "mnist.npz")
    if not path.is_file():
        raise FileNotFoundError(
            "Argument `data_dir` must be a folder that holds mnist/mnist.npz. "
            f"Received: data_dir={str(data_dir)!r}"
        )
    with np.load(path) as arrays:
        names = ("x_train", "y_train", "x_test", "y_test")
        if not set(names) <= set(arrays.files):
            raise ValueError(
                f"{path}: must hold {names}. Received: {tuple(arrays.files)}"
            )
        loaded = [arrays[name] for name in names]
    for i in (0, 2):
        loaded[i] = loaded[i].astype("float32") / 255
        loaded[i + 1] = loaded[i + 1].astype("int32")
    return (loaded[0], loaded[1]), (loaded[2], loaded[3])


def examples(images: Any, labels: Any, seed: int = 0) -> Examples:
    """One question for each image: is it this digit?

    Half of the images, rounded to whole ones, are asked for their own digit,
    the others for another.

    Args:
        images: `(N, H, W)`.
        labels: The digits, ints `(N,)` from 0 to 9.
        seed: Non-negative int; the same seed gives the same questions.

    Returns:
        `{"pixels": float32 (N, H * W, 1), "digit": int32 (N,)}, int32 (N,)`:
        pixels row by row, the digit of the question, and 1 for yes, 0 for no.

    Example:

    >>> asked, answer = examples(np.zeros((4, 8, 8)), [1, 2, 3, 4])
    >>> asked["pixels"].shape, asked["digit"].shape, int(answer.sum())
    ((4, 64, 1), (4,), 2)
    """
    images, labels = _check(images, labels)
    seed = checks.check_not_negative_int("seed", seed)
    return _ask(np.random.default_rng(seed), images, labels)


def dataset(
    images: Any,
    labels: Any,
    batch_size: int,
    seed: int = 0,
    start: int = 0,
) -> tf.data.Dataset:
    """Batches without an end; each epoch has a new order and new questions.

    For `fit` with `steps_per_epoch`. An epoch depends on `seed` and its number
    alone; its last batch may be smaller.

    Args:
        images: As in `examples`.
        labels: As in `examples`.
        batch_size: Examples a batch.
        seed: Non-negative int.
        start: Number of the first epoch, so that a resumed training continues.

    Returns:
        Data set of `({"pixels", "digit"}, answer)`, shapes and types as in
        `examples`.
    """
    images, labels = _check(images, labels)
    size = checks.check_positive_int("batch_size", batch_size)

    def draw(generator: np.random.Generator, epoch: int) -> Iterator[Examples]:
        order = generator.permutation(len(labels))
        asked, answers = _ask(generator, images[order], labels[order])
        for i in range(0, len(labels), size):
            part = {key: x[i : i + size] for key, x in asked.items()}
            yield part, answers[i : i + size]

    return stream.dataset(draw, seed, start)


def _ask(
    generator: np.random.Generator, images: np.ndarray, labels: np.ndarray
) -> Examples:
    count = len(labels)
    positive = generator.permutation(np.arange(count) < round(count / 2))
    others = (labels + generator.integers(1, CLASSES, size=count)) % CLASSES
    asked = {
        "pixels": images.reshape(count, -1, 1),
        "digit": np.where(positive, labels, others).astype("int32"),
    }
    return asked, positive.astype("int32")


def _check(images: Any, labels: Any) -> tuple[np.ndarray, np.ndarray]:
    images = np.asarray(images, "float32")
    labels = check_integers("labels", labels, 1, 0, CLASSES - 1)
    if images.ndim != 3 or not images.size:
        raise ValueError(
            "Argument `images` must have the shape (N, height, width). "
            f"Received: images of shape {images.shape}"
        )
    if labels.shape != images.shape[:1]:
        raise ValueError(
            "Argument `labels` must have one digit for each image. "
            f"Received: labels of shape {labels.shape} for {len(images)} images"
        )
    return images, labels.astype("int32")
