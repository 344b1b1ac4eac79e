"""A report of the layers whose answers depend on padding."""

import dataclasses
from typing import Any
from typing import NamedTuple

import keras
import numpy as np

from keras_seqmech.analysis.by_layer import check_rows
from keras_seqmech.analysis.by_layer import state_restored
from keras_seqmech.core import checks
from keras_seqmech.core import graph

SIDES = ("right", "left")
PADDED_STEPS = 3
# Half of the digits of a dtype: rounding is well below, padding well above.
TOLERANCES = {"float64": 1e-8, "float16": 0.03, "bfloat16": 0.09}


class LayerChange(NamedTuple):
    """The change that padding makes to the outputs of a layer.

    Attributes:
        name: Name of the layer.
        kind: Name of its class.
        change: Largest difference at real steps, relative to the largest
            number there.
        changed: Whether that is more than rounding.
    """

    name: str
    kind: str
    change: float
    changed: bool


@dataclasses.dataclass(frozen=True)
class MaskReport:
    """The change that padding makes, layer by layer; printed, it is a table.

    Attributes:
        layers: One `LayerChange` for each call of a layer or operation, in
            the order of the model.
    """

    layers: tuple[LayerChange, ...]

    @property
    def first(self) -> LayerChange | None:
        """The first layer whose answers padding changes, or None."""
        return next((layer for layer in self.layers if layer.changed), None)

    def __str__(self) -> str:
        if self.first is None:
            return "Padding changes no answer."
        width = max(len(layer.name) for layer in self.layers)
        text = (
            f"Padding changes what {self.first.name!r} answers, from inputs "
            "that it does not change: give that layer a mask."
        )
        for layer in self.layers:
            text += f"\n{layer.name:<{width}}  {layer.change:.1e}  {layer.kind}"
            if layer is self.first:
                text += "  <- the first to read padding"
        return text


def mask_report(
    model: keras.Model,
    example: Any,
    padding: float = 0,
    side: str = "right",
) -> MaskReport:
    """Reports whether padding changes a model's answers, and in which layer.

    The model runs on an example as it is and on copies with three padded
    steps. The outputs of each layer at real steps, and its outputs without a
    time axis, are compared. The first layer that differs has read padding: its
    mask is lost, or the layer takes no mask. Boolean sequences are padded with
    False; with such an input, a second copy has other numbers under the
    padding, since zeros alone may leave an answer unchanged.

    The model runs in inference mode, with the weights as they are; its states
    and seeds do not change. Layers that draw at inference draw other numbers
    for other lengths, so theirs always differ.

    Args:
        model: A built functional or `keras.Sequential` model. Its inputs with
            an unknown number of steps (`keras.Input((None, ...))`) are padded.
            Models within it count as one layer; report on them apart.
        example: Arrays as the model takes them, or a dict of them by input
            name: one example or more, of one length, without padding.
        padding: The number at padded steps.
        side: `"right"`, padding after the real steps, or `"left"`.

    Returns:
        A `MaskReport`: `print` it, or ask for its `first`.

    Raises:
        ValueError: If the model has no graph of layers or no input with an
            unknown number of steps, or inputs do not fit.

    Example:

    >>> import keras, numpy as np
    >>> tokens = keras.Input((None,), dtype="int32")
    >>> x = keras.layers.Embedding(9, 4, mask_zero=True)(tokens)
    >>> model = keras.Model(tokens, keras.ops.mean(x, axis=1))
    >>> mask_report(model, np.array([[3, 1, 4]])).first.kind
    'Mean'
    """
    checks.check_choice("side", side, SIDES)
    graph.check_functional(model, "model")
    inputs = graph.flatten_inputs(model, example, "example")
    arrays = [checks.as_array("example", x) for x in inputs]
    check_rows("example", arrays)
    padded = [tuple(x.shape[1:2]) == (None,) for x in model.inputs]
    if not any(padded):
        raise ValueError(
            "Argument `model` must have an input with an unknown number of "
            "steps, `keras.Input((None, ...))`. Received: inputs of shapes "
            f"{[tensor.shape for tensor in model.inputs]}"
        )
    has_mask = any(x.dtype == bool for x, pads in zip(arrays, padded) if pads)
    # The largest token may be the padding.
    another = padding + 1 if padding < 1 else padding - 1
    copies = [
        [
            _pad(array, number, side) if pads else array
            for array, pads in zip(arrays, padded)
        ]
        for number in ([padding, another] if has_mask else [padding])
    ]
    calls: list[tuple[keras.Operation, list]] = []

    def call(operation: keras.Operation, *args: Any, **kwargs: Any) -> Any:
        outputs = operation(*args, **kwargs)
        calls.append((operation, keras.tree.flatten(outputs)))
        return outputs

    graph.call_again(model, call, model.inputs)
    probe = keras.Model(model.inputs, [outputs for _, outputs in calls])
    runs = []
    for inputs in (arrays, *copies):
        with state_restored(model):
            found = probe(inputs, training=False)
        runs.append(keras.tree.map_structure(np.asarray, found))
    layers = []
    for (operation, _), real, *others in zip(calls, *runs):
        change = max(
            _change(one, two, side)
            for other in others
            for one, two in zip(real, other)
        )
        rounding = max(TOLERANCES.get(str(x.dtype), 3e-4) for x in real)
        names = operation.name, type(operation).__name__
        layers.append(LayerChange(*names, change, change > rounding))
    return MaskReport(tuple(layers))


def _pad(array: np.ndarray, number: float, side: str) -> np.ndarray:
    width = (0, PADDED_STEPS) if side == "right" else (PADDED_STEPS, 0)
    widths = [(0, 0), width] + [(0, 0)] * (array.ndim - 2)
    constant: Any = number
    if array.dtype.kind in "OSUb":
        constant = False if array.dtype == bool else ""
    elif array.dtype.kind in "iu":
        info = np.iinfo(array.dtype)
        if number % 1 or not info.min <= number <= info.max:
            raise ValueError(
                "Argument `padding` must be a number that the inputs can hold, "
                f"of {array.dtype}. Received: padding={number!r}"
            )
    return np.pad(array, widths, constant_values=constant)


def _change(real: np.ndarray, padded: np.ndarray, side: str) -> float:
    """The largest difference at real steps, relative to the largest number."""
    if real.dtype.kind in "OSU" or real.ndim != padded.ndim:
        return 0.0
    for axis, size in enumerate(real.shape):
        more = padded.shape[axis] - size
        first = more if side == "left" and more > 0 else 0
        padded = np.take(padded, range(first, first + size), axis, mode="clip")
    real, padded = real.astype("float64"), padded.astype("float64")
    # Equal infinities and NaNs do not differ.
    same = (real == padded) | (np.isnan(real) & np.isnan(padded))
    difference = np.zeros_like(real)
    np.subtract(padded, real, where=~same, out=difference)
    difference = np.abs(difference)
    if np.isnan(difference).any():
        return float("inf")
    scale = np.max(np.abs(real), initial=0, where=np.isfinite(real))
    largest = float(np.max(difference, initial=0))
    return largest / scale if scale else largest
