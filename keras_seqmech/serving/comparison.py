"""Whether an exported model answers as the model does."""

import numpy as np
import tensorflow as tf

from keras_seqmech.layers.sublayers import sublayers

_TOLERANCES = {
    "float64": 1e-9,
    "float32": 1e-5,
    "float16": 1e-2,
    "bfloat16": 5e-2,
}
# Of ids, labels and other whole numbers, where 16 bits decide.
_TIPPED_SHARE = 0.01


def compare(served, expected, model) -> None:
    """Refuses answers that differ by more than rounding at their scale."""
    tolerance = max(
        _TOLERANCES.get(part.compute_dtype, 0.0) for part in sublayers(model)
    )
    for name, here in expected.items():
        found = difference(here, served[name], tolerance)
        if found:
            raise RuntimeError(
                "The exported model does not answer as `model` does here; no "
                f"version was written. {_guess(tolerance)} "
                f"Received: output {name!r} with {found}"
            )


def _guess(tolerance) -> str:
    if tolerance >= _TOLERANCES["float16"]:
        return (
            "Does rounding to 16 bits decide its answers? Then export it "
            "under a float32 policy, or give other `example_inputs`."
        )
    return (
        "Does it depend on Python state, or on random numbers drawn without "
        "a `keras.random.SeedGenerator`?"
    )


def difference(here, there, tolerance) -> str:
    """Says where two answers differ; nothing if they do not."""
    if here.shape != there.shape:
        return f"shape={there.shape} exported, shape={here.shape} here"
    labels = not tf.as_dtype(here.dtype).is_floating
    if not labels:
        here, there = here.astype("float64"), there.astype("float64")
        labels = np.array_equal(here, np.rint(here)) and np.array_equal(
            there, np.rint(there)
        )
        scale = np.max(np.abs(here), initial=0.1, where=np.isfinite(here))
        same = np.isclose(
            there, here, rtol=0.0, atol=tolerance * scale, equal_nan=True
        )
    else:
        same = np.asarray(here == there)
    # Rounding to 16 bits tips near ties between labels, or between sizes.
    tips = labels and tolerance >= _TOLERANCES["float16"]
    if np.sum(~same) <= (max(1, _TIPPED_SHARE * same.size) if tips else 0):
        return ""
    first = tuple(map(int, np.argwhere(~same)[0]))
    return f"{there[first]} exported, {here[first]} here, at {first}"
