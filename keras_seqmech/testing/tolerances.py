"""Tolerances of two computations of the same numbers.

Machines round alike, but they do not add in the same order: vector width,
fused multiply-adds, XLA and oneDNN all change it. A tolerance therefore
follows from the dtype and from how many operations lead to a result, never
from the difference that one machine shows.
"""

import math
from typing import Any

import keras
import ml_dtypes
import numpy as np

# Of 0.41 * sqrt(operations) * eps each: see `tolerance`.
DEVIATIONS = 10


def tolerance(dtype: Any, operations: int = 1) -> float:
    """The relative error that rounding alone explains.

    One operation in floating point is wrong by at most half of eps, the
    spacing of numbers at one: evenly spread, with a standard deviation of
    eps / sqrt(12). The errors of n operations in a row add up like the square
    root of n, and both sides of a comparison are rounded, so they differ with
    a standard deviation of sqrt(2 n / 12) * eps. Ten of them are allowed:
    about 4 * sqrt(n) * eps.

    Args:
        dtype: The narrowest dtype in which the two sides are computed.
        operations: Roundings on the longest way from an input to a result:
            terms of sums and products, times the steps of a loop. An exp, log,
            tanh, sigmoid or division counts as about 4. A gradient takes its
            way there and back: twice that of the value.
    """
    return DEVIATIONS * math.sqrt(operations / 6) * epsilon(dtype)


def within(
    dtype: Any, operations: int = 1, scale: float = 1.0
) -> dict[str, Any]:
    """Keywords of `numpy.testing.assert_allclose`.

    Where terms cancel, the error stays that of the terms while the result is
    small: no relative tolerance covers it.

    Args:
        dtype: See `tolerance`.
        operations: See `tolerance`.
        scale: Size of the largest term that goes into a result.
    """
    relative = tolerance(dtype, operations)
    return {"rtol": relative, "atol": relative * float(scale)}


def assert_close(
    found: Any,
    expected: Any,
    operations: int = 1,
    dtype: Any = None,
    scale: float | None = None,
) -> None:
    """Asserts that two structures differ by no more than rounding.

    Args:
        found: An array, or a list, tuple or dict of arrays.
        expected: The same structure.
        operations: See `tolerance`.
        dtype: See `tolerance`; by default that of the narrower side.
        scale: See `within`; by default the largest finite number expected, of
            each array.
    """
    keras.tree.assert_same_structure(found, expected)
    pairs = zip(
        keras.tree.flatten_with_path(found), keras.tree.flatten(expected)
    )
    for (path, one), other in pairs:
        one, other = (keras.ops.convert_to_numpy(x) for x in (one, other))
        narrow = dtype or max(one.dtype, other.dtype, key=epsilon)
        size = np.max(np.abs(other), where=np.isfinite(other), initial=0)
        np.testing.assert_allclose(
            one.astype("float64"),
            other.astype("float64"),
            **within(narrow, operations, size if scale is None else scale),
            err_msg="/".join(map(str, path)),
        )


def epsilon(dtype: Any) -> float:
    """Spacing of numbers at one; none of integers and booleans."""
    name = keras.backend.standardize_dtype(dtype)
    if "float" not in name:
        return 0.0
    return float(ml_dtypes.finfo(name).eps)
