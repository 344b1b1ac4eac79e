"""What several programs draw."""

import pandas as pd
from matplotlib.figure import Figure


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
