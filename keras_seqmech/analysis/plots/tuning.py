"""Figure: scores of a search over field sizes and temperatures."""

from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any

import numpy as np

from keras_seqmech.analysis.plots import drawing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARKERS = ("o", "^", "s", "D")
BEST = "#d1495b"


def plot_sweep(
    max_sizes: Sequence[int],
    temperatures: Sequence[float],
    scores: Sequence[float],
    kinds: Sequence[str] | None = None,
    score_name: str = "score",
    maximize: bool = True,
    title: str | None = None,
) -> "Figure":
    """Score over the largest field size S and the temperature, of trials.

    At the left each trial is a point at its S and temperature (on a log
    scale), its score a color; trials at one place are drawn once, with their
    mean. At the right is the score by S, with a line through the best of each.
    The best trial has a red ring.

    Args:
        max_sizes: S of each trial.
        temperatures: Temperature of each trial, above 0.
        scores: Score of each trial, finite: leave out trials that failed.
        kinds: Another property of each trial, such as the schedule of
            the temperature: each kind has its own marker.
        score_name: Label of the score.
        maximize: Whether a greater score is better.
        title: Title of the figure.

    Returns:
        A matplotlib `Figure`.

    Raises:
        ValueError: If there are no trials, or the arguments do not fit.
        ImportError: If matplotlib is missing.

    Example:

    >>> figure = plot_sweep([1, 2, 4, 4], [1.0, 0.5, 0.5, 0.1],
    ...                     [0.81, 0.84, 0.88, 0.86], score_name="F1")
    """
    kinds = [""] * len(max_sizes) if kinds is None else list(map(str, kinds))
    sizes, heats, values = _check(max_sizes, temperatures, scores, kinds)
    figure = drawing.new_figure(9, 3.6)
    left, right = figure.subplots(1, 2, width_ratios=(1.2, 1))
    best = int(np.argmax(values) if maximize else np.argmin(values))
    handles, points = [], None
    names = list(dict.fromkeys(kinds))
    for i, name in enumerate(names):
        own = np.array([kind == name for kind in kinds])
        marker = MARKERS[i % len(MARKERS)]
        x, y, means = _means(sizes[own], heats[own], values[own])
        points = left.scatter(
            x,
            y,
            c=means,
            marker=marker,
            s=70,
            vmin=values.min(),
            vmax=values.max(),
        )
        handles.append(
            right.scatter(
                sizes[own], values[own], marker=marker, s=24, color="0.55"
            )
        )
    left.set_yscale("log")
    left.set_ylabel("temperature")
    figure.colorbar(points, ax=left, label=score_name)
    choose = np.max if maximize else np.min
    tops = np.unique(sizes)
    line = drawing.line_style(0)
    right.plot(tops, [choose(values[sizes == s]) for s in tops], **line)
    right.set_ylabel(score_name)
    ring = {"s": 160, "facecolors": "none", "edgecolors": BEST, "zorder": 3}
    left.scatter(sizes[best], heats[best], linewidths=2, **ring)
    right.scatter(sizes[best], values[best], linewidths=2, **ring)
    for axes in (left, right):
        axes.set_xlabel("largest field size S")
        axes.set_xticks(tops)
        axes.margins(x=0.08, y=0.12)
        drawing.clear_frame(axes, grid=True)
    if len(names) > 1:
        drawing.draw_legend(right, names, handles, loc="best")
    drawing.set_title(figure, title)
    return figure


def _means(
    sizes: np.ndarray, heats: np.ndarray, scores: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One point for all trials of a size and temperature."""
    places, owners = np.unique([sizes, heats], axis=1, return_inverse=True)
    owners = owners.ravel()
    means = np.bincount(owners, scores) / np.bincount(owners)
    return places[0], places[1], means


def _check(
    sizes: Any, heats: Any, scores: Any, kinds: Sequence[str]
) -> list[np.ndarray]:
    arrays = [np.asarray(a, "float64") for a in (sizes, heats, scores)]
    lengths = [a.size for a in arrays] + [len(kinds)]
    if len(set(lengths)) > 1 or not lengths[0] or arrays[0].ndim != 1:
        raise ValueError(
            "Arguments `max_sizes`, `temperatures`, `scores` and `kinds` must "
            "hold one value a trial, of at least one trial. "
            f"Received: lengths {lengths}"
        )
    if not np.isfinite(arrays).all() or (arrays[1] <= 0).any():
        raise ValueError(
            "Arguments must hold finite numbers, `temperatures` those above "
            f"0. Received: temperatures={heats!r}, scores={scores!r}, "
            f"max_sizes={sizes!r}"
        )
    return arrays
