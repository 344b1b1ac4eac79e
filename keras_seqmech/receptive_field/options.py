"""How the fields of an `RFCell` are chosen, read and used."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import keras

from keras_seqmech.core import checks
from keras_seqmech.core.decisions.sampling import ESTIMATORS

SUMMARIES = ("mean", "last")
GATED = ("memory", "output", "all")
SIZE_SOURCES = ("input", "field")


@dataclasses.dataclass(frozen=True)
class FieldOptions:
    """The arguments of `RFCell` besides the cell, as objects.

    `checked` makes them from what users give; `RFCell` describes them.
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
    forget_strength: float | None
    kernel_initializer: Any
    recurrent_initializer: Any
    kernel_regularizer: Any
    sample_at_inference: bool
    seed: int | None

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Names of the arguments."""
        return tuple(field.name for field in dataclasses.fields(cls))

    @classmethod
    def checked(cls, **arguments: Any) -> "FieldOptions":
        """Checks arguments and gets the objects that they name.

        Raises:
            ValueError: If one is not allowed.
        """
        rules: dict[str, Callable[[str, Any], Any]] = {
            "max_size": checks.check_positive_int,
            "field_units": _check_units,
            "summary": partial(checks.check_choice, allowed=SUMMARIES),
            "estimator": partial(checks.check_choice, allowed=ESTIMATORS),
            "temperature": checks.check_positive,
            "activation": _check_activation,
            "gated": partial(checks.check_choice, allowed=GATED),
            "size_from": partial(checks.check_choice, allowed=SIZE_SOURCES),
            "unit_forget_bias": checks.check_bool,
            "forget_strength": _check_strength,
            "kernel_initializer": checks.get_initializer,
            "recurrent_initializer": checks.get_initializer,
            "kernel_regularizer": checks.get_regularizer,
            "sample_at_inference": checks.check_bool,
        }
        made = {
            name: check(name, arguments[name]) for name, check in rules.items()
        }
        return cls(**{**arguments, **made})

    def get_config(self) -> dict[str, Any]:
        """The arguments as plain Python objects."""
        values = {name: getattr(self, name) for name in self.names()}
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
    return None if value is None else checks.check_positive_int(name, value)


def _check_strength(name: str, value: Any) -> float | None:
    return None if value is None else checks.check_share(name, value)


def _check_activation(name: str, value: Any) -> Any:
    activation = checks.get_activation(name, value)
    if isinstance(activation, keras.layers.Layer):
        raise ValueError(
            f"Argument `{name}` must be a function without weights, or the "
            f"name of one. Received: {name}={activation!r}"
        )
    return activation
