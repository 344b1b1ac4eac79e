"""Requests and answers of TensorFlow Serving as numpy arrays."""

import base64
import reprlib
from typing import Any

import numpy as np

_NAMES = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "bfloat16": "float32",
    "string": "object",
}


def numpy_name(dtype: str) -> str:
    """`DT_FLOAT` is `float32`."""
    name = dtype.removeprefix("DT_").lower()
    return _NAMES.get(name, name)


def convert(
    inputs: dict[str, Any], dtypes: dict[str, str]
) -> dict[str, np.ndarray]:
    """Arrays of the dtypes wanted, by name.

    >>> convert({"ids": [[1, 2]]}, {"ids": "int64"})
    {'ids': array([[1, 2]])}

    Args:
        inputs: Arrays or nested lists, by the name of the input.
        dtypes: numpy dtypes by name; `"object"` for strings.

    Raises:
        ValueError: If an input is missing or does not fit its dtype: a
            fraction among integers, lists of several lengths.
    """
    if not isinstance(inputs, dict) or set(inputs) != set(dtypes):
        raise ValueError(
            f"Argument `inputs` must be a dict with the keys {sorted(dtypes)}. "
            f"Received: inputs={reprlib.repr(inputs)}"
        )
    return {name: _array(name, x, dtypes[name]) for name, x in inputs.items()}


def _array(name: str, value: Any, dtype: str) -> np.ndarray:
    """An array of what was given, without loss of fractions or text."""
    try:
        array = np.asarray(value, dtype)
        if array.dtype == object:
            fits = all(isinstance(x, (str, bytes)) for x in array.flat)
        else:
            fits = array.dtype.kind not in "iub" or np.array_equal(array, value)
    except (TypeError, ValueError, OverflowError):
        fits = False
    if not fits:
        kind = "strings" if dtype == "object" else dtype
        raise ValueError(
            f"Argument `inputs` must hold an array of {kind} for {name!r}. "
            f"Received: inputs[{name!r}]={reprlib.repr(value)}"
        )
    return array


def to_json(array: np.ndarray) -> Any:
    """Nested lists; bytes that need not be text go as base 64."""
    if array.dtype != object:
        return array.tolist()
    if array.ndim:
        return [to_json(np.asarray(part, object)) for part in array]
    value = array.item()
    if isinstance(value, bytes):
        return {"b64": base64.b64encode(value).decode()}
    return value


def strings(array: np.ndarray) -> np.ndarray:
    """Bytes as text; numbers as they are."""
    if array.dtype != object:
        return array
    texts = [value.decode(errors="replace") for value in array.flat]
    return np.array(texts, object).reshape(array.shape)
