"""Whether an exported model answers as the model does."""

from collections.abc import Mapping

import keras
import numpy as np
import tensorflow as tf

from keras_seqmech.core.graph import sublayers

_TOLERANCES = {
    "float64": 1e-9,
    "float32": 1e-5,
    "float16": 1e-2,
    "bfloat16": 5e-2,
}
# Share of integers, such as ids and labels, that 16-bit rounding may change.
_CHANGED_SHARE = 0.01


def compare(
    signature: str,
    served: Mapping[str, np.ndarray],
    expected: Mapping[str, np.ndarray],
    model: keras.Model,
) -> None:
    """Refuses answers that differ by more than rounding at their scale.

    Args:
        signature: Name of the signature that answered.
        served: Its answers.
        expected: The model's.
        model: The model.
    """
    tolerance = max(
        _TOLERANCES.get(part.compute_dtype, 0.0) for part in sublayers(model)
    )
    for name, here in expected.items():
        found = difference(here, served[name], tolerance)
        if found:
            raise RuntimeError(
                "The exported model does not answer as `model` does here; no "
                "version was written. It must not depend on Python state, on "
                "random numbers drawn without a `keras.random.SeedGenerator`, "
                "nor, given step by step, on steps that it was not given. If "
                "rounding to 16 bits changes its answers, export it under a "
                "float32 policy, or give other `example_inputs`. "
                f"Received: output {name!r} of `{signature}` with {found}"
            )


def difference(here: np.ndarray, there: np.ndarray, tolerance: float) -> str:
    """Says where two answers differ; empty if they do not."""
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
    # Rounding to 16 bits changes near ties between labels, or between sizes.
    may_change = labels and tolerance >= _TOLERANCES["float16"]
    allowed = max(1, _CHANGED_SHARE * same.size) if may_change else 0
    if np.sum(~same) <= allowed:
        return ""
    first = tuple(map(int, np.argwhere(~same)[0]))
    return f"{there[first]} exported, {here[first]} here, at {first}"
