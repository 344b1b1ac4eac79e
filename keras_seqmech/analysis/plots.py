"""Figures: one function each.

Each function returns a `matplotlib.figure.Figure`, which belongs to no window
and no global state: show it in a notebook, or write it with
`figure.savefig(path)`. Without matplotlib there is an ImportError. What a model
read or kept of a text is shown by `keras_seqmech.analysis.show`.
"""

import importlib
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING
from typing import Any

import numpy as np

from keras_seqmech.analysis.markup.characters import visible
from keras_seqmech.analysis.trade_off import check_measure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "drawable",
    "plot_gradient_profiles",
    "plot_history",
    "plot_trade_off",
    "plot_word_importance",
]

# After matplotlib's own, those that hold what it lacks, Chinese for example.
FAMILIES = (
    "DejaVu Sans",
    "Noto Sans CJK SC",
    "Noto Sans SC",
    "Source Han Sans SC",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "Droid Sans Fallback",
    "Microsoft YaHei",
    "PingFang SC",
    "Noto Sans",
    "Arial Unicode MS",
)


def plot_gradient_profiles(
    profiles: Mapping[str, Any], title: str | None = None
) -> "Figure":
    r"""Plots the gradient norms $\lVert dL/dh_t \rVert$ of models by position.

    The scale is logarithmic; norms of exactly 0 leave a gap.

    Args:
        profiles: Dict from model name to `gradient_profile`, of any length.
        title: Title of the figure.

    Example:

    >>> profiles = {"bilstm": [1e-1, 1e-6, 1e-1], "maxpool": [0.1, 0.1, 0.1]}
    >>> figure = plot_gradient_profiles(profiles)

    Source: "Analyzing the Learnability and Representability of Recurrent
    Architectures", figure 1.2a.
    """
    figure, axes = _figure_by_position(profiles, title)
    _set_log_scale(axes)
    axes.set_ylabel(r"$\|\partial L/\partial h_t\|$")
    return figure


def plot_word_importance(
    importances: Mapping[str, Any],
    separators: Sequence[float] = (),
    title: str | None = None,
) -> "Figure":
    """Plots the normalized word importance of models by position.

    Args:
        importances: Dict from model name to `normalized_word_importance`.
        separators: Positions of red vertical lines, as fractions of the text
            between 0 and 1, such as where noise begins or ends (see
            `original_span`).
        title: Title of the figure.

    Example:

    >>> importances = {"bilstm": [0.6, 0.1, 0.5], "maxatt": [0.1, 0.7, 0.1]}
    >>> figure = plot_word_importance(importances, separators=(0.33, 0.67))

    Source: "Analyzing the Learnability and Representability of Recurrent
    Architectures", figure 1.9.
    """
    figure, axes = _figure_by_position(importances, title)
    for place in separators:
        axes.axvline(100 * place, color="red", linewidth=1.2)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("normalized word importance")
    return figure


def plot_history(
    histories: Mapping[str, Mapping[str, Sequence[float]]],
    *quantities: str,
    log_scale: bool = False,
    title: str | None = None,
) -> "Figure":
    """Plots quantities over training steps, a panel each.

    Args:
        histories: Dict from model name to a history: sequences of one length,
            `"step"` and the quantities, as in `VanishingRatio.history`. Lines
            skip NaN, for values that were not measured.
        *quantities: Keys of the histories, such as `"vanishing_ratio"`.
        log_scale: Whether the first quantity has a log scale, on which zeros
            leave a gap.
        title: Title of the figure.

    Example:

    >>> history = {"step": [0, 50, 100], "vanishing_ratio": [1e-6, 1e-4, 1e-3]}
    >>> accuracies = {"accuracy": [float("nan"), 0.6, 0.9]}
    >>> figure = plot_history(
    ...     {"bilstm": {**history, **accuracies}}, "vanishing_ratio", "accuracy"
    ... )

    Source: figure 2 of "An Informative Adaptive Receptive Field Model for
    Recurrent Neural Networks"; figures 1.2b and 1.2c of "Analyzing the
    Learnability and Representability of Recurrent Architectures".
    """
    count = len(quantities)
    figure = _new_figure(7.4, 1.8 + 1.6 * count, title)
    panels = figure.subplots(count, squeeze=False, sharex=True)[:, 0]
    for axes, quantity in zip(panels, quantities):
        for history in histories.values():
            step, values = (
                np.asarray(history[key], dtype="float64")
                for key in ("step", quantity)
            )
            known = ~np.isnan(values)
            axes.plot(step[known], values[known])
        axes.set_ylabel(_in_words(quantity))
        axes.grid(True, color="0.92")
    if log_scale:
        _set_log_scale(panels[0])
    panels[-1].set_xlabel("training step")
    _draw_legend(panels[0], histories)
    return figure


def plot_trade_off(
    points: Sequence[Mapping[str, float]],
    x: str,
    y: str,
    title: str | None = None,
) -> "Figure":
    """Plots a metric of a model over what it reads, at several weights.

    Args:
        points: What `trade_off` returns.
        x: Key of what is read, such as `"look_mean_delay"`.
        y: Key of the metric, such as `"accuracy"`.
        title: Title of the figure.

    Raises:
        ValueError: If a point lacks one of the keys, or there is none.

    Example:

    >>> points = [{"weight": 0.1, "delay": 1.0, "f1": 0.8},
    ...           {"weight": 0.01, "delay": 2.0, "f1": 0.9}]
    >>> figure = plot_trade_off(points, "delay", "f1")
    """
    check_measure("x", x, points)
    check_measure("y", y, points)
    figure = _new_figure(5, 4, title)
    axes = figure.subplots()
    points = sorted(points, key=lambda point: point[x])
    axes.plot([p[x] for p in points], [p[y] for p in points], "o-")
    for point in points:
        place = point[x], point[y]
        axes.annotate(
            f"{point['weight']:g}", place, (4, -10), textcoords="offset points"
        )
    axes.margins(0.15)  # Room for the weights.
    axes.set_title("Numbers: weight of what is read", fontsize="small")
    axes.set_xlabel(_in_words(x))
    axes.set_ylabel(_in_words(y))
    return figure


def drawable(texts: Sequence[Any]) -> tuple[list[str], dict[str, Any]]:
    """Returns texts that matplotlib can draw, and keywords to draw them with.

    Invisible characters are replaced by signs, as `keras_seqmech.analysis.show`
    does; signs of mathematics, such as dollars, are drawn as they are. Each
    character is drawn in the first of the installed fonts that holds it; if no
    font does, matplotlib warns and draws a box. Then install a font, such as
    Noto (Debian: `apt-get install fonts-noto-cjk`), or use
    `keras_seqmech.analysis.show`, which draws in a browser.

    Args:
        texts: Strings.

    Returns:
        A text to draw for each given one, and the keywords `fontfamily` and
        `parse_math` of a matplotlib `Text`.

    Example:

    >>> texts, style = drawable(["so", "\\u00e4", " "])
    >>> texts
    ['so', 'ä', '␣']
    """
    installed = _load("font_manager").fontManager.get_font_names()
    families = [family for family in FAMILIES if family in installed]
    style = {"fontfamily": families, "parse_math": False}
    return [visible(text) for text in texts], style


def _figure_by_position(
    curves: Mapping[str, Any], title: str | None
) -> tuple["Figure", Any]:
    """One panel, a line for each curve over the positions in percent."""
    figure = _new_figure(7.4, 3.8, title)
    axes = figure.subplots()
    for curve in curves.values():
        axes.plot(np.linspace(0, 100, len(curve)), curve)
    axes.set_xlim(0, 100)
    axes.set_xlabel("position in the text (%)")
    axes.grid(True, color="0.92")
    _draw_legend(axes, curves)
    return figure, axes


def _set_log_scale(axes: Any) -> None:
    """A log scale with gaps for zeros, if there is anything else."""
    if any(np.any(np.asarray(line.get_ydata()) > 0) for line in axes.lines):
        axes.set_yscale("log", nonpositive="mask")


def _in_words(key: str) -> str:
    """The title of an axis, of a key such as `"look_mean_delay"`."""
    return key.replace("_", " ")


def _load(name: str) -> ModuleType:
    """A module of matplotlib, or an error that says how to get it."""
    try:
        return importlib.import_module(f"matplotlib.{name}")
    except ImportError as error:
        raise ImportError(
            "Figures need matplotlib; install it with "
            "`pip install '.[plots]'` in the checkout of keras_seqmech."
        ) from error


def _new_figure(width: float, height: float, title: str | None) -> "Figure":
    """An empty figure, of a size in inches, with a title of any characters."""
    size = (width, height)
    figure = _load("figure").Figure(figsize=size, layout="constrained")
    if title is not None:
        (text,), style = drawable([title])
        figure.suptitle(text, **style)
    return figure


def _draw_legend(axes: Any, names: Iterable[Any]) -> None:
    """A legend beside the axes; any name is literal, not math or hidden."""
    texts, style = drawable([str(name) for name in names])
    # matplotlib leaves out labels that start with an underscore.
    places = [str(i) for i in range(len(texts))]
    lines = axes.lines[: len(texts)]
    legend = axes.legend(
        lines, places, loc="upper left", bbox_to_anchor=(1.0, 1.0)
    )
    for drawn, text in zip(legend.get_texts(), texts):
        drawn.set(text=text, **style)
