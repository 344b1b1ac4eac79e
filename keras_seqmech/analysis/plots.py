"""Figures: one function each.

Each function returns a `matplotlib.figure.Figure`, which belongs to no window
and no global state: show it in a notebook, or write it with
`figure.savefig(path)`. Without matplotlib there is an ImportError.
"""

import importlib
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING
from typing import Any

import numpy as np

from keras_seqmech.analysis.characters import visible
from keras_seqmech.core import checks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "drawable",
    "plot_gradient_profiles",
    "plot_history",
    "plot_receptive_fields",
    "plot_word_importance",
]

LINE_COLORS = ("#1b6ca8", "#d1495b", "#3a7d44", "#8d5a97", "#b7791f")
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
    r"""Norm of the gradient $\lVert dL/dh_t \rVert$ by position, of models.

    The norms are on a log scale, where those that are exactly 0 leave a gap.

    Args:
        profiles: For each model its `gradient_profile`, of any length.
        title: Title of the figure.

    Raises:
        ValueError: If there is no profile, or one is no list of norms.

    Example:

    >>> profiles = {"bilstm": [1e-1, 1e-6, 1e-1], "maxpool": [0.1, 0.1, 0.1]}
    >>> figure = plot_gradient_profiles(profiles)

    Source: "Analyzing the Learnability and Representability of Recurrent
    Architectures", figure 1.2a.
    """
    figure, axes = _figure_by_position("profiles", profiles, title)
    _set_log_scale(axes)
    axes.set_ylabel(r"$\|\partial L/\partial h_t\|$")
    return figure


def plot_word_importance(
    importances: Mapping[str, Any],
    separators: Sequence[float] = (),
    title: str | None = None,
) -> "Figure":
    """Normalized word importance by position, of models.

    Args:
        importances: For each model its `normalized_word_importance`.
        separators: Where to draw a red vertical line, as a fraction of the
            text between 0 and 1: where noise begins or ends, as
            `original_span` tells.
        title: Title of the figure.

    Raises:
        ValueError: If there is no curve, or one is no list of numbers of at
            least 0.

    Example:

    >>> importances = {"bilstm": [0.6, 0.1, 0.5], "maxatt": [0.1, 0.7, 0.1]}
    >>> figure = plot_word_importance(importances, separators=(0.33, 0.67))

    Source: "Analyzing the Learnability and Representability of Recurrent
    Architectures", figure 1.9.
    """
    figure, axes = _figure_by_position("importances", importances, title)
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
    """Quantities over training steps, a panel each.

    Args:
        histories: For each model the equally long sequences `"step"` and the
            quantities, as in `VanishingRatio.history`. Numbers that are NaN
            were not measured: lines run past them.
        *quantities: Keys of the histories, such as `"vanishing_ratio"`.
        log_scale: Whether the first is on a log scale, where numbers that are
            0 leave a gap.
        title: Title of the figure.

    Raises:
        ValueError: If there is no history or no quantity, or a history lacks
            a sequence, or its sequences differ in length.

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
    _check_histories(histories, quantities)
    count = len(quantities)
    figure = _new_figure(7.4, 1.8 + 1.6 * count, title)
    panels = figure.subplots(count, squeeze=False, sharex=True)[:, 0]
    for axes, quantity in zip(panels, quantities):
        for i, history in enumerate(histories.values()):
            step, values = (
                np.asarray(history[key], dtype="float64")
                for key in ("step", quantity)
            )
            known = ~np.isnan(values)
            axes.plot(step[known], values[known], **_line_style(i))
        axes.set_ylabel(quantity.replace("_", " "))
        _clear_frame(axes)
    if log_scale:
        _set_log_scale(panels[0])
    panels[-1].set_xlabel("training step")
    _draw_legend(panels[0], histories)
    return figure


def plot_receptive_fields(
    tokens: Sequence[str],
    sizes: Sequence[float],
    max_size: int,
    title: str | None = None,
) -> "Figure":
    """Shows which tokens a model looked ahead at, and how far.

    Under each token a dot marks the step, and a bar runs from it over the
    tokens that were read there, `sizes[t]` in all. Bars take turns on
    `max_size` rows, so that none covers another. Long texts wrap.

    Characters that no installed font holds, such as Chinese ones on a bare
    machine, are boxes; see `drawable`.

    Args:
        tokens: The token of each step.
        sizes: Size of the field of each step, fractions allowed.
        max_size: The largest size, S.
        title: Title of the figure.

    Raises:
        ValueError: If there are no tokens, or not one size for each, or a
            size is not between 0 and `max_size`.

    Example:

    >>> tokens = ["not", "a", "good", "film"]
    >>> figure = plot_receptive_fields(tokens, [3, 1, 2, 1], max_size=4)
    >>> figure.savefig("fields.png")  # doctest: +SKIP
    """
    _check_fields(tokens, sizes, max_size)
    texts, style = drawable(tokens)
    longest = max(len(text) for text in texts)
    per_line = min(32 if longest <= 2 else 20, len(texts))
    lines = -(-len(texts) // per_line)
    line_height = 0.45 + 0.17 * max_size + 0.09 * longest
    figure = _new_figure(
        max(4.0, 1.4 + 0.36 * per_line), 0.8 + lines * line_height, title
    )
    scale = _load("cm").ScalarMappable(cmap="viridis_r")
    scale.set_clim(1, max(max_size, 2))
    all_axes = figure.subplots(lines, 1, squeeze=False)[:, 0]
    for line, axes in enumerate(all_axes):
        steps = range(line * per_line, (line + 1) * per_line)
        _draw_fields(axes, sizes, max_size, steps, scale)
        shown = steps[: len(texts) - steps.start]
        axes.set_xticks(
            shown,
            texts[shown.start : shown.stop],
            rotation=0 if longest <= 2 else 90,
            **style,
        )
    bar = figure.colorbar(scale, ax=all_axes, label="tokens read", shrink=0.9)
    bar.set_ticks(range(1, max(max_size, 2) + 1))
    return figure


def drawable(texts: Sequence[Any]) -> tuple[list[str], dict[str, Any]]:
    """Texts that matplotlib can draw, and keywords to draw them with.

    Characters that show no ink are replaced by signs, as
    `keras_seqmech.analysis.show` does; signs of mathematics, such as dollars,
    are drawn as they are. Each character has the first of the installed fonts
    that holds it; of one that none holds matplotlib warns, and draws a box.
    Then install a font, such as Noto (Debian: `apt-get install
    fonts-noto-cjk`), or see the text in a browser with
    `keras_seqmech.analysis.show`.

    Args:
        texts: Any strings.

    Returns:
        The texts to draw, as many, and the keywords `fontfamily` and
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
    name: str, curves: Any, title: str | None
) -> tuple["Figure", Any]:
    """One panel, a line for each curve over the positions in percent."""
    if not isinstance(curves, Mapping) or not curves:
        raise ValueError(
            f"Argument `{name}` must be a mapping from names to curves, of at "
            f"least one. Received: {name}={curves!r}"
        )
    figure = _new_figure(7.4, 3.8, title)
    axes = figure.subplots()
    for i, (key, curve) in enumerate(curves.items()):
        array = np.asarray(curve, dtype="float64")
        fits = array.ndim == 1 and array.size
        if not fits or not ((array >= 0) & (array < np.inf)).all():
            raise ValueError(
                f"Argument `{name}` must hold sequences of finite numbers of "
                f"at least 0. Received: {name}[{key!r}]={curve!r}"
            )
        place = np.linspace(0, 100, len(array))
        axes.plot(place, array, **_line_style(i))
    axes.set_xlim(0, 100)
    axes.set_xlabel("position in the text (%)")
    _clear_frame(axes)
    _draw_legend(axes, curves)
    return figure, axes


def _set_log_scale(axes: Any) -> None:
    """A log scale with gaps for zeros, if there is anything else."""
    if any(np.any(np.asarray(line.get_ydata()) > 0) for line in axes.lines):
        axes.set_yscale("log", nonpositive="mask")


def _check_histories(histories: Mapping, quantities: Sequence[str]) -> None:
    if not histories or not quantities:
        raise ValueError(
            "Arguments `histories` and `quantities` must hold at least one "
            f"each. Received: histories={histories!r}, quantities={quantities}"
        )
    for name, history in histories.items():
        keys = ("step", *quantities)
        missing = set(keys) - set(history)
        lengths = {len(history[key]) for key in keys if key in history}
        if missing or len(lengths) > 1:
            raise ValueError(
                f"Each of `histories` must hold {list(keys)}, equally long. "
                f"Received: histories[{name!r}] with "
                f"{ {key: len(history[key]) for key in history} }"
            )


def _check_fields(
    tokens: Sequence[str], sizes: Sequence[float], max_size: int
) -> None:
    checks.check_positive_int("max_size", max_size)
    if len(tokens) == 0 or len(tokens) != len(sizes):
        raise ValueError(
            "Arguments `tokens` and `sizes` must be of the same length, at "
            f"least 1. Received: {len(tokens)} tokens, {len(sizes)} sizes"
        )
    for t, size in enumerate(sizes):
        if not 0 <= size <= max_size:
            raise ValueError(
                f"Argument `sizes` must lie between 0 and max_size={max_size}."
                f" Received: sizes[{t}]={size!r}"
            )


def _draw_fields(
    axes: Any, sizes: Sequence[float], max_size: int, steps: range, scale: Any
) -> None:
    """Draws the fields of one line of steps; they may run past its end."""
    stop = min(steps.stop, len(sizes))
    for t in range(max(0, steps.start - max_size + 1), stop):
        size, row = float(sizes[t]), t % max_size
        if size <= 0:
            continue
        color = scale.to_rgba(size)
        left = max(t, steps.start - 0.5)
        right = min(t + size - 1, steps.stop - 0.5)
        if right > left:
            axes.plot(
                [left, right],
                [row, row],
                color=color,
                linewidth=4,
                solid_capstyle="butt",
            )
        if t >= steps.start:
            axes.plot(t, row, "o", color=color, markersize=7)
    axes.set_xlim(steps.start - 0.6, steps.stop - 0.4)
    axes.set_ylim(max_size - 0.4, -0.6)
    axes.set_yticks([])
    axes.tick_params(axis="x", length=0, top=False)
    axes.xaxis.tick_top()
    axes.grid(axis="x", color="0.9", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[:].set_visible(False)


def _load(name: str) -> ModuleType:
    """A module of matplotlib, or an error that says how to get it."""
    try:
        return importlib.import_module(f"matplotlib.{name}")
    except ImportError as error:
        raise ImportError(
            "Figures need matplotlib; install it with "
            "`pip install 'keras_seqmech[plots]'`."
        ) from error


def _new_figure(width: float, height: float, title: str | None) -> "Figure":
    """An empty figure, of a size in inches, with a title of any characters."""
    size = (width, height)
    figure = _load("figure").Figure(figsize=size, layout="constrained")
    if title is not None:
        (text,), style = drawable([title])
        figure.suptitle(text, **style)
    return figure


def _line_style(i: int) -> dict[str, Any]:
    """Keywords of the i-th line: colors in turn, then with dashes."""
    dashes = ("solid", "dashed", "dotted")
    return {
        "color": LINE_COLORS[i % len(LINE_COLORS)],
        "linestyle": dashes[i // len(LINE_COLORS) % len(dashes)],
        "linewidth": 1.8,
    }


def _clear_frame(axes: Any) -> None:
    """Takes away the upper and right line; a light grid behind the data."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, color="0.92", linewidth=0.8)
    axes.set_axisbelow(True)


def _draw_legend(axes: Any, names: Iterable[Any]) -> None:
    """A legend beside the axes; any name is literal, not math or hidden."""
    texts, style = drawable([str(name) for name in names])
    # matplotlib leaves out labels that start with an underscore.
    places = [str(i) for i in range(len(texts))]
    legend = axes.legend(
        axes.lines[: len(texts)],
        places,
        frameon=False,
        loc="upper left",
        bbox_to_anchor=(1.0, 1.0),
    )
    for drawn, text in zip(legend.get_texts(), texts):
        drawn.set(text=text, **style)
