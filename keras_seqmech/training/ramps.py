"""Values that change over a part of training."""

import math
from numbers import Real
from typing import Any
from typing import NamedTuple


class Ramp(NamedTuple):
    r"""A value that changes over a part of training.

    $$v = v_1 + (v_0 - v_1)\,(1 - s)^p$$

    with s the share of that part which has passed. For p = 1 the value changes
    linearly, for larger p fast at first and then more and more slowly (as in
    `keras.optimizers.schedules.PolynomialDecay`).

    Attributes:
        initial: $v_0$, its value until `begin`.
        final: $v_1$, its value from `end` on.
        begin: Share of training at which it begins to change, from 0 to 1.
        end: Share at which it arrives.
        power: p, above 0.
    """

    initial: float
    final: float
    begin: float = 0.0
    end: float = 1.0
    power: float = 1.0

    def value(self, progress: float) -> float:
        """The value at a share of training."""
        if progress >= self.end:
            return self.final
        passed = max(0.0, progress - self.begin) / (self.end - self.begin)
        left = (1 - passed) ** self.power
        return self.final + (self.initial - self.final) * left


def check_ramp(
    name: str,
    value: Any,
    default: Ramp,
    least: float = 0.0,
    first: bool = False,
) -> Ramp | None:
    """The ramp that an argument describes.

    Args:
        name: Name of the argument.
        value: A number, which replaces the final value of the default; the
            fields of a `Ramp`; or None.
        default: The default.
        least: The least value that a ramp may have.
        first: Whether a number replaces the initial value instead.

    Returns:
        A `Ramp`; None for None.

    Raises:
        ValueError: If the value describes no ramp.
    """
    if value is None:
        return None
    numbers = value
    if _is_number(value):
        replace = default._replace
        numbers = replace(initial=value) if first else replace(final=value)
    try:
        if isinstance(numbers, str):  # A sequence of digits would pass.
            raise TypeError
        ramp = Ramp(*map(float, numbers))
        fits = (
            0 <= ramp.begin < ramp.end <= 1
            and 0 < ramp.power
            and least <= min(ramp.initial, ramp.final)
            and all(map(math.isfinite, ramp))
        )
    except (TypeError, ValueError, OverflowError):
        fits = False
    if not fits:
        raise ValueError(
            f"Argument `{name}` must be None, a finite number of at least "
            f"{least:g}, or (initial, final, begin, end) and perhaps a power "
            "above 0: two such numbers, and two shares with "
            f"0 <= begin < end <= 1. Received: {name}={value!r}"
        )
    return ramp


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
