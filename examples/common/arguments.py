"""A type of command line arguments."""

import argparse
from collections.abc import Callable


def integer(least: int) -> Callable[[str], int]:
    """An argparse type: integers of at least `least`.

    >>> integer(least=1)("12")
    12
    """

    def parse(text):
        with_sign = text.removeprefix("-").isdecimal()
        if not with_sign or int(text) < least:
            raise argparse.ArgumentTypeError(
                f"must be an integer of at least {least}. Received: {text!r}"
            )
        return int(text)

    return parse


positive = integer(least=1)
