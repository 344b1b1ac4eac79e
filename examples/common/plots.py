"""What several programs draw."""

from collections.abc import Sequence

import pandas as pd
from matplotlib import font_manager
from matplotlib.figure import Figure

from keras_seqmech.analysis.markup.characters import visible

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


def drawable(texts: Sequence[str]) -> tuple[list[str], dict]:
    """Texts that matplotlib can draw, and keywords to draw them with.

    Invisible characters are replaced by signs, as `analysis.show` does; dollars
    are drawn as they are. Each character is drawn in the first of the installed
    fonts that holds it; if none does, matplotlib warns and draws a box.
    """
    installed = font_manager.fontManager.get_font_names()
    families = [family for family in FAMILIES if family in installed]
    style = {"fontfamily": families, "parse_math": False}
    return [visible(text) for text in texts], style


def plot_history(histories: dict[str, dict], *quantities: str) -> Figure:
    """Quantities over training steps, a panel each, a line for each model.

    A history has sequences of one length: `"step"` and the quantities. Lines
    skip NaN, for values that were not measured.
    """
    size = (7.4, 1.8 + 1.6 * len(quantities))
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(len(quantities), sharex=True)
    for axes, quantity in zip(panels, quantities):
        for name, history in histories.items():
            values = pd.Series(history[quantity], history["step"]).dropna()
            axes.plot(values.index, values, label=name)
        axes.set_ylabel(quantity.replace("_", " "))
        axes.grid(color="0.92")
    panels[-1].set_xlabel("training step")
    panels[0].legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure
