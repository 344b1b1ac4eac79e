"""F1 over the emission delay: the picture, and differences at equal delay.

    python -m examples.receptive_field.delay_figure

reads the rows of the studies `delay`, `delay_msr` and `delay_short`, writes
`docs/figures/delay.png`, and prints how far `LookAhead` and adaptive fields are
above what users write: the difference of F1 to a model's line at the same
delay, straight between its settings, of runs with the same seed.
"""

import math
import pathlib
from collections.abc import Iterator
from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from examples.common import arguments
from examples.common import tables

ROOT = pathlib.Path(__file__).parents[2]
ROWS = ROOT / "docs" / "results" / "rows"
TITLES = {
    "code": "Python source:\nkinds of tokens",
    "spaces": "English without\nspaces: words",
    "people_daily": "Chinese:\nwords",
}
# Format, colour and label of each model.
STYLES = {
    "look_ahead+dense": ("D-", "tab:red", "LookAhead"),
    "window+dense": ("o--", "dimgray", "window of 1, 2, 3"),
    "convolution": ("s:", "darkgray", "convolution"),
}
USERS = ("window+lower", "convolution", "window+dense")
OURS = ("look_ahead", "look_ahead+dense", "adaptive field")


def draw(
    rows: pd.DataFrame,
    styles: Mapping[str, tuple[str, str | None, str]] = STYLES,
) -> Figure:
    """F1 over the mean delay, means over seeds, a panel a task."""
    found = {*rows["task"]}
    tasks = [x for x in TITLES if x in found] + sorted(found - {*TITLES})
    figure = Figure(figsize=(0.5 + 1.7 * len(tasks), 3.1), layout="constrained")
    panels = figure.subplots(1, len(tasks), squeeze=False)[0]
    for axes, task in zip(panels, tasks):
        for model, (style, colour, label) in styles.items():
            own = rows[(rows["task"] == task) & (rows["model"] == model)]
            line = own.groupby("setting")[["delay", "f1"]].mean()
            line = line.sort_values("delay")
            axes.plot(line["delay"], line["f1"], style, c=colour, label=label)
        axes.set_title(TITLES.get(task, task), fontsize="medium")
        right = math.ceil(axes.dataLim.x1)
        axes.set_xlim(0, right + 0.2)
        axes.set_xticks(range(right + 1))
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


def gains(rows: pd.DataFrame) -> Iterator[dict[str, str]]:
    """F1 of `OURS` less the lines of `USERS`, by task, model and setting."""
    kinds = ["task", "model", "setting"]
    ours = rows[rows["model"].isin(OURS)]
    for case, own in ours.groupby(kinds, sort=False):
        yield {
            **dict(zip(kinds, map(str, case))),
            "delay": f"{own['delay'].mean():.2f}",
            **{name: _above(own, rows, name) for name in USERS},
        }


def _above(own: pd.DataFrame, rows: pd.DataFrame, user: str) -> str:
    """Mean and range of the differences to a user's model; "" without any."""
    differences = []
    for run in own.itertuples():
        same = rows[(rows["task"] == run.task) & (rows["seeds"] == run.seeds)]
        line = same[same["model"].isin(["lstm", user])].sort_values("delay")
        if user in {*line["model"]}:
            level = np.interp(run.delay, line["delay"], line["f1"])
            differences.append(run.f1 - level)
    if not differences:
        return ""
    low, high = min(differences), max(differences)
    text = f"{np.mean(differences):+.2f}"
    return f"{text} [{low:.2f}, {high:.2f}]" if len(differences) > 1 else text


def main(argv: list[str] | None = None) -> None:
    """Reads the rows, writes the picture and prints the differences."""
    parser = arguments.parser(__doc__)
    add = parser.add_argument
    picture = ROOT / "docs" / "figures" / "delay.png"
    add("--rows", type=pathlib.Path, default=ROWS, help="folder of rows")
    add("--output", type=pathlib.Path, default=picture)
    args = parser.parse_args(argv)
    rows = pd.read_csv(args.rows / "delay.csv")
    draw(rows).savefig(args.output, dpi=200)
    print(f"As a picture: {args.output}")
    msr = pd.read_csv(args.rows / "delay_msr.csv")
    short = pd.read_csv(args.rows / "delay_short.csv")
    short["task"] += ", short"
    found = [*gains(pd.concat([rows, msr, short]))]
    print(tables.table([[*found[0]], *(line.values() for line in found)]))


if __name__ == "__main__":
    main()
