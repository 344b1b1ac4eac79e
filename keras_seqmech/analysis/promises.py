"""Settings whose loss of accuracy is within a bound, with a probability."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_seqmech.core import checks


def weight_promised(
    losses: Mapping[float, Any], most: float, delta: float = 0.05
) -> float:
    r"""The last setting whose loss is promised to be little above the first's.

    With probability at least $1 - \delta$ over the draw of the examples, the
    mean loss of the setting on examples like these exceeds that of the first
    setting by less than `most`. The settings are tested in their order, each
    at level $\delta$, up to the first that fails, so that one promise holds for
    the whole search (Learn then Test). The hypothesis that the mean excess of
    the n examples, $d_i \in [-1, 1]$, is at least $\epsilon$ is refused if

    $$\max_t \prod_{i \le t} (1 + \lambda_i (\epsilon - d_i)) \ge 1 / \delta$$

    where $\lambda_i$, from 0 to $0.75 / (1 - \epsilon)$, depends on the
    examples before i alone: a bet whose expected gain is not above 0 if the
    hypothesis is true. Examples are taken in a random order, always the same:
    to try other orders of the rows breaks the promise.

    Examples are independent: sequences, not their steps. Settings that were
    chosen by their results on the same examples are no longer promised.

    Args:
        losses: Losses of the examples, `(n,)`, from 0 to 1, by setting: first
            that which reads all, last that which reads least, such as weights
            upwards or limits downwards. For a tagger, the share of wrong steps
            of each sequence.
        most: $\epsilon$, the most that may be lost, above 0 and below 1.
        delta: $\delta$, the probability that the promise does not hold.

    Raises:
        ValueError: If an argument is not allowed, or nothing but the first
            setting can be promised; the message says about how many examples
            it would take.

    Example:

    >>> right = np.zeros(2000)
    >>> some = np.where(np.arange(2000) % 100 == 0, 1.0, 0.0)
    >>> many = np.where(np.arange(2000) % 10 == 0, 1.0, 0.0)
    >>> weight_promised({0.01: right, 0.1: some, 1.0: many}, most=0.03)
    0.1

    Source: "Learn then Test" (Angelopoulos and others, 2021), with fixed
    sequence testing; the test is that of "Estimating means of bounded random
    variables by betting" (Waudby-Smith and Ramdas, 2024).
    """
    most = checks.check_open_share("most", most)
    delta = checks.check_open_share("delta", delta)
    (first, reference), *others = _checked(losses)
    # Files have an order, by length or source, which bets would follow.
    order = np.random.default_rng(0).permutation(len(reference))
    promised = first
    for setting, own in others:
        excess = (own - reference)[order]
        if _largest_gain(excess, most, delta) < -math.log(delta):
            break
        promised = setting
    if promised == first:
        raise ValueError(
            f"Argument `losses` must have more examples: beyond {first} "
            f"nothing can be promised at most={most}, delta={delta}. "
            f"{_examples_needed(excess, most, delta)} Received: "
            f"{len(reference)} examples, mean excess {excess.mean():.4f} at "
            f"{setting}"
        )
    return promised


def _checked(losses: Mapping[float, Any]) -> list[tuple[float, np.ndarray]]:
    """Settings and their losses, all of one length."""
    if not isinstance(losses, Mapping) or len(losses) < 2:
        raise ValueError(
            "Argument `losses` must be a dict of two settings or more, each "
            f"with an array (n,). Received: losses={losses!r}"
        )
    found = [
        (setting, checks.as_array("losses", own, "float64"))
        for setting, own in losses.items()
    ]
    shapes = {own.shape for _, own in found}
    if len(shapes) > 1 or len(found[0][1].shape) != 1 or not found[0][1].size:
        raise ValueError(
            "Argument `losses` must have arrays (n,) of one length, with an "
            f"example. Received: shapes {sorted(shapes)}"
        )
    for setting, own in found:
        if not ((own >= 0) & (own <= 1)).all():
            raise ValueError(
                "Argument `losses` must hold numbers from 0 to 1. Received: "
                f"from {own.min()} to {own.max()} at {setting}"
            )
    return found


def _largest_gain(excess: np.ndarray, most: float, delta: float) -> float:
    """Log of the largest capital of the bets; see `weight_promised`."""
    count = np.arange(1, len(excess) + 1)
    means = np.cumsum(excess) / (count + 1)
    variances = (0.25 + np.cumsum((excess - means) ** 2)) / (count + 1)
    # A bet knows what came before it alone.
    variances = np.concatenate([[0.25], variances[:-1]])
    bets = np.sqrt(-2 * math.log(delta) / (len(excess) * variances))
    bets = np.minimum(bets, 0.75 / (1 - most))
    return float(np.cumsum(np.log1p(bets * (most - excess))).max())


def _examples_needed(excess: np.ndarray, most: float, delta: float) -> str:
    """How many examples like these a promise would take, in a sentence."""
    if excess.mean() >= most:
        return "More would not help: the mean excess is not below `most`."
    # What the best bet on these examples gains each.
    bets = np.geomspace(1e-9, 0.75 / (1 - most), 100)
    gain = max(np.mean(np.log1p(bet * (most - excess))) for bet in bets)
    needed = math.ceil(-1.5 * math.log(delta) / gain)
    return f"If the mean excess stays, about {needed} examples would do."
