"""Which texts the study of few labels reads: the same for all inputs."""

import argparse

import numpy as np

from examples.common import datasets
from examples.common.arguments import integer
from examples.common.arguments import positive


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options that say which texts there are."""
    add = parser.add_argument
    add("--data-dir", required=True, help="see examples/common/datasets.py")
    add("--dataset", choices=list(datasets.CLASSES), default="imdb")
    add("--per-class", type=positive, default=10, help="training texts")
    add("--seeds", nargs="+", type=integer(0), default=[0, 1, 2, 3, 4])
    add("--validation-size", type=positive, default=400)
    add("--test-size", type=positive, default=1000)


def held_out(
    data: datasets.TextData, validation_size: int, test_size: int
) -> tuple[datasets.Part, datasets.Part]:
    """Validation and test texts, always the same.

    Texts that are training texts as well, word for word, are left out, and of
    test texts those that are validation texts.

    Args:
        data: A data set.
        validation_size: Number of validation texts.
        test_size: Number of test texts.

    Raises:
        ValueError: If there are fewer texts than wanted.
    """
    seen = set(data.train.texts)
    validation = _others(data.validation, seen)
    test = _others(data.test, seen | set(data.validation.texts))
    return (
        _choose("validation", validation, validation_size),
        _choose("test", test, test_size),
    )


def draw(part: datasets.Part, per_class: int, seed: int) -> datasets.Part:
    """Draws as many different texts of each class.

    Args:
        part: Training texts; smaller draws are parts of larger ones.
        per_class: Number of texts of each class.
        seed: Non-negative int.

    Raises:
        ValueError: If a class has fewer texts.
    """
    part = _others(part, set())
    random = np.random.default_rng([seed, 3])
    drawn = []
    for label in np.unique(part.labels):
        own = random.permutation(np.flatnonzero(part.labels == label))
        if len(own) < per_class:
            raise ValueError(
                f"Argument `per_class` must be at most {len(own)}, the number "
                f"of training texts of class {label}. "
                f"Received: per_class={per_class}"
            )
        drawn.append(own[:per_class])
    return _take(part, np.concatenate(drawn))


def _others(part, seen):
    """The texts that are not among those seen, each once."""
    first = {}
    for i, text in enumerate(part.texts):
        if text.strip() and text not in seen:
            first.setdefault(text, i)
    return _take(part, np.array(list(first.values()), dtype=int))


def _choose(name, part, size):
    if not 0 < size <= len(part.texts):
        raise ValueError(
            f"Argument `{name}_size` must be from 1 to {len(part.texts)}, the "
            f"number of {name} texts. Received: {name}_size={size}"
        )
    return datasets.choose(part, size)


def _take(part, indices):
    return datasets.Part([part.texts[i] for i in indices], part.labels[indices])
