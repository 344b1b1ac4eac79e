"""What all figures share: frames, legends, titles."""

from collections.abc import Iterable
from typing import TYPE_CHECKING
from typing import Any

from keras_seqmech.analysis.plots.fonts import drawable
from keras_seqmech.analysis.plots.fonts import load

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINE_COLORS = ("#1b6ca8", "#d1495b", "#3a7d44", "#8d5a97", "#b7791f")


def new_figure(width: float, height: float, title: str | None) -> "Figure":
    """An empty figure, of a size in inches, with a title of any characters."""
    size = (width, height)
    figure = load("figure").Figure(figsize=size, layout="constrained")
    if title is not None:
        (text,), style = drawable([title])
        figure.suptitle(text, **style)
    return figure


def line_style(i: int) -> dict[str, Any]:
    """Keywords of the i-th line: colors in turn, then with dashes."""
    dashes = ("solid", "dashed", "dotted")
    return {
        "color": LINE_COLORS[i % len(LINE_COLORS)],
        "linestyle": dashes[i // len(LINE_COLORS) % len(dashes)],
        "linewidth": 1.8,
    }


def clear_frame(axes: Any) -> None:
    """Takes away the upper and right line; a light grid behind the data."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, color="0.92", linewidth=0.8)
    axes.set_axisbelow(True)


def draw_legend(axes: Any, names: Iterable[Any]) -> None:
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
