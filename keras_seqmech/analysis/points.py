"""What the points of a trade-off say: budgets, and whether waiting pays."""

from collections.abc import Mapping
from collections.abc import Sequence

import numpy as np

Point = Mapping[str, float]


def weight_within(
    points: Sequence[Point],
    measure: str,
    most: float | None = None,
    least: float | None = None,
) -> float:
    """The weight that reads most within a budget, or least beyond a level.

    Points are those of the examples that were tried; see `weight_promised` for
    a promise.

    Args:
        points: What `trade_off` returns, of validation data.
        measure: A key of the points, such as `"look_mean_delay"` with `most`,
            or `"accuracy"` with `least`.
        most: The budget: the result is the smallest weight within it.
        least: The level: the result is the largest weight that reaches it.

    Raises:
        ValueError: If the points do not have the measure, none fits, or not
            just one of `most` and `least` is given.

    Example:

    >>> points = [{"weight": 0.01, "delay": 2.5, "accuracy": 0.9},
    ...           {"weight": 0.1, "delay": 1.0, "accuracy": 0.8}]
    >>> weight_within(points, "delay", most=1.5)
    0.1
    >>> weight_within(points, "accuracy", least=0.85)
    0.01
    """
    if (most is None) == (least is None):
        raise ValueError(
            "One of the arguments `most` and `least` must be given. "
            f"Received: most={most}, least={least}"
        )
    check_measure("measure", measure, points)
    if most is not None:
        fits = [x["weight"] for x in points if x[measure] <= most]
        if fits:
            return min(fits)
    elif least is not None:
        fits = [x["weight"] for x in points if x[measure] >= least]
        if fits:
            return max(fits)
    values = [x[measure] for x in points]
    raise ValueError(
        "Arguments `most` and `least` must be within what the points have: "
        f"{measure!r} is from {min(values):g} to {max(values):g}. "
        f"Received: most={most}, least={least}"
    )


def waiting_pays(
    points: Sequence[Point],
    fixed: Sequence[Point],
    delay: str,
    score: str,
) -> str:
    """Says whether a delay that is chosen gains over one that is fixed.

    At each point's delay, its score is compared with that of the fixed delays,
    on the line between the two next to it; points beyond them are left out.
    Models of the same fixed delay, such as of several seeds, count as their
    mean.

    Args:
        points: What `trade_off` returns, or points of several models.
        fixed: Points of models with fixed delays, such as windows that were
            trained as long, with the same two keys.
        delay: Key of the delay, such as `"look_mean_delay"`, or
            `"look_delay_percentile"` where a percentile is what counts.
        score: Key of the score, the higher the better.

    Returns:
        A sentence: at how many points there is a gain, the largest one, and
        what to do. A gain at few of many points, or as small as the difference
        between two seeds, may be chance; a gain where nothing waits says that
        the fixed ones were not trained as long.

    Raises:
        ValueError: If a point lacks a key, there are not two fixed delays, or
            no point is between them.

    Example:

    >>> windows = [{"delay": 0.0, "f1": 70.0}, {"delay": 1.0, "f1": 80.0}]
    >>> points = [{"delay": 0.5, "f1": 79.0}]
    >>> print(waiting_pays(points, windows, delay="delay", score="f1"))
    A chosen delay gains at 1 of 1 points, most at 0.5 (f1 79): 4.
    """
    for name, given in (("points", points), ("fixed", fixed)):
        check_measure(f"{name}: {delay}", delay, given)
        check_measure(f"{name}: {score}", score, given)
    places = np.unique([x[delay] for x in fixed])
    scores = [
        np.mean([x[score] for x in fixed if x[delay] == place])
        for place in places
    ]
    inside = [x for x in points if places[0] <= x[delay] <= places[-1]]
    if len(places) < 2 or not inside:
        raise ValueError(
            "Argument `fixed` must have two delays or more, and points between "
            f"them. Received: fixed at {places.tolist()}, points at "
            f"{[x[delay] for x in points]}"
        )
    gains = [x[score] - np.interp(x[delay], places, scores) for x in inside]
    best, count = int(np.argmax(gains)), sum(gain > 0 for gain in gains)
    at = f"at {inside[best][delay]:.3g} ({score} {inside[best][score]:.4g})"
    if count:
        return (
            f"A chosen delay gains at {count} of {len(gains)} points, most "
            f"{at}: {gains[best]:.2g}."
        )
    return (
        f"A chosen delay does not pay here: {abs(gains[best]):.2g} below fixed "
        f"ones {at}. Take a fixed window; or train longer, or for a narrower "
        "range of weights."
    )


def check_measure(name: str, measure: str, points: Sequence[Point]) -> None:
    """Refuses a measure that not all points have."""
    missing = [x for x in points if measure not in x]
    if missing or not points:
        names = sorted(missing[0]) if missing else []
        raise ValueError(
            f"Argument `{name}` must be a key of all points. "
            f"Received: {name}={measure!r}, points with {names}"
        )
