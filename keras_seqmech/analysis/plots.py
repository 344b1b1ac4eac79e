"""Figures: one function each.

A function returns a `matplotlib.figure.Figure`, which belongs to no window and
no global state: show it in a notebook, or write it with
`figure.savefig(path)`. Without matplotlib there is an ImportError. What a model
read or kept of a text is shown by `keras_seqmech.analysis.show`.
"""

from collections.abc import Mapping
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any

from keras_seqmech.analysis.points import check_measure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["plot_trade_off"]


def plot_trade_off(
    points: Sequence[Mapping[str, float]],
    x: str,
    y: str,
    title: str | None = None,
    beside: Mapping[str, Sequence[Mapping[str, float]]] | None = None,
) -> "Figure":
    """Plots a metric of a model over what it reads, at several weights.

    Args:
        points: What `trade_off` returns.
        x: Key of what is read, such as `"look_mean_delay"`.
        y: Key of the metric, such as `"accuracy"`.
        title: Title of the figure.
        beside: Points of other models by name, with the same keys, such as of
            windows.

    Raises:
        ValueError: If a point lacks one of the keys, or there is none.

    Example:

    >>> points = [{"weight": 0.1, "delay": 1.0, "f1": 0.8},
    ...           {"weight": 0.01, "delay": 2.0, "f1": 0.9}]
    >>> figure = plot_trade_off(points, "delay", "f1")
    """
    check_measure("x", x, points)
    check_measure("y", y, points)
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "Figures need matplotlib; install it with "
            "`pip install '.[plots]'` in the checkout of keras_seqmech."
        ) from error
    figure = Figure(figsize=(5, 4), layout="constrained")
    if title is not None:
        figure.suptitle(title)
    axes = figure.subplots()
    for name, others in (beside or {}).items():
        check_measure(f"x of {name}", x, others)
        check_measure(f"y of {name}", y, others)
        _draw(axes, others, x, y, "s--", label=name)
    _draw(axes, points, x, y, "o-", label="by weight")
    for point in points:
        place = point[x], point[y]
        axes.annotate(
            f"{point['weight']:g}", place, (4, -10), textcoords="offset points"
        )
    if beside:
        axes.legend()
    axes.margins(0.15)  # Room for the weights.
    axes.set_title("Numbers: weight of what is read", fontsize="small")
    axes.set_xlabel(x.replace("_", " "))
    axes.set_ylabel(y.replace("_", " "))
    return figure


def _draw(
    axes: Any, points: Any, x: str, y: str, *style: str, **options: Any
) -> None:
    points = sorted(points, key=lambda point: point[x])
    places = [p[x] for p in points], [p[y] for p in points]
    axes.plot(*places, *style, **options)
