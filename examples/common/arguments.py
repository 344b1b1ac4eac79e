"""Types of command line arguments."""

import argparse
import math
from collections.abc import Callable


def integer(least: int, most: float = math.inf) -> Callable[[str], int]:
    """An argparse type: integers of at least `least`, and at most `most`.

    >>> integer(least=1)("12")
    12
    """

    def parse(text):
        with_sign = text.removeprefix("-").isdecimal()
        if not with_sign or not least <= int(text) <= most:
            allowed = f"of at least {least}"
            if most < math.inf:
                allowed = f"from {least} to {most}"
            raise argparse.ArgumentTypeError(
                f"must be an integer {allowed}. Received: {text!r}"
            )
        return int(text)

    return parse


def real(interval: str) -> Callable[[str], float]:
    """An argparse type: numbers in an interval.

    >>> real("(0, 1]")("0.5")
    0.5
    """
    low, high = (float(end) for end in interval[1:-1].split(","))
    ends = [low] * interval.startswith("[") + [high] * interval.endswith("]")

    def parse(text):
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not (low < value < high or value in ends):
            raise argparse.ArgumentTypeError(
                f"must be a number in {interval}. Received: {text!r}"
            )
        return value

    return parse


positive = integer(least=1)
