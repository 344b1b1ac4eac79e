"""Where padding changes what a model answers."""

import dataclasses
from collections.abc import Collection
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

import keras
import numpy as np

from keras_seqmech.analysis.restored_state import state_restored
from keras_seqmech.layers import functional
from keras_seqmech.layers import validation

SIDES = ("right", "left")
# Half of the digits of a dtype: rounding is well below, padding well above.
TOLERANCES = {"float64": 1e-8, "float16": 0.03, "bfloat16": 0.09}


class LayerChange(NamedTuple):
    """What padding changes in the outputs of a layer.

    Attributes:
        name: The layer's name.
        kind: Its class.
        change: The largest difference at real steps, of the largest number
            there; 0 for outputs of another kind than numbers.
        changed: Whether that is more than rounding.
    """

    name: str
    kind: str
    change: float
    changed: bool


@dataclasses.dataclass(frozen=True)
class MaskReport:
    """What padding changes, layer by layer; printed, it is a table.

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
        kinds = max(len(layer.kind) for layer in self.layers)
        rows = [
            f"{layer.name:<{width}}  {layer.kind:<{kinds}}  {layer.change:.1e}"
            + ("  <- the first to read padding" if layer is self.first else "")
            for layer in self.layers
        ]
        return "\n".join(
            [
                f"Padding changes what {self.first.name!r} answers, from "
                "inputs that it does not change: give that layer a mask.",
                *rows,
            ]
        )


def mask_report(
    model: keras.Model,
    example: Any,
    sequences: Collection[str] | None = None,
    padding: float | Mapping[str, float] = 0,
    extra: int = 3,
    side: str = "right",
    tolerance: float | None = None,
) -> MaskReport:
    """Tells whether padding changes a model's answers, and where it begins.

    The model runs on an example as it is and on copies with padded steps. Of
    each layer the outputs at real steps, and outputs without a time axis, are
    compared. The first layer that differs has read padding: its mask is lost,
    or it takes none. Boolean sequences are padded with False; where there is
    one, a second copy has other numbers under the padding, since zeros alone
    may leave an answer as it is.

    The model runs in inference mode, with the weights as they are; its states
    and seeds do not change. Layers that draw at inference draw other numbers
    for other lengths, so theirs always differ.

    Args:
        model: A built functional or `keras.Sequential` model. Models within it
            count as one layer; report on them apart.
        example: Arrays as the model takes them, of one example or more of one
            length, without padding.
        sequences: Names of the inputs with a time axis, which is the first
            after the batch's. If None, those whose number of steps is unknown
            (`keras.Input((None, ...))`). Of an input with a known number of
            steps give the name; the model is then called with more, where its
            layers can be.
        padding: The number at padded steps, for all inputs or by their names.
        extra: Positive int, how many steps are padded.
        side: `"right"`, padding after the real steps, or `"left"`.
        tolerance: The largest change that counts as rounding, relative to the
            largest number at real steps. By default that of half of the
            digits of the outputs' dtype: 3e-4 in float32.

    Returns:
        A `MaskReport`: `print` it, or ask for its `first`.

    Raises:
        ValueError: If the model has no graph of layers, inputs do not fit, or
            the model does not run with more steps.

    Example:

    >>> import keras, numpy as np
    >>> tokens = keras.Input((None,), dtype="int32")
    >>> x = keras.layers.Embedding(9, 4, mask_zero=True)(tokens)
    >>> model = keras.Model(tokens, keras.ops.mean(x, axis=1))
    >>> mask_report(model, np.array([[3, 1, 4]])).first.kind
    'Mean'
    """
    validation.check_choice("side", side, SIDES)
    extra = validation.check_positive_int("extra", extra)
    functional.check_functional(model, "model")
    names = [tensor.name for tensor in model.inputs]
    chosen = _sequences(model, sequences)
    if isinstance(padding, Mapping) and not set(padding) <= set(chosen):
        raise ValueError(
            f"Argument `padding` must name inputs that are padded, {chosen}. "
            f"Received: padding={padding!r}"
        )
    example = [np.asarray(array) for array in keras.tree.flatten(example)]
    _check_example(example, names)
    probe = _probe(model, chosen)
    plan = _Padding(chosen, padding, extra, side)
    with state_restored(model):
        real = probe.run(example)
    changes = np.zeros(len(probe.calls))
    for offset in plan.offsets(names, example):
        with state_restored(model):
            padded = probe.run(plan.pad(names, example, offset))
        found = [
            max(_change(*pair, plan) for pair in zip(one, other))
            for one, other in zip(real, padded)
        ]
        changes = np.maximum(changes, found)
    return MaskReport(
        tuple(
            LayerChange(
                operation.name,
                type(operation).__name__,
                float(change),
                bool(change > _tolerance(outputs, tolerance)),
            )
            for operation, change, outputs in zip(probe.calls, changes, real)
        )
    )


class _Padding(NamedTuple):
    """How inputs are padded.

    Attributes:
        sequences: Names of the padded inputs.
        value: The number at padded steps, or numbers by name.
        extra: Number of padded steps.
        side: `"right"` or `"left"`: the side of the padding.
    """

    sequences: list[str]
    value: Any
    extra: int
    side: str

    def offsets(self, names: list[str], example: list) -> list[int]:
        """What is added to the padding of each copy."""
        masked = any(
            array.dtype == bool
            for name, array in zip(names, example)
            if name in self.sequences
        )
        return [0, 1] if masked else [0]

    def pad(self, names: list[str], example: list, offset: int) -> list:
        """A copy of the example with padded steps."""
        return [
            self._pad(name, array, offset) if name in self.sequences else array
            for name, array in zip(names, example)
        ]

    def _pad(self, name: str, array: np.ndarray, offset: int) -> np.ndarray:
        value = self.value
        if isinstance(value, Mapping):
            value = value.get(name, 0)
        width = (0, self.extra) if self.side == "right" else (self.extra, 0)
        widths = [(0, 0), width] + [(0, 0)] * (array.ndim - 2)
        constant = False if array.dtype == bool else value + offset
        return np.pad(array, widths, constant_values=constant)

    def real(self, padded: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """The part of a padded output that has the unpadded one's shape."""
        for axis, size in enumerate(shape):
            more = padded.shape[axis] - size
            first = more if self.side == "left" and more > 0 else 0
            padded = np.take(
                padded, range(first, first + size), axis, mode="clip"
            )
        return padded


class _Probe(NamedTuple):
    """A model that returns the outputs of all its layers."""

    model: keras.Model
    calls: list[Any]

    def run(self, inputs: list) -> list[list[np.ndarray]]:
        """Flat outputs of each call, as arrays."""
        inputs = keras.tree.pack_sequence_as(self.model.input, inputs)
        try:
            outputs = self.model(inputs, training=False)
        except Exception as error:
            shapes = [array.shape for array in keras.tree.flatten(inputs)]
            raise ValueError(
                "Argument `model` must run with any number of steps of its "
                "sequences, and `example` be inputs that it takes. "
                f"Received: {error}, for inputs of shapes {shapes}"
            ) from error
        return [
            [keras.ops.convert_to_numpy(x) for x in keras.tree.flatten(output)]
            for output in outputs
        ]


def _probe(model: keras.Model, sequences: list[str]) -> _Probe:
    """The same layers, called with any number of steps."""

    def again(tensor: keras.KerasTensor) -> keras.KerasTensor:
        shape = list(tensor.shape)
        if tensor.name in sequences:
            shape[1] = None
        return keras.Input(
            batch_shape=(None, *shape[1:]), dtype=tensor.dtype, name=tensor.name
        )

    model = functional.as_functional(model)
    inputs = keras.tree.map_structure(again, model.input)
    try:
        _, calls = functional.record_calls(model, inputs)
    except Exception as error:
        raise ValueError(
            "Argument `model` must run with any number of steps of its "
            f"sequences, {sequences}. Received: a model that says: {error}"
        ) from error
    # Inputs are operations, too, which change nothing.
    calls = [
        pair
        for pair in calls
        if not isinstance(pair[0], keras.layers.InputLayer)
    ]
    outputs = [outputs for _, outputs in calls]
    return _Probe(keras.Model(inputs, outputs), [one for one, _ in calls])


def _sequences(
    model: keras.Model, sequences: Collection[str] | None
) -> list[str]:
    names = [tensor.name for tensor in model.inputs]
    chosen = sequences
    if chosen is None:
        chosen = [
            tensor.name
            for tensor in model.inputs
            if len(tensor.shape) > 1 and tensor.shape[1] is None
        ]
    if not chosen or not set(chosen) <= set(names):
        raise ValueError(
            "Argument `sequences` must name inputs with a time axis; the model "
            f"has the inputs {names}. Received: sequences={sequences!r}"
        )
    return list(chosen)


def _check_example(example: list[np.ndarray], names: list[str]) -> None:
    if len(example) != len(names) or any(x.ndim < 1 for x in example):
        raise ValueError(
            f"Argument `example` must hold an array for each input, {names}. "
            f"Received: arrays of shapes {[x.shape for x in example]}"
        )


def _change(real: np.ndarray, padded: np.ndarray, padding: _Padding) -> float:
    """The largest difference at real steps, of the largest number there."""
    if real.dtype.kind in "OSU" or real.ndim != padded.ndim:
        return 0.0
    real = real.astype("float64")
    difference = np.abs(padding.real(padded, real.shape) - real)
    if np.isnan(difference).any():
        return float("inf")
    scale = np.max(np.abs(real), initial=0)
    largest = float(np.max(difference, initial=0))
    return largest / scale if scale else largest


def _tolerance(outputs: list[np.ndarray], tolerance: float | None) -> float:
    if tolerance is not None:
        return tolerance
    return max(TOLERANCES.get(str(x.dtype), 3e-4) for x in outputs)
