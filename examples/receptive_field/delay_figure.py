"""F1 over the emission delay: the picture, and differences at equal delay.

    python -m examples.receptive_field.delay_figure

reads the rows of the studies `delay`, draws those of one model for every delay
on five tasks, and prints how far `LookAhead` and adaptive fields are above what
users write: the difference of F1 to a model's line at the same mean delay,
straight between its settings, of runs with the same seed; to windows also at
the same 95th percentile. Nothing is extrapolated. Last comes how long models of
all delays wait to be as right as a window of one step.
"""

import pathlib
from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator

from examples.common import arguments
from examples.common import tables

ROOT = pathlib.Path(__file__).parents[2]
ROWS = ROOT / "docs" / "results" / "rows"
# What is drawn, with titles: of each task its score and what arrives.
DRAWN = {
    "german": (
        "Sounds of a German\nword that is typed",
        "words all right (%)",
        "letters",
    ),
    "sounds": (
        "Sounds of a word\nthat is typed",
        "words all right (%)",
        "letters",
    ),
    "marks": ("Commas and stops\nof running text", "F1 (%)", "words"),
    "spaces": ("English without\nspaces: words", "F1 (%)", "letters"),
    "people_daily": ("Chinese:\nwords", "F1 (%)", "characters"),
}
ONE = ("delay_one", "delay_one_msr")
ONE += ("delay_sounds", "delay_german", "delay_marks")
STUDIES = {
    ("delay", "delay_msr"): "",
    ("delay_short",): ", short",
    ONE: ", one",
    ("delay_sounds_longer",): ", one, longer",
}
# Format, colour and label of each model.
STYLES = {
    "one_look_ahead+dense": ("D-", "tab:red", "LookAhead, one training"),
    "one_confident+dense": ("^-", "tab:blue", "once confident, one training"),
    "look_ahead+dense": ("x", "tab:red", "LookAhead, a training each"),
    "window+dense": ("o--", "dimgray", "windows, a training each"),
    "convolution": ("s:", "darkgray", "convolutions, a training each"),
}
USERS = ("window+lower", "convolution", "window+dense", "one_confident+dense")
OURS = ("look_ahead", "look_ahead+dense")
OURS += ("adaptive field", "one_limit+dense", "one_look_ahead+dense")


def draw(rows: pd.DataFrame) -> Figure:
    """F1 over the mean delay, a panel a task: mean and range of seeds.

    The line of windows begins with an LSTM, which waits for nothing.
    """
    tasks = [*dict.fromkeys(rows["task"])]
    figure = Figure(figsize=(0.5 + 1.9 * len(tasks), 3.6), layout="constrained")
    panels = figure.subplots(1, len(tasks), squeeze=False)[0]
    for axes, task in zip(panels, tasks):
        title, score, waited = DRAWN[task]
        for model, (style, colour, label) in STYLES.items():
            models = [model, "lstm"] if model == "window+dense" else [model]
            own = rows[(rows["task"] == task) & rows["model"].isin(models)]
            grouped = own.groupby("setting")[["delay", "f1"]]
            line = grouped.mean().sort_values("delay")
            low, high = grouped.min()["f1"], grouped.max()["f1"]
            spread = line["f1"] - low, high - line["f1"]
            axes.errorbar(
                line["delay"],
                line["f1"],
                [x[line.index] for x in spread],
                fmt=style,
                c=colour,
                label=label,
                capsize=2,
                markersize=4,
            )
        axes.set_title(title, fontsize="medium")
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xlim(0, 4.2)
        axes.xaxis.set_major_locator(MultipleLocator(1))
        axes.set_ylabel(score)
        axes.set_xlabel(f"{waited} waited")
    figure.supxlabel("mean wait for an answer", fontsize="medium")
    handles, labels = panels[0].get_legend_handles_labels()
    place = "outside upper center"
    figure.legend(
        handles, labels, loc=place, ncols=2, fontsize="small", frameon=False
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
            **{name: _above(own, rows, name, "delay") for name in USERS},
            "95 %": f"{own['delay_95'].mean():.2f}",
            "window+dense at equal 95 %": _above(
                own, rows, "window+dense", "delay_95"
            ),
        }


def _above(
    own: pd.DataFrame, rows: pd.DataFrame, user: str, measure: str
) -> str:
    """Mean and range of the differences to a user's model at equal delay.

    Of the seeds that the model has; "" for none, or where a run waits for less
    or longer than each of its settings, or of an LSTM.
    """
    differences = []
    for run in own.to_dict("records"):
        same = rows[
            (rows["task"] == run["task"]) & (rows["seeds"] == run["seeds"])
        ]
        line = same[same["model"].isin(["lstm", user])].sort_values(measure)
        if user not in {*line["model"]}:
            continue
        if not line[measure].min() <= run[measure] <= line[measure].max():
            return ""
        level = np.interp(run[measure], line[measure], line["f1"])
        differences.append(run["f1"] - level)
    if not differences:
        return ""
    low, high = min(differences), max(differences)
    text = f"{np.mean(differences):+.2f}"
    return f"{text} [{low:.2f}, {high:.2f}]" if len(differences) > 1 else text


def reached(rows: pd.DataFrame) -> Iterator[dict[str, str]]:
    """How long models wait to be as right as a window of one step.

    The mean wait, as a share of that window's, by task and model: mean over
    seeds.
    """
    for (task, model), own in rows.groupby(["task", "model"], sort=False):
        shares = []
        for seed, line in own.groupby("seeds"):
            same = rows[(rows["task"] == task) & (rows["seeds"] == seed)]
            window = same[
                (same["model"] == "window+dense") & (same["setting"] == 1)
            ]
            start = same[same["model"] == "lstm"]
            line = pd.concat([start, line]).sort_values("delay")
            best = line["f1"].cummax()
            if len(window) == 1 and window["f1"].item() <= best.max():
                wait = np.interp(window["f1"].item(), best, line["delay"])
                shares.append(wait / window["delay"].item())
        if model.startswith("one_") and shares:
            share, seeds = f"{np.mean(shares):.2f}", str(len(shares))
            yield {"task": task, "model": model, "wait": share, "seeds": seeds}


def main(argv: list[str] | None = None) -> None:
    """Reads the rows, writes the picture and prints the differences."""
    parser = arguments.parser(__doc__)
    add = parser.add_argument
    picture = ROOT / "docs" / "figures" / "delay.png"
    add("--rows", type=pathlib.Path, default=ROWS, help="folder of rows")
    add("--output", type=pathlib.Path, default=picture)
    args = parser.parse_args(argv)
    found, shares = [], []
    for names, label in STUDIES.items():
        rows = pd.concat(pd.read_csv(args.rows / f"{x}.csv") for x in names)
        if "delay_sounds" in names:
            shown = pd.concat(rows[rows["task"] == task] for task in DRAWN)
            draw(shown).savefig(args.output, dpi=200)
            print(f"As a picture: {args.output}")
        rows["task"] += label
        found += gains(rows)
        shares += reached(rows)
    for lines in (found, shares):
        print(tables.table([[*lines[0]], *(line.values() for line in lines)]))
        print()


if __name__ == "__main__":
    main()
