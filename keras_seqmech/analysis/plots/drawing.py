"""What all figures share: matplotlib itself, frames, legends, titles."""

import importlib
from collections.abc import Collection
from types import ModuleType
from typing import TYPE_CHECKING
from typing import Any

from keras_seqmech.analysis.plots import text as figure_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Where a legend is placed beside its axes.
BESIDE: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
LINE_COLORS = ("#1b6ca8", "#d1495b", "#3a7d44", "#8d5a97", "#b7791f")


def load(name: str) -> ModuleType:
    """A module of matplotlib, or an error that says how to get it."""
    try:
        return importlib.import_module(f"matplotlib.{name}")
    except ImportError as error:
        raise ImportError(
            "Figures need matplotlib; install it with "
            "`pip install 'keras_seqmech[plots]'`."
        ) from error


def new_figure(width: float, height: float) -> Any:
    """An empty figure, of a size in inches."""
    size = (width, height)
    return load("figure").Figure(figsize=size, layout="constrained")


def panels_with_accuracy(width: float, with_accuracy: bool) -> tuple[Any, Any]:
    """A figure and its panels: one, and one of accuracy below it if asked."""
    figure = new_figure(width, 5.0 if with_accuracy else 3.4)
    panels = figure.subplots(
        1 + with_accuracy,
        1,
        squeeze=False,
        sharex=True,
        height_ratios=(3, 2)[: 1 + with_accuracy],
    )
    return figure, panels[:, 0]


def line_color(i: int) -> str:
    """The color of the i-th line: colors in turn."""
    return LINE_COLORS[i % len(LINE_COLORS)]


def line_style(i: int) -> dict[str, Any]:
    """Keywords of the i-th line: colors in turn, then with dashes."""
    dashes = ("solid", "dashed", "dotted")
    return {
        "color": line_color(i),
        "linestyle": dashes[i // len(LINE_COLORS) % len(dashes)],
        "linewidth": 1.8,
    }


def clear_frame(axes: Any, grid: bool) -> None:
    """Takes away the upper and right line; a light grid behind the data."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(grid, color="0.92", linewidth=0.8)
    axes.set_axisbelow(True)


def draw_legend(
    axes: Any,
    names: Collection[Any],
    lines: list | None = None,
    **keywords: Any,
) -> None:
    """A legend that shows any name literally, not as math or hidden."""
    places = [str(i) for i in range(len(names))]
    lines = axes.lines if lines is None else lines
    legend = axes.legend(lines, places, frameon=False, **keywords)
    shown, family = figure_text.drawable([str(name) for name in names])
    for text, name in zip(legend.get_texts(), shown):
        text.set_parse_math(False)
        text.set_fontfamily(family)
        text.set_text(name)


def set_title(figure: "Figure", title: str | None) -> None:
    """Puts a title of any characters over a figure."""
    if title is not None:
        (text,), family = figure_text.drawable([title])
        figure.suptitle(text, fontfamily=family, parse_math=False)
