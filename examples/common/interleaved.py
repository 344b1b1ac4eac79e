"""Times of several functions, measured in turn."""

import functools
import time
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf


def median_ms(functions: Iterable[Callable], repeats: int) -> list[float]:
    """Median milliseconds of each function, all measured in turn.

    What slows the machine for a while then slows all of them. The first call of
    each, which may compile, does not count.
    """
    functions = list(functions)
    for function in functions:
        function()
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(repeats):
        for function, own in zip(functions, times):
            start = time.perf_counter()
            function()
            own.append(1000 * (time.perf_counter() - start))
    return [float(np.median(own)) for own in times]


def inference_ms(
    models: Iterable[keras.Model], x: Any, repeats: int, xla: bool = False
) -> list[float]:
    """Median milliseconds of each model's inference of a batch, in a graph."""
    batch = tf.nest.map_structure(tf.constant, x)
    graphs = [
        tf.function(functools.partial(model, training=False), jit_compile=xla)
        for model in models
    ]
    return median_ms([functools.partial(x, batch) for x in graphs], repeats)


def inference_over(
    model: keras.Model,
    others: Mapping[str, keras.Model],
    x: Any,
    repeats: int,
) -> dict[str, str]:
    """Milliseconds of a model's inference of a batch, and shares of others'.

    Returns:
        "inference_ms", and for each other "over_<name>" and "xla_over_<name>".
    """
    found = {}
    for xla, prefix in ((False, ""), (True, "xla_")):
        own, *times = inference_ms([model, *others.values()], x, repeats, xla)
        if not xla:
            found["inference_ms"] = f"{own:.2f}"
        for name, ms in zip(others, times, strict=True):
            found[f"{prefix}over_{name}"] = f"{own / ms:.3f}"
    return found
