"""Types of command line arguments."""

import argparse
from collections.abc import Callable


def integer(least: int) -> Callable[[str], int]:
    """An argparse type: integers of at least `least`.

    >>> integer(least=1)("12")
    12
    """

    def parse(text):
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(
                f"must be an integer of at least {least}. Received: {text!r}"
            )
        return value

    return parse


positive = integer(least=1)
