"""How far each step read: bars over tokens, none of which covers another."""

import math
from typing import NamedTuple

import numpy as np

# A smaller share of a token, such as a soft size of 2.0001 reads of the third,
# is not shown.
LEAST_SHARE = 1e-3


class Piece(NamedTuple):
    """What of a field's bar lies over one token.

    Attributes:
        lane: The bar's row, from 0.
        starts: Whether the field starts here.
        share: How much of the token was read, above 0 and up to 1; below 1
            only where a field of soft size ends.
        ends: Whether the field ends here.
        ahead: Whether the field reads more than the token it starts at.
    """

    lane: int
    starts: bool
    share: float
    ends: bool
    ahead: bool


def reach(size: float) -> int:
    """How many tokens a field of this size touches.

    >>> reach(2.0), reach(2.0001), reach(2.5)
    (2, 2, 3)
    """
    return math.ceil(max(0.0, size - LEAST_SHARE))


def depth(sizes: np.ndarray) -> int:
    """How many bars lie over one token, at most: the lanes of `pieces`.

    >>> depth(np.array([3, 1, 1]))
    2
    """
    change = np.zeros(len(sizes) + 1, "int64")
    for start, size in enumerate(sizes.tolist()):
        stop = min(start + reach(size), len(sizes))
        change[start] += 1
        change[stop] -= 1
    return int(change.cumsum().max())


def pieces(sizes: np.ndarray) -> list[list[Piece]]:
    """The pieces over each token, in lanes from the first that is free.

    Args:
        sizes: Tokens read at each step, itself first. What lies past the end
            has no piece.

    >>> [[piece.lane for piece in over] for over in pieces(np.array([3, 1, 1]))]
    [[0], [0, 1], [0, 1]]
    """
    found: list[list[Piece]] = [[] for _ in sizes]
    free_from: list[int] = []
    for start, size in enumerate(sizes.tolist()):
        stop = min(start + reach(size), len(sizes))
        if stop == start:
            continue
        lane = _free_lane(free_from, start)
        free_from[lane] = stop
        for t in range(start, stop):
            share = min(1.0, size - (t - start))
            found[t].append(
                Piece(lane, t == start, share, t == stop - 1, reach(size) > 1)
            )
    return found


def _free_lane(free_from: list[int], start: int) -> int:
    """The first lane that is free there; a new one if none is."""
    for lane, free in enumerate(free_from):
        if free <= start:
            return lane
    free_from.append(0)
    return len(free_from) - 1
