"""How the fields of an `RFCell` are chosen, read and used."""

import dataclasses
from typing import Any

import keras

from keras_seqmech.layers import validation
from keras_seqmech.ops.decisions.estimators import ESTIMATORS

SUMMARIES = ("mean", "last")
GATED = ("memory", "output", "all")
SIZE_SOURCES = ("input", "field")


@dataclasses.dataclass(frozen=True)
class FieldOptions:
    """The arguments of `RFCell` besides the cell, checked, as objects.

    Every check and the whole config are here; `RFCell` describes the
    arguments.

    Raises:
        ValueError: If one is not allowed.
    """

    max_size: int
    field_units: int | None
    summary: str
    estimator: str
    temperature: float
    activation: Any
    gated: str
    size_from: str
    unit_forget_bias: bool
    kernel_initializer: Any
    recurrent_initializer: Any
    kernel_regularizer: Any
    sample_at_inference: bool
    seed: int | None

    def __post_init__(self) -> None:
        validation.check_choice("summary", self.summary, SUMMARIES)
        validation.check_choice("estimator", self.estimator, ESTIMATORS)
        validation.check_choice("gated", self.gated, GATED)
        validation.check_choice("size_from", self.size_from, SIZE_SOURCES)
        for name, check in (
            ("max_size", validation.check_positive_int),
            ("field_units", _check_units),
            ("temperature", validation.check_positive),
            ("activation", _check_activation),
            ("unit_forget_bias", validation.check_bool),
            ("sample_at_inference", validation.check_bool),
        ):
            self._set(name, check(name, getattr(self, name)))
        self._set(
            "kernel_initializer",
            keras.initializers.get(self.kernel_initializer),
        )
        self._set(
            "recurrent_initializer",
            keras.initializers.get(self.recurrent_initializer),
        )
        self._set(
            "kernel_regularizer",
            keras.regularizers.get(self.kernel_regularizer),
        )

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def get_config(self) -> dict[str, Any]:
        """The arguments as plain Python objects."""
        values = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
        }
        return {
            **values,
            "activation": keras.activations.serialize(self.activation),
            "kernel_initializer": keras.initializers.serialize(
                self.kernel_initializer
            ),
            "recurrent_initializer": keras.initializers.serialize(
                self.recurrent_initializer
            ),
            "kernel_regularizer": keras.regularizers.serialize(
                self.kernel_regularizer
            ),
        }


def _check_units(name: str, value: Any) -> int | None:
    return None if value is None else validation.check_positive_int(name, value)


def _check_activation(name: str, value: Any) -> Any:
    activation = keras.activations.get(value)
    if isinstance(activation, keras.layers.Layer):
        raise ValueError(
            f"Argument `{name}` must be a function without weights, or the "
            f"name of one. Received: {name}={activation!r}"
        )
    return activation
