"""Requests that a server may get and no client should send."""

import numpy as np
import tensorflow as tf

STRINGS = [
    b"\xff\xfe\x80",  # no UTF-8
    b"\xed\xa0\x80",  # half of a pair, alone
    b"a\x00b",
    b"",
    b" \t\n",
    b"\xf0\x9f\x98\x80" * 200,
    b"x" * 5000,
]
KINDS = (
    "rank",
    "dtype",
    "no steps",
    "no rows",
    "values",
    "size",
    "disagreement",
    "missing",
)
OTHER_DTYPES = ("float64", "int32", "int64", "bool", "string")


def regular(specs: dict[str, tf.TensorSpec], generator, rows=2, steps=4):
    """A request that fits, without masked steps."""

    def draw(spec):
        free = iter((rows, steps))
        shape = [next(free) if n is None else n for n in spec.shape]
        if spec.dtype == tf.string:
            return np.resize(np.array([b"how far", b"ahead"], object), shape)
        if spec.dtype == tf.bool:
            return np.ones(shape, "bool")
        numbers = generator.integers(0, 4, size=shape)
        if spec.dtype.is_floating:
            numbers = generator.normal(size=shape)
        return numbers.astype(spec.dtype.as_numpy_dtype)

    return {name: draw(spec) for name, spec in specs.items()}


def malformed(specs, kind, generator) -> dict[str, np.ndarray]:
    """A request of the model with these inputs that is wrong in one way."""
    feeds = regular(specs, generator)
    name = generator.choice(sorted(feeds))
    if kind == "no steps":
        return regular(specs, generator, steps=0)
    if kind == "no rows":
        return regular(specs, generator, rows=0)
    if kind == "missing":
        feeds.pop(name)
        return feeds
    value = feeds[name]
    if kind == "rank":
        flat = value.reshape(-1)
        others = [value[..., None], value[None], flat[0], flat]
        others = [np.asarray(other, value.dtype) for other in others]
        others = [other for other in others if other.ndim != value.ndim]
        feeds[name] = others[generator.integers(len(others))]
    elif kind == "dtype":
        others = [d for d in OTHER_DTYPES if d != specs[name].dtype.name]
        feeds[name] = _cast(value, generator.choice(others))
    elif kind == "size":
        axis = generator.integers(value.ndim)
        parts = [value] * generator.integers(2, 4)
        feeds[name] = np.concatenate(parts, axis=axis)
    elif kind == "disagreement":
        longer = regular(specs, generator, *generator.integers(1, 9, size=2))
        feeds[name] = longer[name]
    elif kind == "values":
        return {n: _spoilt(x, generator) for n, x in feeds.items()}
    return feeds


def _cast(value, dtype):
    if dtype == "string":
        texts = [str(x).encode() for x in value.flat]
        return np.array(texts, object).reshape(value.shape)
    if value.dtype == object:
        return np.zeros(value.shape, dtype)
    return value.astype(dtype)


def _spoilt(value, generator):
    value = value.copy()
    where = generator.random(value.shape) < 0.5
    if value.dtype == object:
        choices = np.array(STRINGS, object)
    elif value.dtype.kind == "f":
        choices = np.array([np.nan, np.inf, -np.inf, 3e38, -7.0, 0.0, 1e-45])
    elif value.dtype.kind == "b":
        choices = np.array([False])
    else:
        limits = np.iinfo(value.dtype)
        choices = np.array([limits.min, -1, 9, limits.max])
    drawn = generator.choice(choices, size=value.shape)
    value[where] = drawn[where].astype(value.dtype)
    return value
