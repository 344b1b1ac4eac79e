"""Draws F1 over the emission delay from the kept rows of the study `delay`.

    python -m examples.receptive_field.delay_figure

writes `docs/figures/delay.png`: `LookAhead` beside an LSTM over windows, with
the same lower LSTM, and a convolution; points are means over seeds.
"""

import argparse
import pathlib

import pandas as pd
from matplotlib.figure import Figure

ROOT = pathlib.Path(__file__).parents[2]
TASKS = {
    "code": "Python source:\nkinds of tokens",
    "spaces": "English without\nspaces: words",
    "people_daily": "Chinese:\nwords",
}
MODELS = {
    "look_ahead": ("D-", "tab:red", "LookAhead"),
    "window+lower": ("o--", "dimgray", "LSTM over the next 1, 2, 3"),
    "convolution": ("s:", "darkgray", "convolution, LSTM"),
}


def draw(rows: pd.DataFrame) -> Figure:
    """F1 over the mean delay, a panel a task."""
    figure = Figure(figsize=(5.6, 3.1), layout="constrained")
    panels = figure.subplots(1, len(TASKS))
    for axes, (task, title) in zip(panels, TASKS.items()):
        for model, (style, colour, label) in MODELS.items():
            own = rows[(rows["task"] == task) & (rows["model"] == model)]
            line = own.groupby("setting")[["delay", "f1"]].mean()
            line = line.sort_values("delay")
            axes.plot(line["delay"], line["f1"], style, c=colour, label=label)
        axes.set_title(title, fontsize="medium")
        axes.set_xlim(0, 3.2)
        axes.set_xticks(range(4))
        axes.locator_params(axis="y", nbins=5)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("F1 (%)")
    waited = "characters that a tag waits for, on average"
    figure.supxlabel(waited, fontsize="medium")
    handles, labels = panels[0].get_legend_handles_labels()
    place = "outside upper center"
    figure.legend(
        handles, labels, loc=place, ncols=3, fontsize="small", frameon=False
    )
    return figure


def main(argv: list[str] | None = None) -> None:
    """Reads the rows and writes the picture."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    rows = ROOT / "docs" / "results" / "rows" / "delay.csv"
    add("--rows", type=pathlib.Path, default=rows)
    picture = ROOT / "docs" / "figures" / "delay.png"
    add("--output", type=pathlib.Path, default=picture)
    args = parser.parse_args(argv)
    draw(pd.read_csv(args.rows)).savefig(args.output, dpi=200)
    print(args.output)


if __name__ == "__main__":
    main()
