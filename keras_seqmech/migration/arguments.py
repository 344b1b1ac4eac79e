"""Checks that the functions of `migration` share."""

from collections.abc import Collection
from typing import Any

import keras


def check_options(options: dict[str, Any], carried: Collection[str]) -> None:
    """Refuses arguments that a migrated layer takes from the given one."""
    both = sorted(set(options) & set(carried))
    if both:
        raise ValueError(
            f"Arguments {both} are those of the layer that is migrated and "
            "must not be given. "
            f"Received: {', '.join(f'{k}={options[k]!r}' for k in both)}"
        )


def check_lstm(name: str, layer: Any) -> None:
    """Refuses anything but a built `keras.layers.LSTM` itself."""
    if type(layer) is not keras.layers.LSTM or not layer.built:
        raise ValueError(
            f"Argument `{name}` must be a built `keras.layers.LSTM`, and of no "
            f"subclass. Received: {name}={layer!r}"
        )
